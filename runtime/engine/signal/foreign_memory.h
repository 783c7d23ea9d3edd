#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>

#include "runtime/base/mutex.h"

namespace pto::engine {

// Memory of this process that others have mapped and whose code changes words in it without
// telling: that of kernel hosts. Waits for words in it look at them again and again.
//
// There is one for the process, because memory is. Thread-safe.
class ForeignMemory {
 public:
  static ForeignMemory& OfProcess();

  ForeignMemory() = default;
  ForeignMemory(const ForeignMemory&) = delete;
  ForeignMemory& operator=(const ForeignMemory&) = delete;

  // As often as Add was called for it, Remove must be. Pieces do not overlap otherwise.
  void Add(const void* begin, size_t bytes);
  void Remove(const void* begin);

  // Costs one load if there is none at all.
  bool Contains(const void* address) const {
    return count_.load(std::memory_order_acquire) != 0 && Find(address);
  }

 private:
  struct Piece {
    uintptr_t end = 0;
    uint32_t count = 0;
  };

  bool Find(const void* address) const;

  std::atomic<size_t> count_{0};
  mutable Mutex mutex_;
  std::map<uintptr_t, Piece> pieces_ ABSL_GUARDED_BY(mutex_);  // by their beginnings
};

}  // namespace pto::engine
