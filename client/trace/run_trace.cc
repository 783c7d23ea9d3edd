#include "client/trace/run_trace.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace pto::trace {
namespace {

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
    std::sort(trace_.tasks.begin(), trace_.tasks.end(), [](const Task& a, const Task& b) {
      return std::make_pair(a.start_ns, a.index) < std::make_pair(b.start_ns, b.index);
    });
    if (has_structure()) AddStructure();
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

  void AddStructure() {
    const auto count = static_cast<size_t>(structure_.kernel_size());
    std::vector<uint32_t> place_of(count, kNoPlace);
    for (uint32_t place = 0; place < trace_.tasks.size(); ++place) {
      const Task& task = trace_.tasks[place];
      if (task.index < count) place_of[task.index] = place;
    }
    int member = 0;
    int ahead = 0;
    for (uint32_t index = 0; index < count; ++index) {
      const int i = static_cast<int>(index);
      const uint32_t place = place_of[index];
      const uint32_t chips = structure_.chip_count(i);
      if (place != kNoPlace) {
        Describe(i, member, &trace_.tasks[place]);
        // Nothing before it is not known until an edge says so.
        trace_.tasks[place].ready_ns = std::max<int64_t>(trace_.tasks[place].ready_ns, 0);
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
    // Times of short tasks are right to a microsecond only.
    for (Task& task : trace_.tasks) task.ready_ns = std::min(task.ready_ns, task.start_ns);
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
          dropped_, " events were dropped before this trace was made; their tasks are missing"));
    }
    const uint64_t ended =
        sources_.run.tasks_done() + sources_.run.tasks_failed() + sources_.run.tasks_skipped();
    if (dropped_ == 0 && trace_.tasks.size() < ended) {
      trace_.notes.push_back(absl::StrCat("of ", ended, " tasks that have ended only ",
                                          trace_.tasks.size(),
                                          " have events; see RunOptions.event_level"));
    }
    if (!has_structure()) {
      trace_.notes.push_back(
          "names, kernels and edges are known of registered graphs only, while they exist");
    } else if (structure_.kernel_size() < static_cast<int64_t>(sources_.graph.task_count())) {
      trace_.notes.push_back(
          absl::StrCat("names and edges of the first ", structure_.kernel_size(), " tasks only"));
    }
    if (sources_.run.state() < v1::Run::SUCCEEDED) {
      trace_.notes.push_back("the run had not ended when this trace was made");
    }
  }

  const Sources& sources_;
  const v1::GraphStructure& structure_;
  std::set<std::string, std::less<>> control_;
  uint64_t dropped_ = 0;
  RunTrace trace_;
};

}  // namespace

RunTrace MakeTrace(const Sources& sources) { return TraceMaker(sources).Make(); }

}  // namespace pto::trace
