#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "runtime/base/clock.h"
#include "runtime/base/mutex.h"

namespace pto::daemon {

// Stands for the id of a run for ever: the journal has it on the disk. Never 0.
uint64_t HashOfRunId(absl::string_view session, absl::string_view run);

// The ids of runs that were executed and of which nothing else is known any more, as 8 bytes each,
// so that none is executed twice. That an id which was never used is taken for one of N that are
// kept has the probability N / 2^64.
//
// Keeps an id for at least `max_age`, unless there are more than `max_ids`: then the oldest 64th of
// them go. Thread-safe; its lock is a leaf.
class RunIds {
 public:
  struct Options {
    size_t max_ids = size_t{1} << 20;
    absl::Duration max_age = absl::Hours(168);
    const Clock* clock = &Clock::Real();
  };

  // How many ids a journal of this size has room for: an eighth of it, 8 Mi at most.
  static size_t MaxIds(uint64_t journal_bytes);

  explicit RunIds(const Options& options) : options_(options) {}
  RunIds(const RunIds&) = delete;
  RunIds& operator=(const RunIds&) = delete;

  // Ids of former boots are added before all others, the oldest first. `age`: since the run ended.
  void Add(uint64_t hash, absl::Duration age = absl::ZeroDuration());
  bool Contains(uint64_t hash) const;
  // How many are kept.
  size_t size() const;

 private:
  // Ids of about the same time, which are forgotten together. Its number is its position, counted
  // from `first_`, modulo 256.
  struct Generation {
    int64_t begin_ns = 0;
    int64_t newest_ns = 0;
    size_t ids = 0;
  };
  // 56 bits of a hash and the number of the generation; the other 8 bits choose the set.
  struct Hash {
    size_t operator()(uint64_t entry) const { return entry >> 8; }
  };
  struct Equal {
    bool operator()(uint64_t a, uint64_t b) const { return a >> 8 == b >> 8; }
  };
  using Set = absl::flat_hash_set<uint64_t, Hash, Equal>;

  bool IsKept(uint64_t entry) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void BeginGeneration(int64_t now_ns) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ForgetOld(int64_t now_ns) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  mutable Mutex mutex_;
  // Many, so that none takes long to grow.
  std::array<Set, 256> sets_ ABSL_GUARDED_BY(mutex_);
  std::deque<Generation> generations_ ABSL_GUARDED_BY(mutex_);
  uint8_t first_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t ids_ ABSL_GUARDED_BY(mutex_) = 0;    // of all generations
  size_t sweep_ ABSL_GUARDED_BY(mutex_) = 0;  // the next set to free of what is forgotten
};

}  // namespace pto::daemon
