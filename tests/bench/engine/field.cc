#include "tests/bench/engine/field.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "runtime/base/status_macros.h"
#include "tests/bench/engine/bare_scheduler.h"
#include "tests/bench/engine/engine_scheduler.h"
#include "tests/bench/engine/onetbb_scheduler.h"
#include "tests/bench/engine/openmp_scheduler.h"
#include "tests/bench/engine/starpu_scheduler.h"

namespace pto::bench {
namespace {

constexpr uint32_t kWarmUpTasks = 1000;

}  // namespace

absl::StatusOr<std::unique_ptr<Field>> Field::Create(const Selection& selection, int threads,
                                                     const EngineEffort& effort) {
  std::unique_ptr<Field> field(new Field);
  field->AddOurs(selection, threads, effort);
  PTO_RETURN_IF_ERROR(field->AddPeers(selection, threads, effort));
  PTO_RETURN_IF_ERROR(field->WarmUp());
  return field;
}

std::vector<Entry> Field::entries(bool large) const {
  std::vector<Entry> entries;
  for (const Member& member : members_) {
    if (member.sizes == Sizes::kNone || (large && member.sizes == Sizes::kSmall)) continue;
    entries.push_back({member.contender, member.scheduler.get(), member.rounds});
  }
  return entries;
}

std::vector<Entry> Field::recorded_entries() const {
  std::vector<Entry> entries;
  const auto recorded = std::find_if(members_.begin(), members_.end(), [](const Member& member) {
    return member.contender == Contender::kRecorded;
  });
  if (recorded == members_.end()) return entries;
  for (const Member& member : members_) {
    if (member.contender != Contender::kNamed && &member != &*recorded) continue;
    // The best of this many rounds, for both.
    entries.push_back({member.contender, member.scheduler.get(), recorded->rounds});
  }
  return entries;
}

void Field::AddOurs(const Selection& selection, int threads, const EngineEffort& effort) {
  const int rounds = effort.rounds;
  EngineOptions named;
  named.threads = static_cast<uint32_t>(threads);
  if (selection.any_of({"engine", "bare", "onetbb", "recorded"})) {
    members_.push_back({Contender::kNamed, NewEngineScheduler(named), rounds, Sizes::kAll});
  }
  if (selection.any_of({"engine", "openmp", "starpu"})) {
    EngineOptions found = named;
    found.find_dependencies = true;
    members_.push_back({Contender::kFound, NewEngineScheduler(found), rounds, Sizes::kAll});
  }
  if (selection.any_of({"recorded"}) && threads == kPeerThreads) {
    EngineOptions recorded = named;
    recorded.record = true;
    members_.push_back(
        {Contender::kRecorded, NewEngineScheduler(recorded), effort.recorded_rounds, Sizes::kNone});
  }
}

absl::Status Field::AddPeers(const Selection& selection, int threads, const EngineEffort& effort) {
  if (selection.any_of({"bare"}) && threads == 1) {
    members_.push_back({Contender::kBare, NewBareScheduler(), effort.rounds, Sizes::kAll});
  }
  if (selection.any_of({"onetbb"})) {
    members_.push_back(
        {Contender::kOneTbb, NewOneTbbScheduler(threads), effort.rounds, Sizes::kAll});
  }
  if (threads != kPeerThreads) return absl::OkStatus();
  if (selection.any_of({"openmp"})) {
    std::unique_ptr<Scheduler> openmp = NewOpenMpScheduler(threads);
    if (openmp == nullptr) {
      std::fprintf(stderr, "engine_bench: not compiled by GCC, so without OpenMP\n");
    } else {
      members_.push_back({Contender::kOpenMp, std::move(openmp), effort.rounds, Sizes::kSmall});
    }
  }
  if (selection.any_of({"starpu"})) {
    PTO_ASSIGN_OR_RETURN(std::unique_ptr<Scheduler> starpu, NewStarPuScheduler(threads));
    members_.push_back(
        {Contender::kStarPu, std::move(starpu), effort.starpu_rounds, Sizes::kSmall});
  }
  return absl::OkStatus();
}

// Some contenders create resources, such as threads, only when they are first used.
absl::Status Field::WarmUp() {
  const TaskGraph graph = TaskGraph::Make(Shape::kTree, kWarmUpTasks);
  for (const Member& member : members_) {
    PTO_RETURN_IF_ERROR(member.scheduler->Execute(graph).status());
    member.scheduler->Clear();
  }
  return absl::OkStatus();
}

}  // namespace pto::bench
