#include "runtime/engine/testing/gang_recorder.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace pto::engine::testing {
namespace {

bool IsGang(const Run& run, uint32_t task) {
  return (run.image().tasks()[task].traits & kTaskGang) != 0;
}

}  // namespace

GangRecorder::GangRecorder(const std::vector<uint32_t>& chip_clusters)
    : chips_(chip_clusters.size()) {
  for (size_t i = 0; i < chips_.size(); ++i) {
    chips_[i].clusters = chip_clusters[i];
    chips_[i].busy.resize(3 * size_t{chip_clusters[i]});
  }
}

void GangRecorder::Expect(const Run& run) {
  MutexLock lock(mutex_);
  runs_[&run].resize(run.image().task_count());
}

void GangRecorder::Queued(const Run& run) {
  MutexLock lock(mutex_);
  for (uint32_t task = 0; task < run.image().task_count(); ++task) {
    const ImageTask& spec = run.image().tasks()[task];
    if (!IsGang(run, task)) chips_[spec.chip].waiting[spec.core - 1] += spec.block_num;
  }
}

void GangRecorder::Check(const Run& run, bool all_started) {
  MutexLock lock(mutex_);
  const std::vector<TaskTrace>& traces = runs_[&run];
  for (uint32_t task = 0; task < traces.size(); ++task) {
    const TaskTrace& trace = traces[task];
    if (all_started && trace.starts != run.image().calls(task)) {
      Complain(absl::StrCat("task ", task, " had ", trace.starts, " starts"));
    }
    if (!IsGang(run, task)) continue;
    ++gangs_;
    if (trace.starts == 0) continue;
    if (trace.placed != run.image().blocks(task)) {
      Complain(absl::StrCat("gang ", task, " had ", trace.placed, " blocks placed"));
    }
    if (trace.first_start < trace.last_placed) {
      Complain(absl::StrCat("gang ", task, " started at ", trace.first_start, ", placed at ",
                            trace.last_placed));
    }
  }
  runs_.erase(&run);
}

void GangRecorder::OnPlaced(const BlockTicket& ticket) {
  MutexLock lock(mutex_);
  TaskTrace& trace = runs_[ticket.run][ticket.task];
  trace.placed += ticket.block_end - ticket.block;
  trace.last_placed = ++now_;
  ChipTrace& chip = chips_[ticket.chip];
  if (!IsGang(*ticket.run, ticket.task)) {
    chip.waiting[ticket.kind - 1] -= ticket.block_end - ticket.block;
    chip.gangs_since[ticket.kind - 1] = 0;
    // Clusters wait until enough single cores are free at the same time.
    chip.gangs_since[PTO_MIX - 1] = 0;
    return;
  }
  if (ticket.block != 0) return;
  for (const pto_core kind : {PTO_AIC, PTO_AIV, PTO_MIX}) {
    if (kind != ticket.kind && kind != PTO_MIX && ticket.kind != PTO_MIX) continue;
    uint32_t& since = chip.gangs_since[kind - 1];
    since = chip.waiting[kind - 1] > 0 ? since + 1 : 0;
    longest_wait_ = std::max(longest_wait_, since);
  }
}

void GangRecorder::OnStart(const BlockTicket& ticket) {
  MutexLock lock(mutex_);
  TaskTrace& trace = runs_[ticket.run][ticket.task];
  ++now_;
  if (trace.starts++ == 0) trace.first_start = now_;
}

void GangRecorder::Complain(std::string what) {
  if (complaint_.empty()) complaint_ = std::move(what);
}

void GangRecorder::Occupy(const pto_context& context, bool whole_cluster, bool busy) {
  MutexLock lock(mutex_);
  ChipTrace& chip = chips_[context.chip];
  const uint32_t vector = chip.clusters + 2 * context.core;
  const std::array<uint32_t, 3> cores = {context.core, vector, vector + 1};
  for (uint32_t i = 0; i < (whole_cluster ? 3 : 1); ++i) {
    if (chip.busy[cores[i]] == busy) Complain(absl::StrCat("core ", cores[i], " has two blocks"));
    chip.busy[cores[i]] = busy;
  }
}

std::string GangRecorder::complaint() {
  MutexLock lock(mutex_);
  return complaint_;
}

uint64_t GangRecorder::gangs() {
  MutexLock lock(mutex_);
  return gangs_;
}

uint32_t GangRecorder::longest_wait() {
  MutexLock lock(mutex_);
  return longest_wait_;
}

}  // namespace pto::engine::testing
