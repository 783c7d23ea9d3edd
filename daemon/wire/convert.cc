#include "daemon/wire/convert.h"

#include <algorithm>
#include <variant>
#include <vector>

#include "daemon/kernels/session_kernels.h"
#include "daemon/names/names.h"
#include "daemon/names/window_name.h"
#include "daemon/wire/request.h"
#include "daemon/wire/task_columns.h"
#include "kernels/domain_scalar.h"
#include "kernels/kernel_info.h"
#include "proto/status/status_proto.h"
#include "proto/status/utf8.h"

namespace pto::daemon {
namespace {

constexpr size_t kMaxDescription = 1024;

// The engine's enums have the same numbers as the API's.
static_assert(static_cast<int>(engine::RunState::kCancelled) == v1::Run::CANCELLED);
static_assert(static_cast<int>(engine::RunState::kQueued) == v1::Run::QUEUED);
static_assert(static_cast<int>(engine::TaskOutcome::kSkipped) == v1::TaskEvents::SKIPPED);
static_assert(static_cast<int>(engine::TaskOutcome::kPassedOver) == v1::TaskEvents::PASSED_OVER);
static_assert(PTO_BOOL == static_cast<int>(v1::BOOL));
static_assert(PTO_MIX == static_cast<int>(v1::MIX));
static_assert(PTO_NO_DEPENDENCY == static_cast<int>(v1::NO_DEPENDENCY));
static_assert(PTO_EQ == static_cast<int>(v1::EQ) && PTO_LE == static_cast<int>(v1::LE));
static_assert(PTO_SET == static_cast<int>(v1::SET) && PTO_ADD == static_cast<int>(v1::ADD));

}  // namespace

void ToProto(const RunStatus& status, v1::Run* run) {
  const RunRecord& record = *status.run;
  run->set_name(record.name());
  run->set_state(static_cast<v1::Run::State>(status.state));
  if (record.graph != nullptr) run->set_graph(*record.graph);
  run->set_as_of_sequence(status.as_of_sequence);
  run->set_tasks_total(status.tasks_total);
  run->set_tasks_done(status.counts.done);
  run->set_tasks_failed(status.counts.failed);
  run->set_tasks_skipped(status.counts.skipped);
  run->set_errors_unlisted(status.counts.errors_unlisted);
  for (size_t i = 0; i < status.errors.size(); ++i) {
    *(i == 0 ? run->mutable_error() : run->add_more_errors()) = StatusToProto(status.errors[i]);
  }
  SetTimestamp(record.create_time, run->mutable_create_time());
  const bool started = status.queue_ns != 0 || status.run_ns != 0;
  if (started) {
    SetTimestamp(record.create_time + absl::Nanoseconds(status.queue_ns),
                 run->mutable_start_time());
  }
  if (engine::IsFinal(status.state)) {
    SetTimestamp(record.create_time + absl::Nanoseconds(status.total_ns), run->mutable_end_time());
  }
  for (const auto& [key, value] : record.labels) (*run->mutable_labels())[key] = value;
  run->set_queue_ns(status.queue_ns);
  run->set_run_ns(status.run_ns);
  run->set_open(status.open);
}

void ToProto(const RunStatus& status, uint64_t tag, v1::LaunchCompletion* completion) {
  completion->set_tag(tag);
  completion->set_run(status.run->name());
  completion->set_state(static_cast<v1::Run::State>(status.state));
  if (!status.errors.empty()) *completion->mutable_error() = StatusToProto(status.errors[0]);
  completion->set_queue_ns(status.queue_ns);
  completion->set_run_ns(status.run_ns);
}

void ToProto(Session& session, const std::string& boot_id, v1::Session* proto) {
  proto->set_name(session.name());
  proto->set_state(session.ended() ? v1::Session::ENDED : v1::Session::ACTIVE);
  SetDuration(session.options().ttl, proto->mutable_ttl());
  const Clock& clock = *session.options().clock;
  SetTimestamp(clock.WallTime() + absl::Nanoseconds(session.expire_ns() - clock.NowNanos()),
               proto->mutable_expire_time());
  SetTimestamp(session.create_time(), proto->mutable_create_time());
  for (const auto& [key, value] : session.options().labels) {
    (*proto->mutable_labels())[key] = value;
  }
  proto->set_api_version(session.options().api_version);
  proto->set_weight(session.options().weight);
  proto->set_boot_id(boot_id);
  proto->set_owner(session.owner());
  proto->set_client(session.options().client);
  if (!session.options().lease.empty()) {
    proto->set_lease(names::Session(session.options().lease));
  }
  const Session::Usage usage = session.usage();
  v1::Session::Usage* out = proto->mutable_usage();
  out->set_buffers(usage.buffers);
  out->set_device_bytes(usage.device_bytes);
  out->set_graphs(usage.graphs);
  out->set_active_runs(usage.active_runs);
  out->set_finished_runs(usage.finished_runs);
  out->set_event_log_bytes(session.log().bytes());
  out->set_last_sequence(session.log().last_sequence());
  out->set_windows(usage.windows);
  out->set_tasks(usage.tasks);
}

void ToProto(const std::string& session_id, const SessionBuffer& buffer, v1::Buffer* proto) {
  proto->set_name(names::AnyBufferName(session_id, buffer.id));
  proto->set_chip(names::Chip(buffer.memory->chip()));
  proto->set_bytes(buffer.memory->bytes());
  proto->set_in_use(buffer.in_use.load(std::memory_order_acquire));
}

void ToProto(const RegisteredGraph& graph, v1::Graph* proto) {
  const engine::GraphImage& image = *graph.image;
  proto->set_name(*graph.name);
  proto->set_task_count(image.task_count());
  proto->set_edge_count(image.edge_count());
  for (const engine::ImageSlot& slot : image.slots()) {
    if (slot.chip == engine::ImageSlot::kUnused) continue;
    v1::Graph::Slot* out = proto->add_slots();
    out->set_name(std::string(image.text(slot.name)));
    if (slot.chip != engine::ImageSlot::kAnyChip) out->set_chip(names::Chip(slot.chip));
    out->set_min_bytes(slot.min_bytes);
  }
  std::vector<std::string> scalars;
  for (const engine::ImageScalar& scalar : image.scalar_names()) {
    if (scalar.type == kDomainScalar) continue;
    scalars.emplace_back(image.text(scalar.name));
  }
  std::sort(scalars.begin(), scalars.end());
  for (std::string& name : scalars) proto->add_scalars(std::move(name));
  SetTimestamp(graph.create_time, proto->mutable_create_time());
  proto->set_launch_count(graph.launch_count.load(std::memory_order_relaxed));
}

void ToProto(const Kernel& kernel, v1::Kernel* proto) {
  const pto_kernel_info& info = kernel.info();
  proto->set_name(names::Kernel(info.name));
  // An uploaded kernel says what it likes.
  proto->set_description(CutUtf8(info.description, kMaxDescription));
  proto->set_built_in(kernel.built_in());
  proto->set_default_core(static_cast<v1::Core>(info.default_core));
  for (uint32_t i = 0; i < info.argument_count; ++i) {
    const pto_argument_info& argument = info.arguments[i];
    v1::Kernel::Argument* out = proto->add_arguments();
    out->set_name(argument.name);
    out->set_direction(static_cast<v1::Direction>(argument.direction));
    const pto_overlap_info overlap = OverlapOf(info, i);
    for (uint32_t other = 0; other < info.argument_count; ++other) {
      const char* const name = info.arguments[other].name;
      if ((overlap.same >> other & 1) != 0) out->add_same_as(name);
      if ((overlap.any >> other & 1) != 0) out->add_may_overlap(name);
    }
    if (argument.dtypes == PTO_DTYPE_ALL) continue;
    for (int dtype = PTO_F32; dtype <= PTO_BOOL; ++dtype) {
      if ((argument.dtypes & PTO_DTYPE_BIT(dtype)) != 0) {
        out->add_dtypes(static_cast<v1::DType>(dtype));
      }
    }
  }
  for (uint32_t i = 0; i < info.scalar_count; ++i) {
    v1::Kernel::ScalarParameter* out = proto->add_scalars();
    out->set_name(info.scalars[i].name);
    out->set_type(static_cast<v1::Kernel::ScalarParameter::Type>(info.scalars[i].type));
  }
  proto->set_requires_sync_start(info.requires_sync_start != 0);
  proto->set_waits((info.flags & PTO_KERNEL_WAITS) != 0);
  proto->set_blocks((info.flags & PTO_KERNEL_BLOCKS) != 0);
  proto->set_control(info.control != PTO_CONTROL_NONE);
}

void ToProto(const std::string& session_id, const SessionKernel& kernel, v1::Kernel* proto) {
  ToProto(*kernel.kernel, proto);
  proto->set_name(names::ChildName(session_id, "kernels", kernel.id));
  // The engine counts all of them as such: no thread of its own runs them.
  proto->set_blocks(kernel.blocks);
  proto->set_abi(kernel.signature.empty() ? v1::Kernel::OWN : v1::Kernel::PTO);
  proto->set_file_name(kernel.file_name);
  proto->set_file_bytes(kernel.file->bytes);
  proto->set_sha256(kernel.file->sha256);
  proto->set_signature(kernel.signature);
  SetTimestamp(kernel.create_time, proto->mutable_create_time());
}

void ToProto(const LogEntry& entry, Session& session, const std::string& boot_id,
             v1::Event* proto) {
  proto->set_sequence(entry.sequence);
  SetTimestamp(entry.time, proto->mutable_time());
  if (const auto* run = std::get_if<RunEvent>(&entry.event)) {
    ToProto(StatusAt(run->run, run->state, entry.sequence), proto->mutable_run());
  } else if (const auto* tasks = std::get_if<TaskBlock>(&entry.event)) {
    proto->mutable_tasks()->set_run(tasks->run->name());
    AddTaskColumns(tasks->tasks, entry.skip, proto->mutable_tasks());
  } else if (const auto* errors = std::get_if<RunErrors>(&entry.event)) {
    proto->mutable_errors()->set_run(errors->run->name());
    for (const absl::Status& error : *errors->errors) {
      *proto->mutable_errors()->add_errors() = StatusToProto(error);
    }
  } else if (const auto* stall = std::get_if<RunStall>(&entry.event)) {
    v1::RunStalled& out = *proto->mutable_stalled();
    out.set_run(stall->run->name());
    out.set_verdict(static_cast<v1::ExplainRunResponse::Verdict>(stall->verdict));
    SetDuration(stall->idle, out.mutable_since_last_progress());
    out.set_summary(stall->summary);
  } else if (std::holds_alternative<Dropped>(entry.event)) {
    proto->mutable_dropped()->set_last_sequence(std::get<Dropped>(entry.event).last_sequence);
    proto->mutable_dropped()->set_count(entry.count);
    proto->clear_time();
  } else {
    ToProto(session, boot_id, proto->mutable_session());
    proto->mutable_session()->set_state(v1::Session::ENDED);
  }
}

}  // namespace pto::daemon
