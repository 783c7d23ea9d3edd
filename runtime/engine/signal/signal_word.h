#pragma once

#include <atomic>
#include <cstdint>

#include "kernels/comparison.h"
#include "kernels/pto_kernel.h"

namespace pto::engine {

// One word of device memory that is accessed atomically.
struct SignalWord {
  void* address = nullptr;
  uint32_t dtype = 0;  // PTO_I32 or PTO_I64

  // Whether type, address and alignment are valid.
  bool valid() const {
    const uint64_t bytes = dtype == PTO_I32 ? 4 : dtype == PTO_I64 ? 8 : 0;
    return bytes != 0 && address != nullptr && reinterpret_cast<uintptr_t>(address) % bytes == 0;
  }
  // Load and Change are sequentially consistent, because WaitTable relies on one order of words and
  // waiters.
  int64_t Load() const {
    if (dtype == PTO_I32) return std::atomic_ref(*static_cast<int32_t*>(address)).load();
    return std::atomic_ref(*static_cast<int64_t*>(address)).load();
  }
  // Additions wrap around.
  void Change(pto_notify_op op, int64_t value) const {
    if (dtype == PTO_I32) {
      std::atomic_ref word(*static_cast<int32_t*>(address));
      const auto cut = static_cast<int32_t>(value);
      op == PTO_ADD ? static_cast<void>(word.fetch_add(cut)) : word.store(cut);
    } else {
      std::atomic_ref word(*static_cast<int64_t*>(address));
      op == PTO_ADD ? static_cast<void>(word.fetch_add(value)) : word.store(value);
    }
  }
};

inline bool IsNotifyOp(int64_t op) { return op == PTO_SET || op == PTO_ADD; }

}  // namespace pto::engine
