#include "daemon/explain/progress.h"

#include <algorithm>

namespace pto::daemon {
namespace {

uint64_t Mix(uint64_t trace, uint64_t value) {
  return (trace ^ value) * 0x9e3779b97f4a7c15 + (trace >> 29);
}

// A hash of a run's progress.
uint64_t TraceOf(const engine::RunNow& run) {
  uint64_t trace = Mix(1, run.counts.done + run.counts.failed + run.counts.skipped);
  trace = Mix(trace, static_cast<uint64_t>(run.state));
  trace = Mix(trace, run.begun ? 1 : 0);
  for (const engine::WaitingTask& task : run.waiting) {
    for (const engine::WaitNote& note : task.waits) trace = Mix(trace, note.id);
  }
  for (const engine::ReadyNow& ready : run.ready) trace = Mix(Mix(trace, ready.first), ready.count);
  return trace;
}

// The latest event that a run reports about itself.
int64_t LastKnown(const engine::RunNow& run) {
  int64_t last = std::max(run.run->accepted_ns(), run.run->started_ns());
  for (const engine::WaitingTask& task : run.waiting) {
    for (const engine::WaitNote& note : task.waits) last = std::max(last, note.since_ns);
  }
  return last;
}

}  // namespace

void Progress::See(const engine::EngineNow& now) {
  // Counts of ended tasks are updated in batches; the task of a core is always current.
  absl::flat_hash_map<const engine::Run*, uint64_t> cores;
  for (size_t chip = 0; chip < now.chips.size(); ++chip) {
    for (const engine::CoreNow& core : now.chips[chip].cores) {
      uint64_t& trace = cores[core.run];
      trace = Mix(Mix(Mix(trace, chip), core.core), core.task);
    }
  }
  for (auto& [run, entry] : entries_) entry.seen = false;
  for (const engine::RunNow& run : now.runs) {
    Entry& entry = entries_[run.run.get()];
    uint64_t trace = TraceOf(run);
    if (const auto found = cores.find(run.run.get()); found != cores.end()) {
      trace = Mix(trace, found->second);
    }
    const bool is_new = entry.run.lock() != run.run;
    if (is_new || trace != entry.trace || !run.steady) {
      // For a run that is new here, its own report is more precise than the time of this snapshot.
      entry.since_ns = is_new ? LastKnown(run) : now.now_ns;
      entry.run = run.run;
      entry.trace = trace;
      entry.taken = false;
    }
    entry.idle_ns = std::max<int64_t>(now.now_ns - entry.since_ns, 0);
    entry.seen = true;
  }
  absl::erase_if(entries_, [](const auto& item) { return !item.second.seen; });
}

int64_t Progress::IdleNanos(const engine::Run* run) const {
  const auto found = entries_.find(run);
  return found == entries_.end() ? 0 : found->second.idle_ns;
}

bool Progress::TakeNews(const engine::Run* run) {
  const auto found = entries_.find(run);
  if (found == entries_.end() || found->second.taken) return false;
  found->second.taken = true;
  return true;
}

}  // namespace pto::daemon
