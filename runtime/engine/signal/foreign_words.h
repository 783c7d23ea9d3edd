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
  // Called by Add when there was no wait before; with locks held, so it must return at once.
  void OnFirst(std::function<void()> wake) { wake_ = std::move(wake); }

  void Add(const void* word);
  void Remove(const void* word);

  // How many waits there are. May be out of date at once.
  size_t waits() const { return waits_.load(std::memory_order_seq_cst); }
  // Each word once.
  std::vector<const void*> Words() const;

 private:
  std::function<void()> wake_;
  std::atomic<size_t> waits_{0};
  mutable Mutex mutex_;
  absl::flat_hash_map<const void*, uint32_t> words_ ABSL_GUARDED_BY(mutex_);  // their waits
};

}  // namespace pto::engine
