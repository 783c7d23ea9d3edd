#pragma once

#include <atomic>
#include <cstdint>

#include "kernels/comparison.h"
#include "kernels/pto_kernel.h"

namespace pto::engine {

// One word of device memory that is accessed atomically: a signal, or a foreign word, which code
// that knows nothing of waiters changes directly.
struct SignalWord {
  void* address = nullptr;
  uint32_t dtype = 0;  // PTO_I32 or PTO_I64; of a foreign word PTO_U32 or PTO_U64

  // Whether type, address and alignment are those of a signal, or of a foreign word.
  bool valid() const { return !foreign() && aligned(); }
  bool valid_foreign() const { return foreign() && aligned(); }
  bool foreign() const { return dtype == PTO_U32 || dtype == PTO_U64; }
  // Load and Change are sequentially consistent, because WaitTable relies on one order of words and
  // waiters. For a PTO_U64 the result has the bits of the word.
  int64_t Load() const {
    if (dtype == PTO_I32) return std::atomic_ref(*static_cast<int32_t*>(address)).load();
    if (dtype == PTO_U32) return std::atomic_ref(*static_cast<uint32_t*>(address)).load();
    return std::atomic_ref(*static_cast<int64_t*>(address)).load();
  }
  // Whether a value of the word compares so with another: of a foreign word, without a sign.
  bool Compares(pto_compare compare, int64_t have, int64_t want) const {
    if (!foreign()) return pto::Compares(compare, have, want);
    return pto::Compares(compare, static_cast<uint64_t>(have), static_cast<uint64_t>(want));
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

 private:
  bool aligned() const {
    const bool narrow = dtype == PTO_I32 || dtype == PTO_U32;
    const uint64_t bytes = narrow ? 4 : dtype == PTO_I64 || dtype == PTO_U64 ? 8 : 0;
    return bytes != 0 && address != nullptr && reinterpret_cast<uintptr_t>(address) % bytes == 0;
  }
};

inline bool IsNotifyOp(int64_t op) { return op == PTO_SET || op == PTO_ADD; }

}  // namespace pto::engine
