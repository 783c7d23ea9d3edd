#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/bench/engine/measure.h"
#include "tests/bench/engine/scheduler.h"
#include "tests/bench/engine/selection.h"

namespace pto::bench {

// OpenMP and StarPU take part with so many threads only: on one, OpenMP runs each task when it is
// made.
inline constexpr int kPeerThreads = 2;

// How much is measured.
struct Effort {
  uint32_t small_tasks = 100'000;
  uint32_t large_tasks = 1'000'000;
  int rounds = 5;
  // Its rounds take a hundred times as long as others.
  int starpu_rounds = 3;
  // What records cost is less than what the best of a few rounds differs by.
  int recorded_rounds = 20;
  int relaunches = 20;

  static Effort Quick() { return {1'000, 10'000, 2, 1, 2, 3}; }
};

// All that take part with one number of threads, ready to run. Two of these must not be there at
// the same time: see NewOneTbbScheduler.
class Field {
 public:
  static absl::StatusOr<std::unique_ptr<Field>> Create(const Selection& selection, int threads,
                                                       const Effort& effort);

  // Those that take part when graphs are small, and when they are large.
  std::vector<Entry> entries(bool large) const;
  // The engine with records and without; none when that is not wanted.
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
  void AddOurs(const Selection& selection, int threads, const Effort& effort);
  absl::Status AddPeers(const Selection& selection, int threads, const Effort& effort);
  absl::Status WarmUp();

  std::vector<Member> members_;
};

}  // namespace pto::bench
