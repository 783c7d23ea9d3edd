#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/bench/engine/measure.h"
#include "tests/bench/engine/scheduler.h"
#include "tests/bench/engine/selection.h"

namespace pto::bench {

// OpenMP and StarPU take part only with this many threads: with one, OpenMP runs each task when it
// is created.
inline constexpr int kPeerThreads = 2;

// How much is measured.
struct EngineEffort {
  uint32_t small_tasks = 100'000;
  uint32_t large_tasks = 1'000'000;
  int rounds = 5;
  // Its rounds take a hundred times as long as others.
  int starpu_rounds = 3;
  // The cost of records is smaller than the variation of the best of a few rounds.
  int recorded_rounds = 20;
  int relaunches = 20;

  static EngineEffort Quick() { return {1'000, 10'000, 2, 1, 2, 3}; }
};

// All contenders for one number of threads, ready to run. Two Fields must not exist at the same
// time: see NewOneTbbScheduler.
class Field {
 public:
  static absl::StatusOr<std::unique_ptr<Field>> Create(const Selection& selection, int threads,
                                                       const EngineEffort& effort);

  // The contenders for small or large graphs.
  std::vector<Entry> entries(bool large) const;
  // The engine with and without records; empty if that was not requested.
  std::vector<Entry> recorded_entries() const;

 private:
  enum class Sizes { kAll, kSmall, kNone };
  struct Member {
    Contender contender;
    std::unique_ptr<Scheduler> scheduler;
    int rounds;
    Sizes sizes;
  };

  Field() = default;
  void AddOurs(const Selection& selection, int threads, const EngineEffort& effort);
  absl::Status AddPeers(const Selection& selection, int threads, const EngineEffort& effort);
  absl::Status WarmUp();

  std::vector<Member> members_;
};

}  // namespace pto::bench
