#include "client/trace/run_trace.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace pto::trace {
namespace {

using Blocked = v1::ExplainRunResponse::BlockedTask;

constexpr uint32_t kNoPlace = 0xffffffff;

class TraceMaker {
 public:
  explicit TraceMaker(const Sources& sources)
      : sources_(sources), structure_(sources.graph.structure()) {
    for (const v1::Kernel& kernel : sources.kernels) {
      if (kernel.control()) control_.emplace(absl::StripPrefix(kernel.name(), "kernels/"));
    }
  }

  RunTrace Make() && {
    trace_.run = sources_.run;
    trace_.chips = sources_.chips;
    AddTasks();
    FindEnd();
    AddUnfinished();
    std::sort(trace_.tasks.begin(), trace_.tasks.end(), [](const Task& a, const Task& b) {
      return std::make_pair(a.start_ns, a.index) < std::make_pair(b.start_ns, b.index);
    });
    if (has_structure()) AddStructure();
    AddMemory();
    AddNotes();
    return std::move(trace_);
  }

 private:
  bool has_structure() const { return structure_.kernel_size() > 0; }

  void AddTasks() {
    for (const v1::Event& event : sources_.events) {
      if (event.has_dropped()) {
        dropped_ += event.dropped().count();
        continue;
      }
      if (!event.has_tasks() || event.tasks().run() != sources_.run.name()) continue;
      const v1::TaskEvents& tasks = event.tasks();
      for (int i = 0; i < tasks.task_size(); ++i) {
        if (tasks.start_ns_size() != tasks.task_size() ||
            tasks.duration_ns_size() != tasks.task_size()) {
          break;
        }
        Task task;
        task.index = tasks.task(i);
        task.name = absl::StrCat("task ", task.index);
        if (i < tasks.outcome_size()) task.outcome = tasks.outcome(i);
        task.chips = {i < tasks.chip_size() ? tasks.chip(i) : 0};
        if (i < tasks.core_size()) task.core = tasks.core(i);
        task.start_ns = static_cast<int64_t>(tasks.start_ns(i));
        task.end_ns = task.start_ns + static_cast<int64_t>(tasks.duration_ns(i));
        task.returned_ns = task.end_ns;
        if (i < tasks.deferred_ns_size()) {
          task.returned_ns =
              std::max(task.start_ns, task.end_ns - static_cast<int64_t>(tasks.deferred_ns(i)));
        }
        trace_.tasks.push_back(std::move(task));
      }
    }
  }

  void FindEnd() {
    for (const Task& task : trace_.tasks) trace_.end_ns = std::max(trace_.end_ns, task.end_ns);
    const google::protobuf::Timestamp& end =
        sources_.run.has_end_time() ? sources_.run.end_time() : sources_.explained.time();
    if (end.seconds() == 0) return;
    const google::protobuf::Timestamp& begin = sources_.run.create_time();
    trace_.end_ns = std::max(trace_.end_ns, (end.seconds() - begin.seconds()) * 1'000'000'000 +
                                                end.nanos() - begin.nanos());
  }

  void AddUnfinished() {
    std::set<uint32_t> ended;
    if (!sources_.explained.blocked().empty()) {
      for (const Task& task : trace_.tasks) ended.insert(task.index);
    }
    ended_tasks_ = trace_.tasks.size();
    for (const Blocked& blocked : sources_.explained.blocked()) {
      // It may have ended between two calls.
      if (ended.contains(static_cast<uint32_t>(blocked.task()))) continue;
      Task task;
      task.index = static_cast<uint32_t>(blocked.task());
      task.name =
          blocked.task_name().empty() ? absl::StrCat("task ", task.index) : blocked.task_name();
      task.kernel = blocked.kernel();
      task.control = control_.contains(task.kernel);
      task.outcome = v1::TaskEvents::OUTCOME_UNSPECIFIED;
      uint32_t chip = 0;
      // A task that needs no core may have no chip.
      (void)absl::SimpleAtoi(absl::StripPrefix(blocked.chip(), "chips/"), &chip);
      task.chips = {chip};
      task.phase = PhaseOf(blocked);
      task.waits_for = blocked.reason();
      task.stands_for = std::max<uint64_t>(blocked.task_count(), 1);
      const int64_t age = blocked.age().seconds() * 1'000'000'000 + blocked.age().nanos();
      task.end_ns = trace_.end_ns;
      task.start_ns = std::max<int64_t>(task.end_ns - age, 0);
      task.returned_ns = task.phase == Task::Phase::kDeferred ? task.start_ns : task.end_ns;
      trace_.tasks.push_back(std::move(task));
    }
  }

  static Task::Phase PhaseOf(const Blocked& blocked) {
    switch (blocked.kind()) {
      case Blocked::SIGNAL:
      case Blocked::COPY:
      case Blocked::BARRIER:
      case Blocked::KERNEL:
        return blocked.deferred() ? Task::Phase::kDeferred : Task::Phase::kRunning;
      case Blocked::CORES:
      case Blocked::RESERVATION:
      case Blocked::THREAD:
        return Task::Phase::kReady;
      default:
        return Task::Phase::kWaiting;
    }
  }

