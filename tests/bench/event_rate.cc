#include "tests/bench/event_rate.h"

#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "grpcpp/client_context.h"
#include "runtime/base/status_macros.h"
#include "tests/bench/launches.h"
#include "tests/bench/samples.h"

namespace pto::bench {
namespace {

uint64_t TasksIn(const v1::EventBatch& batch) {
  uint64_t tasks = 0;
  for (const v1::Event& event : batch.events()) {
    tasks += static_cast<uint64_t>(event.tasks().task_size());
  }
  return tasks;
}

// Whether the batch says that `run` has succeeded.
bool SaysSucceeded(const v1::EventBatch& batch, const std::string& run) {
  for (const v1::Event& event : batch.events()) {
    if (event.run().name() == run && event.run().state() == v1::Run::SUCCEEDED) return true;
  }
  return false;
}

// What arrived on a stream, and how fast: from the first batch with tasks to the last. The tasks of
// the first batch do not count, because their start is unknown.
class Arrivals {
 public:
  // The message to read the next batch into; kept, as by a client that processes it later.
  v1::EventBatch* next() { return &batches_.emplace_back(); }
  void Arrived() {
    const uint64_t tasks = TasksIn(batches_.back());
    for (const v1::Event& event : batches_.back().events()) dropped_ += event.dropped().count();
    if (tasks == 0) return;
    last_ = Seconds();
    if (tasks_ == 0) {
      first_ = last_;
      first_tasks_ = tasks;
    }
    tasks_ += tasks;
  }
  // Removes the message that was not filled.
  void Ended() { batches_.pop_back(); }

  const std::deque<v1::EventBatch>& batches() const { return batches_; }
  uint64_t tasks() const { return tasks_; }
  uint64_t dropped() const { return dropped_; }
  double per_second() const {
    return static_cast<double>(tasks_ - first_tasks_) / (last_ - first_);
  }

 private:
  std::deque<v1::EventBatch> batches_;
  uint64_t tasks_ = 0;
  uint64_t dropped_ = 0;
  uint64_t first_tasks_ = 0;
  double first_ = 0;
  double last_ = 0;
};

class EventBench {
 public:
  EventBench(Servers& servers, uint64_t tasks)
      : servers_(servers),
        tasks_(tasks),
        events_(v1::EventService::NewStub(servers.ToDaemon())),
        bare_(Bare::NewStub(servers.ToBare())) {}

  absl::Status Prepare() {
    // A separate session: its event log contains nothing else.
    PTO_ASSIGN_OR_RETURN(Session session, servers_.client().CreateSession({.id = "events"}));
    session_ = std::make_unique<Session>(std::move(session));
    PTO_ASSIGN_OR_RETURN(one_task_graph_, RegisterOneTask(*session_));
    GraphBuilder graph;
    for (uint64_t i = 0; i < tasks_; ++i) graph.Task("noop", 0, {});
    PTO_ASSIGN_OR_RETURN(const v1::Graph registered, session_->RegisterPacked("many-tasks", graph));
    graph_ = registered.name();
    return absl::OkStatus();
  }

  // Watches a run from before its launch. Sets `run` to the ended run.
  absl::StatusOr<Arrivals> Live(v1::Run* run) {
    // A short run first: its events show that the stream is open.
    PTO_ASSIGN_OR_RETURN(const v1::Run before, Launch(one_task_graph_, true));
    PTO_ASSIGN_OR_RETURN(const v1::Run probe, Launch(one_task_graph_, true));
    grpc::ClientContext context;
    const auto reader = events_->WatchEvents(&context, Watch(before.as_of_sequence()));
    PTO_RETURN_IF_ERROR(ReadUntil(*reader, probe.name()).status());
    PTO_ASSIGN_OR_RETURN(*run, Launch(graph_, false));
    absl::StatusOr<Arrivals> arrivals = ReadUntil(*reader, run->name());
    context.TryCancel();
    reader->Finish();
    PTO_RETURN_IF_ERROR(arrivals.status());
    PTO_ASSIGN_OR_RETURN(*run, Get(run->name()));
    return Complete(*std::move(arrivals));
  }

  // Watches the same run after its end.
  absl::StatusOr<Arrivals> Later(const v1::Run& run) {
    v1::WatchEventsRequest request = Watch(0);
    request.add_runs(run.name());
    grpc::ClientContext context;
    const auto reader = events_->WatchEvents(&context, request);
    absl::StatusOr<Arrivals> arrivals = ReadUntil(*reader, run.name());
    context.TryCancel();
    reader->Finish();
    PTO_RETURN_IF_ERROR(arrivals.status());
    return Complete(*std::move(arrivals));
  }

