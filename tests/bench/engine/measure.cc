#include "tests/bench/engine/measure.h"

#include <malloc.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>

#include "runtime/base/status_macros.h"
#include "tests/bench/engine/process_memory.h"
#include "tests/bench/samples.h"

namespace pto::bench {
namespace {

// More than the caches of a CPU hold.
constexpr size_t kOtherBytes = size_t{96} << 20;
constexpr size_t kCacheLine = 64;
constexpr size_t kSmallPage = 4096;
// More than any contender takes.
constexpr size_t kBytesPerTask = 640;

double Above(uint64_t value, uint64_t base) {
  return value > base ? static_cast<double>(value - base) : 0;
}

struct Samples {
  Rounds build, run, total, bytes, peak;
  bool has_peak = true;

  absl::Status Add(const TaskGraph& graph, Scheduler& scheduler) {
    const double tasks = graph.size();
    const uint64_t before = ResidentBytes();
    has_peak = ResetPeakResident() && has_peak;
    const absl::optional<uint64_t> peak_before = PeakResidentBytes();
    PTO_ASSIGN_OR_RETURN(const Phases phases, scheduler.Execute(graph));
    const absl::optional<uint64_t> peak_after = PeakResidentBytes();
    // Memory that allocators keep for reuse does not count as held.
    malloc_trim(0);
    bytes.Add(Above(ResidentBytes(), before) / tasks);
    if (peak_before.has_value() && peak_after.has_value()) {
      peak.Add(Above(*peak_after, *peak_before) / tasks);
    } else {
      has_peak = false;
    }
    scheduler.Clear();
    build.Add(phases.build_seconds * 1e9 / tasks);
    run.Add(phases.run_seconds * 1e9 / tasks);
    total.Add((phases.build_seconds + phases.run_seconds) * 1e9 / tasks);
    return absl::OkStatus();
  }

  Cost cost() const {
    Cost cost;
    cost.build_ns = build.lowest();
    cost.run_ns = run.lowest();
    cost.total_ns = total.lowest();
    cost.bytes = bytes.median();
    if (has_peak) cost.peak_bytes = peak.median();
    return cost;
  }
};

// Freshly freed memory is what the system hands out next.
void TouchAndFree(size_t bytes) {
  void* const memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return;
  (void)madvise(memory, bytes, MADV_HUGEPAGE);
  for (size_t at = 0; at < bytes; at += kSmallPage) static_cast<volatile char*>(memory)[at] = 1;
  munmap(memory, bytes);
}

}  // namespace

ColdStart::ColdStart() : other_(kOtherBytes) {}

void ColdStart::operator()(size_t tasks) {
  malloc_trim(0);
  TouchAndFree(tasks * kBytesPerTask);
  for (size_t at = 0; at < other_.size(); at += kCacheLine) ++other_[at];
}

absl::StatusOr<Costs> Measure(const TaskGraph& graph, const std::vector<Entry>& entries,
                              ColdStart& cold_start) {
  std::map<Contender, Samples> samples;
  int rounds = 0;
  for (const Entry& entry : entries) rounds = std::max(rounds, entry.rounds);
  for (int round = 0; round < rounds; ++round) {
    for (const Entry& entry : entries) {
      if (round >= entry.rounds) continue;
      cold_start(graph.size());
      PTO_RETURN_IF_ERROR(samples[entry.contender].Add(graph, *entry.scheduler));
    }
  }
  Costs costs;
  for (const auto& [contender, sampled] : samples) costs[contender] = sampled.cost();
  return costs;
}

}  // namespace pto::bench