  void AddStructure() {
    const auto count = static_cast<size_t>(structure_.kernel_size());
    const uint64_t first = structure_.first_task();
    std::vector<uint32_t> place_of(count, kNoPlace);
    for (uint32_t place = 0; place < trace_.tasks.size(); ++place) {
      const Task& task = trace_.tasks[place];
      if (task.index >= first && task.index - first < count) place_of[task.index - first] = place;
    }
    int member = 0;
    int ahead = 0;
    int segment = 0;
    for (uint32_t index = 0; index < count; ++index) {
      const int i = static_cast<int>(index);
      const uint32_t place = place_of[index];
      const uint32_t chips = structure_.chip_count(i);
      while (segment + 1 < sources_.graph.blocks_size() &&
             sources_.graph.blocks(segment + 1).first_task() <= first + index) {
        ++segment;
      }
      if (place != kNoPlace) {
        Task& task = trace_.tasks[place];
        Describe(i, member, &task);
        if (segment < sources_.graph.blocks_size()) {
          task.submitted_ns = sources_.graph.blocks(segment).submitted_ns();
        }
        // Unknown until an edge shows a predecessor.
        task.ready_ns = std::max(task.ready_ns, task.submitted_ns);
      }
      if (chips > 1) member += static_cast<int>(chips);
      for (uint32_t n = 0; n < structure_.next_count(i); ++n) {
        const uint64_t next = uint64_t{index} + structure_.next_ahead(ahead++);
        if (next >= count || place_of[next] == kNoPlace || place == kNoPlace) continue;
        trace_.edges.emplace_back(place, place_of[next]);
        Task& waits = trace_.tasks[place_of[next]];
        waits.ready_ns = std::max(waits.ready_ns, trace_.tasks[place].end_ns);
      }
    }
    for (Task& task : trace_.tasks) {
      // Times of short tasks are exact only to a microsecond.
      task.ready_ns = std::min(task.ready_ns, task.start_ns);
      task.submitted_ns = std::min(task.submitted_ns, task.start_ns);
      if (task.phase == Task::Phase::kWaiting) task.ready_ns = -1;
    }
  }

  void AddMemory() {
    for (const v1::RunGraph::MemoryPoint& point : sources_.graph.memory()) {
      trace_.memory.push_back({point.chip(), point.time_ns(), point.used_bytes()});
    }
  }

  void Describe(int i, int first_member, Task* task) const {
    if (!structure_.name(i).empty()) task->name = structure_.name(i);
    const auto kernel = static_cast<int>(structure_.kernel(i));
    if (kernel < structure_.kernels_size()) task->kernel = structure_.kernels(kernel);
    task->control = control_.contains(task->kernel);
    task->blocks = structure_.block_num(i);
    const auto chips = static_cast<int>(structure_.chip_count(i));
    if (chips <= 1 || first_member + chips > structure_.member_chip_size()) return;
    task->chips.assign(structure_.member_chip().begin() + first_member,
                       structure_.member_chip().begin() + first_member + chips);
  }

  void AddNotes() {
    if (dropped_ > 0) {
      trace_.notes.push_back(absl::StrCat(
          dropped_, " events were dropped before this trace was made; their tasks may be missing"));
    }
    const uint64_t ended =
        sources_.run.tasks_done() + sources_.run.tasks_failed() + sources_.run.tasks_skipped();
    if (dropped_ == 0 && ended_tasks_ < ended) {
      trace_.notes.push_back(absl::StrCat("of ", ended, " tasks that have ended only ",
                                          ended_tasks_,
                                          " have events; see RunOptions.event_level"));
    }
    if (!has_structure()) {
      trace_.notes.push_back(
          "names, kernels, edges and ready times are not known: the daemon keeps them of the "
          "newest runs, and of registered graphs");
    } else {
      const uint64_t first = structure_.first_task();
      const uint64_t end = first + static_cast<uint64_t>(structure_.kernel_size());
      if (first > 0 || end < sources_.graph.task_count()) {
        trace_.notes.push_back(
            absl::StrCat("names and edges of tasks ", first, " to ", end - 1, " only"));
      }
    }
    if (sources_.explained.more_blocked() > 0) {
      trace_.notes.push_back(absl::StrCat(sources_.explained.more_blocked(),
                                          " more tasks have not ended and are not shown"));
    }
    if (sources_.run.state() < v1::Run::SUCCEEDED) {
      trace_.notes.push_back("the run had not ended when this trace was made");
    }
  }

  const Sources& sources_;
  const v1::GraphStructure& structure_;
  std::set<std::string, std::less<>> control_;
  uint64_t dropped_ = 0;
  uint64_t ended_tasks_ = 0;
  RunTrace trace_;
};

}  // namespace

absl::string_view PhaseName(Task::Phase phase) {
  switch (phase) {
    case Task::Phase::kRunning:
      return "running";
    case Task::Phase::kDeferred:
      return "deferred";
    case Task::Phase::kReady:
      return "ready";
    case Task::Phase::kWaiting:
      return "waiting";
    default:
      return "ended";
  }
}

RunTrace MakeTrace(const Sources& sources) { return TraceMaker(sources).Make(); }

}  // namespace pto::trace
