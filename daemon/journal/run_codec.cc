#include "daemon/journal/run_codec.h"

#include <memory>
#include <string>

#include "absl/strings/strip.h"
#include "proto/status/status_proto.h"

namespace pto::daemon {

journal::v1::RunRecord ToJournal(const RunRecord& run, uint64_t number, uint64_t own_number,
                                 const Digest& digest) {
  journal::v1::RunRecord out;
  out.set_session(std::string(absl::StripPrefix(*run.session, "sessions/")));
  out.set_id(run.id);
  if (run.owner != nullptr) out.set_owner(*run.owner);
  out.set_number(number);
  out.set_own_number(own_number);
  out.set_digest_high(digest.high);
  out.set_digest_low(digest.low);
  out.set_digest_version(digest.version);
  if (run.graph != nullptr) out.set_graph(*run.graph);
  for (const auto& [key, value] : run.labels) (*out.mutable_labels())[key] = value;
  out.set_open(run.open);
  out.set_tasks_total(run.tasks_total);
  out.set_create_ns(absl::ToUnixNanos(run.create_time));
  return out;
}

journal::v1::RunRecord ToJournal(const RunRecord& run, uint64_t number, uint64_t own_number,
                                 const Digest& digest, engine::RunState state) {
  journal::v1::RunRecord out = ToJournal(run, number, own_number, digest);
  out.set_state(static_cast<uint32_t>(state));
  out.set_tasks_done(run.counts.done);
  out.set_tasks_failed(run.counts.failed);
  out.set_tasks_skipped(run.counts.skipped);
  out.set_errors_unlisted(run.counts.errors_unlisted);
  for (const absl::Status& error : run.errors) *out.add_errors() = StatusToProto(error);
  out.set_queue_ns(run.queue_ns);
  out.set_run_ns(run.run_ns);
  out.set_total_ns(run.total_ns);
  return out;
}

RunRecord FromJournal(const journal::v1::RunRecord& record) {
  RunRecord run;
  run.id = record.id();
  if (!record.graph().empty()) run.graph = std::make_shared<const std::string>(record.graph());
  for (const auto& [key, value] : record.labels()) run.labels.emplace(key, value);
  run.open = record.open();
  run.tasks_total = record.tasks_total();
  run.create_time = absl::FromUnixNanos(record.create_ns());
  run.counts.done = record.tasks_done();
  run.counts.failed = record.tasks_failed();
  run.counts.skipped = record.tasks_skipped();
  run.counts.errors_unlisted = record.errors_unlisted();
  for (const v1::Status& error : record.errors()) run.errors.push_back(StatusFromProto(error));
  run.queue_ns = record.queue_ns();
  run.run_ns = record.run_ns();
  run.total_ns = record.total_ns();
  return run;
}

Digest DigestOfJournal(const journal::v1::RunRecord& record) {
  // The session chose the id of this run, so a request that names the id means another run.
  if (record.own_number() != 0) return {};
  if (record.digest_high() == 0 && record.digest_low() == 0) return {};
  const uint32_t version = record.digest_version();
  return {record.digest_high(), record.digest_low(),
          version == 0 ? Digest::kFirstVersion : version};
}

}  // namespace pto::daemon