  // Sends the batches to the bare peer, which sends them back.
  absl::StatusOr<Arrivals> Bare(const Arrivals& same) {
    {
      grpc::ClientContext context;
      KeepResponse kept;
      const auto writer = bare_->Keep(&context, &kept);
      for (const v1::EventBatch& batch : same.batches()) writer->Write(batch);
      writer->WritesDone();
      PTO_RETURN_IF_ERROR(CallError("Keep", writer->Finish()));
    }
    grpc::ClientContext context;
    const auto reader = bare_->Replay(&context, ReplayRequest());
    Arrivals arrivals;
    while (reader->Read(arrivals.next())) arrivals.Arrived();
    arrivals.Ended();
    PTO_RETURN_IF_ERROR(CallError("Replay", reader->Finish()));
    return Complete(std::move(arrivals));
  }

 private:
  v1::WatchEventsRequest Watch(uint64_t after) {
    v1::WatchEventsRequest request;
    request.set_parent(session_->name());
    request.set_after_sequence(after);
    return request;
  }

  absl::StatusOr<v1::Run> Launch(const std::string& graph, bool wait) {
    v1::LaunchGraphRequest request = UnaryLaunch(graph);
    if (!wait) request.clear_wait();
    v1::Run run;
    grpc::ClientContext context;
    PTO_RETURN_IF_ERROR(
        CallError("LaunchGraph", servers_.run().LaunchGraph(&context, request, &run)));
    return run;
  }

  absl::StatusOr<v1::Run> Get(const std::string& name) {
    v1::GetRunRequest request;
    request.set_name(name);
    v1::Run run;
    grpc::ClientContext context;
    PTO_RETURN_IF_ERROR(CallError("GetRun", servers_.run().GetRun(&context, request, &run)));
    return run;
  }

  static absl::StatusOr<Arrivals> ReadUntil(grpc::ClientReader<v1::EventBatch>& reader,
                                            const std::string& run) {
    Arrivals arrivals;
    while (true) {
      v1::EventBatch* const batch = arrivals.next();
      if (!reader.Read(batch)) return CallError("WatchEvents", reader.Finish());
      arrivals.Arrived();
      if (SaysSucceeded(*batch, run)) return arrivals;
    }
  }

  absl::StatusOr<Arrivals> Complete(Arrivals arrivals) const {
    if (arrivals.tasks() == tasks_) return arrivals;
    return absl::DataLossError(absl::StrCat(arrivals.tasks(), " task events came, not ", tasks_,
                                            "; ", arrivals.dropped(), " were dropped"));
  }

  Servers& servers_;
  const uint64_t tasks_;
  const std::unique_ptr<v1::EventService::Stub> events_;
  const std::unique_ptr<bench::Bare::Stub> bare_;
  std::unique_ptr<Session> session_;
  std::string one_task_graph_;
  std::string graph_;
};

}  // namespace

absl::Status MeasureEventRate(Servers& servers, const Effort& effort, Report& report) {
  EventBench bench(servers, effort.event_tasks);
  PTO_RETURN_IF_ERROR(bench.Prepare());
  Rounds live, bare_live, later, bare_later, tasks, batches;
  // The first round warms up.
  for (int round = -1; round < effort.event_rounds; ++round) {
    v1::Run run;
    PTO_ASSIGN_OR_RETURN(const Arrivals live_arrivals, bench.Live(&run));
    PTO_ASSIGN_OR_RETURN(const Arrivals bare_live_arrivals, bench.Bare(live_arrivals));
    PTO_ASSIGN_OR_RETURN(const Arrivals later_arrivals, bench.Later(run));
    PTO_ASSIGN_OR_RETURN(const Arrivals bare_later_arrivals, bench.Bare(later_arrivals));
    if (round < 0) continue;
    live.Add(live_arrivals.per_second());
    bare_live.Add(bare_live_arrivals.per_second());
    later.Add(later_arrivals.per_second());
    bare_later.Add(bare_later_arrivals.per_second());
    tasks.Add(static_cast<double>(run.tasks_done()) * 1e9 / static_cast<double>(run.run_ns()));
    batches.Add(static_cast<double>(live_arrivals.batches().size()));
  }
  report.Add({.name = "task_events",
              .value = live.median(),
              .unit = "events/s",
              .against = "bare_task_events",
              .against_value = bare_live.median(),
              .target = Target::AtLeast(0.5)});
  report.Add({.name = "task_events_replayed",
              .value = later.median(),
              .unit = "events/s",
              .against = "bare_task_events",
              .against_value = bare_later.median()});
  report.Add({.name = "tasks_of_the_run", .value = tasks.median(), .unit = "tasks/s"});
  report.Add({.name = "batches_of_the_run", .value = batches.median(), .unit = "batches"});
  return absl::OkStatus();
}

}  // namespace pto::bench
