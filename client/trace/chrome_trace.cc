#include "client/trace/chrome_trace.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "client/trace/escape.h"
#include "client/trace/lanes.h"
#include "client/trace/loads.h"

namespace pto::trace {
namespace {

// The process of the run itself; those of the chips follow.
constexpr uint32_t kRunProcess = 1;
uint32_t ProcessOf(uint32_t chip) { return kRunProcess + 1 + chip; }

// Microseconds, exact to the nanosecond.
std::string Micros(int64_t ns) { return absl::StrFormat("%d.%03d", ns / 1000, ns % 1000); }

class ChromeWriter {
 public:
  ChromeWriter(const RunTrace& trace, const ChromeOptions& options)
      : trace_(trace), options_(options), lanes_(PlaceTasks(trace)) {}

  std::string Write() && {
    std::vector<std::string> notes = trace_.notes;
    if (trace_.edges.size() > options_.max_edges) {
      notes.push_back(
          absl::StrCat("of ", trace_.edges.size(), " edges ", options_.max_edges, " are drawn"));
    }
    absl::StrAppend(&out_, "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"run\":\"",
                    JsonText(trace_.run.name()), "\",\"state\":\"",
                    v1::Run::State_Name(trace_.run.state()), "\",\"tasks\":\"", trace_.tasks.size(),
                    "\"");
    for (size_t i = 0; i < notes.size(); ++i) {
      absl::StrAppend(&out_, ",\"note ", i + 1, "\":\"", JsonText(notes[i]), "\"");
    }
    absl::StrAppend(&out_, "},\"traceEvents\":[");
    Processes();
    Slices();
    Deferred();
    Edges();
    Counters();
    absl::StrAppend(&out_, "\n]}\n");
    return std::move(out_);
  }

 private:
  // Begins an event; add its arguments, then call End.
  void Begin(absl::string_view phase, absl::string_view name, uint32_t process, uint32_t thread,
             int64_t time_ns) {
    absl::StrAppend(&out_, first_ ? "\n" : ",\n", "{\"ph\":\"", phase, "\",\"name\":\"",
                    JsonText(name), "\",\"pid\":", process, ",\"tid\":", thread,
                    ",\"ts\":", Micros(time_ns));
    first_ = false;
  }
  void End() { out_ += '}'; }
  void Metadata(absl::string_view name, uint32_t process, uint32_t thread,
                absl::string_view argument) {
    Begin("M", name, process, thread, 0);
    absl::StrAppend(&out_, ",\"args\":{", argument, "}");
    End();
  }
  void Process(uint32_t process, absl::string_view name) {
    Metadata("process_name", process, 0, absl::StrCat("\"name\":\"", JsonText(name), "\""));
    Metadata("process_sort_index", process, 0, absl::StrCat("\"sort_index\":", process));
  }
  // Thread ids count from 1 over all processes, so that they are unique.
  static uint32_t ThreadOf(uint32_t lane) { return lane + 1; }

  void Processes() {
    Process(kRunProcess, absl::StrCat("run ", trace_.run.name()));
    std::set<uint32_t> chips;
    for (const Lane& lane : lanes_.lanes) chips.insert(lane.chip);
    for (const uint32_t chip : chips) Process(ProcessOf(chip), absl::StrCat("chip ", chip));
    for (uint32_t i = 0; i < lanes_.lanes.size(); ++i) {
      const Lane& lane = lanes_.lanes[i];
      Metadata("thread_name", ProcessOf(lane.chip), ThreadOf(i),
               absl::StrCat("\"name\":\"", JsonText(lane.name), "\""));
      Metadata("thread_sort_index", ProcessOf(lane.chip), ThreadOf(i),
               absl::StrCat("\"sort_index\":", i));
    }
  }

  void Arguments(const Task& task) {
    absl::StrAppend(&out_, ",\"args\":{\"index\":", task.index, ",\"kernel\":\"",
                    JsonText(task.kernel), "\",\"outcome\":\"",
                    task.ended() ? v1::TaskEvents::Outcome_Name(task.outcome) : "UNFINISHED",
                    "\",\"submitted_ns\":", task.submitted_ns);
    if (task.ready_ns >= 0) absl::StrAppend(&out_, ",\"ready_ns\":", task.ready_ns);
    if (task.ended()) {
      absl::StrAppend(&out_, ",\"started_ns\":", task.start_ns,
                      ",\"returned_ns\":", task.returned_ns, ",\"completed_ns\":", task.end_ns);
    } else {
      absl::StrAppend(&out_, ",\"phase\":\"", PhaseName(task.phase), "\",\"waits_for\":\"",
                      JsonText(task.waits_for), "\",\"tasks\":", task.stands_for);
    }
    if (task.blocks > 1) absl::StrAppend(&out_, ",\"blocks\":", task.blocks);
    if (task.chips.size() > 1) absl::StrAppend(&out_, ",\"chips\":", task.chips.size());
    out_ += '}';
  }

