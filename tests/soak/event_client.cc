// Reads events more slowly than they are produced: every number arrives once and in order, or is
// reported as dropped.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "client/event_stream.h"
#include "runtime/base/status_macros.h"
#include "tests/soak/kinds.h"

namespace pto::soak {
namespace {

// The number after the last one that the event covers.
uint64_t EndOf(const v1::Event& event) {
  if (event.has_tasks()) {
    return event.sequence() + static_cast<uint64_t>(event.tasks().task_size());
  }
  if (event.has_dropped()) return event.dropped().last_sequence() + 1;
  return event.sequence() + 1;
}

class Reader {
 public:
  Reader(Visit& visit, Session& session) : visit_(visit), session_(session) {}

  // Reads until all these runs are reported as ended.
  absl::Status ReadAll(size_t runs) {
    while (ended_ < runs && !visit_.place().stopping) {
      if (!stream_.has_value()) {
        WatchOptions options;
        options.after_sequence = next_ - 1;
        absl::StatusOr<EventStream> opened = session_.Watch(options);
        if (!opened.ok()) return opened.status();
        stream_.emplace(*std::move(opened));
      }
      PTO_ASSIGN_OR_RETURN(const absl::optional<v1::EventBatch> batch,
                           visit_.Insist([&] { return stream_->Next(); }));
      if (!batch.has_value()) return absl::DataLossError("the events end before the runs");
      for (const v1::Event& event : batch->events()) PTO_RETURN_IF_ERROR(Take(event));
      // Sometimes a new stream continues where this one stopped.
      if (visit_.OneIn(10)) stream_.reset();
      absl::SleepFor(absl::Milliseconds(visit_.Below(50)));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Take(const v1::Event& event) {
    ++visit_.tally().checks;
    if (event.sequence() != next_) {
      return absl::DataLossError(
          absl::StrCat("event ", event.sequence(), " comes where ", next_, " is due"));
    }
    const uint64_t end = EndOf(event);
    if (event.has_dropped()) {
      visit_.tally().dropped_events += end - next_;
    } else {
      visit_.tally().events += end - next_;
    }
    next_ = end;
    if (event.has_run() && IsFinal(event.run().state())) ++ended_;
    return absl::OkStatus();
  }

  Visit& visit_;
  Session& session_;
  absl::optional<EventStream> stream_;
  uint64_t next_ = 1;
  size_t ended_ = 0;
};

}  // namespace

absl::Status EventRound(Visit& visit) {
  PTO_ASSIGN_OR_RETURN(Client client, visit.Connect());
  PTO_ASSIGN_OR_RETURN(Session session, visit.CreateSession(client));
  const uint64_t runs = 2 + visit.Below(4);
  for (uint64_t i = 0; i < runs; ++i) {
    GraphBuilder graph;
    const uint64_t tasks = 500 + visit.Below(2000);
    for (uint64_t task = 0; task < tasks; ++task) graph.Task("noop", visit.AnyChip(), {});
    RunOptions options;
    options.run_id = absl::StrCat("r", i);
    options.event_level = v1::TASK_ENDED;
    PTO_RETURN_IF_ERROR(
        visit.Insist([&] { return session.SubmitPacked(graph, options).status(); }));
  }
  PTO_RETURN_IF_ERROR(Reader(visit, session).ReadAll(runs));
  visit.tally().runs += runs;
  return visit.Insist([&] { return session.Close(); });
}

}  // namespace pto::soak
