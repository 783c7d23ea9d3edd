#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "runtime/base/mutex.h"

namespace pto::engine {

// The foreign words (Waiter::foreign) that a WaitTable has waits for. Thread-safe.
class ForeignWords {
 public:
  // How many words of one owner are looked at in one go.
  static constexpr size_t kShare = 64;

  // Called by Add when there was no wait before; with locks held, so it must return at once.
  void OnFirst(std::function<void()> wake) { wake_ = std::move(wake); }

  // A word belongs to the owner that was named first.
  void Add(const void* word, const void* owner);
  void Remove(const void* word);

  // How many waits there are. May be out of date at once.
  size_t waits() const { return waits_.load(std::memory_order_seq_cst); }
  // The next words of each owner, up to kShare, which take turns. So an owner with many words
  // delays its own words only.
  std::vector<const void*> TakeNext();

 private:
  struct Owner {
    std::vector<const void*> words;
    size_t next = 0;
  };
  struct Word {
    const void* owner = nullptr;
    size_t index = 0;  // among the words of its owner
    uint32_t waits = 0;
  };

  std::function<void()> wake_;
  std::atomic<size_t> waits_{0};
  Mutex mutex_;
  absl::flat_hash_map<const void*, Word> words_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<const void*, Owner> owners_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace pto::engine