  static absl::string_view CategoryOf(const Task& task) {
    if (!task.ended()) return "unfinished";
    return task.outcome == v1::TaskEvents::FAILED ? "failed" : "task";
  }

  void Slices() {
    for (const Slice& slice : lanes_.slices) {
      const Task& task = trace_.tasks[slice.task];
      Begin("X", task.name, ProcessOf(slice.chip), ThreadOf(slice.lane), task.start_ns);
      absl::StrAppend(&out_, ",\"dur\":", Micros(task.returned_ns - task.start_ns), ",\"cat\":\"",
                      CategoryOf(task), "\"");
      Arguments(task);
      End();
      slice_of_[{slice.task, slice.chip}] = slice.lane;
    }
  }

  void Deferred() {
    for (const Task& task : trace_.tasks) {
      if (!task.shown() || task.returned_ns == task.end_ns) continue;
      for (const auto& [phase, time] :
           {std::pair("b", task.returned_ns), std::pair("e", task.end_ns)}) {
        Begin(phase, absl::StrCat("deferred: ", task.name), ProcessOf(task.chips[0]), 0, time);
        absl::StrAppend(&out_, ",\"cat\":\"deferred\",\"id\":\"", task.index, "\"");
        if (phase[0] == 'b') Arguments(task);
        End();
      }
    }
  }

  // For a task on several chips, its slice on the other task's chip, if there is one.
  std::pair<uint32_t, uint32_t> SliceFor(uint32_t task, uint32_t other) const {
    uint32_t chip = trace_.tasks[task].chips[0];
    const auto near = slice_of_.find({task, trace_.tasks[other].chips[0]});
    if (near != slice_of_.end()) chip = near->first.second;
    return {ProcessOf(chip), ThreadOf(slice_of_.at({task, chip}))};
  }

  void Edges() {
    uint64_t id = 0;
    for (const auto& [from, to] : trace_.edges) {
      const Task& before = trace_.tasks[from];
      const Task& after = trace_.tasks[to];
      if (!before.shown() || !after.shown()) continue;
      if (id++ == options_.max_edges) break;
      // An arrow belongs to the slice that contains its end.
      const auto [out_process, out_thread] = SliceFor(from, to);
      Begin("s", "waits for", out_process, out_thread,
            std::max(before.start_ns, before.returned_ns - 1));
      absl::StrAppend(&out_, ",\"cat\":\"edge\",\"id\":", id);
      End();
      const auto [in_process, in_thread] = SliceFor(to, from);
      // Times of short tasks are not exact; an arrow must not go back in time.
      Begin("f", "waits for", in_process, in_thread, after.start_ns);
      absl::StrAppend(&out_, ",\"cat\":\"edge\",\"bp\":\"e\",\"id\":", id);
      End();
    }
  }

  void Counters() {
    for (const Load& load : CountLoads(trace_, options_.max_points)) {
      Begin("C", "tasks", kRunProcess, 0, load.time_ns);
      absl::StrAppend(&out_, ",\"args\":{\"ready\":", load.ready, ",\"running\":", load.running,
                      ",\"deferred\":", load.deferred, "}");
      End();
    }
    Memory();
  }

  void Memory() {
    std::set<uint32_t> chips;
    for (const Lane& lane : lanes_.lanes) chips.insert(lane.chip);
    const auto point = [&](const MemoryUse& use, int64_t time_ns) {
      if (chips.count(use.chip) == 0) return;
      Begin("C", "memory used", ProcessOf(use.chip), 0, time_ns);
      absl::StrAppend(&out_, ",\"args\":{\"bytes\":", use.bytes, "}");
      End();
    };
    for (size_t i = 0; i < trace_.memory.size(); ++i) {
      const MemoryUse& use = trace_.memory[i];
      point(use, use.time_ns);
      const bool last = i + 1 == trace_.memory.size() || trace_.memory[i + 1].chip != use.chip;
      if (last && use.time_ns < trace_.end_ns) point(use, trace_.end_ns);
    }
  }

  const RunTrace& trace_;
  const ChromeOptions& options_;
  const Lanes lanes_;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> slice_of_;  // lane by task and chip
  std::string out_;
  bool first_ = true;
};

}  // namespace

std::string FormatChromeTrace(const RunTrace& trace, const ChromeOptions& options) {
  return ChromeWriter(trace, options).Write();
}

}  // namespace pto::trace
