// The side of a kernel of the PTO ABI, in a simulator: what such kernels are compiled with, written
// from the description of the ABI alone. Shares nothing with the host's side, so that a mistake in
// either shows in the tests. All fields are read and written by their offsets.
#pragma once

#include <time.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace sim {

template <typename T>
inline T Get(uint64_t address, uint64_t offset) {
  T value;
  std::memcpy(&value, reinterpret_cast<const void*>(address + offset), sizeof value);
  return value;
}

template <typename T>
inline void Put(uint64_t address, uint64_t offset, T value) {
  std::memcpy(reinterpret_cast<void*>(address + offset), &value, sizeof value);
}

// A tensor descriptor.
class Tensor {
 public:
  explicit Tensor(int64_t word) : at_(static_cast<uint64_t>(word)) {}

  uint64_t buffer() const { return Get<uint64_t>(at_, 0); }
  uint64_t buffer_bytes() const { return Get<uint64_t>(at_, 8); }
  uint64_t owner() const { return Get<uint64_t>(at_, 16); }
  uint64_t start_offset() const { return Get<uint64_t>(at_, 24); }
  uint32_t ndim() const { return Get<uint32_t>(at_, 36); }
  uint8_t dtype() const { return Get<uint8_t>(at_, 40); }
  uint8_t contiguous() const { return Get<uint8_t>(at_, 42); }
  uint8_t address_space() const { return Get<uint8_t>(at_, 43); }
  uint32_t shape(uint32_t d) const { return Get<uint32_t>(at_, 44 + 4 * d); }
  uint64_t extent() const { return Get<uint64_t>(at_, 64); }
  uint32_t stride(uint32_t d) const { return Get<uint32_t>(at_, 72 + 4 * d); }

  uint64_t size() const {
    uint64_t size = 1;
    for (uint32_t d = 0; d < ndim(); ++d) size *= shape(d);
    return size;
  }

  // The address of element i, in row-major order.
  template <typename T>
  T* Element(uint64_t i) const {
    uint64_t offset = start_offset();
    for (uint32_t d = ndim(); d-- > 0;) {
      offset += i % shape(d) * stride(d);
      i /= shape(d);
    }
    return reinterpret_cast<T*>(buffer()) + offset;
  }

 private:
  const uint64_t at_;
};

inline float F32(int64_t word) {
  const uint32_t bits = static_cast<uint32_t>(static_cast<uint64_t>(word));
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// ---- contexts

constexpr int kLocal = 48;
constexpr int kGlobal = 49;

inline uint32_t BlockIndex(const int64_t* args) {
  return Get<uint32_t>(static_cast<uint64_t>(args[kLocal]), 0);
}
inline uint32_t BlockCount(const int64_t* args) {
  return Get<uint32_t>(static_cast<uint64_t>(args[kLocal]), 4);
}
inline int32_t SubBlock(const int64_t* args) {
  return Get<int32_t>(static_cast<uint64_t>(args[kGlobal]), 0);
}

// A condition that delays the end of the task, in the way that kernels register it.
inline void Defer(const int64_t* args, int32_t type, uint64_t address, uint32_t expected,
                  uint64_t cookie = 0, uint32_t engine = 0) {
  const uint64_t local = static_cast<uint64_t>(args[kLocal]);
  const uint64_t count_at = Get<uint64_t>(local, 8);
  const uint64_t error_at = Get<uint64_t>(local, 16);
  if (Get<uint64_t>(local, 40) == ~uint64_t{0} || address == 0) {
    return Put<int32_t>(error_at, 0, 101);
  }
  const uint32_t count = Get<uint32_t>(count_at, 0);
  if (count >= Get<uint32_t>(local, 32)) return Put<int32_t>(error_at, 0, 102);
  const uint64_t entry = Get<uint64_t>(local, 24) + 32 * uint64_t{count};
  Put<uint64_t>(entry, 0, address);
  Put<uint64_t>(entry, 8, cookie);
  Put<uint32_t>(entry, 16, expected);
  Put<uint32_t>(entry, 20, engine);
  Put<int32_t>(entry, 24, type);
  Put<uint32_t>(count_at, 0, count + 1);
}

// ---- communication

class Comm {
 public:
  explicit Comm(int64_t word) : at_(static_cast<uint64_t>(word)) {}

  uint32_t rank() const { return Get<uint32_t>(at_, 16); }
  uint32_t ranks() const { return Get<uint32_t>(at_, 20); }
  uint64_t window_bytes() const { return Get<uint64_t>(at_, 24); }
  uint64_t window(uint32_t rank) const { return Get<uint64_t>(at_, 32 + 8 * rank); }
  uint64_t window_out(uint32_t rank) const { return Get<uint64_t>(at_, 544 + 8 * rank); }

  // A peer's address of something in my window.
  template <typename T>
  T* Remote(T* mine, uint32_t peer) const {
    return reinterpret_cast<T*>(window(peer) + (reinterpret_cast<uint64_t>(mine) - window(rank())));
  }

 private:
  const uint64_t at_;
};

inline void NotifyAdd(uint32_t* counter, uint32_t value) {
  __atomic_fetch_add(counter, value, __ATOMIC_ACQ_REL);
}

// Polls a counter. Like the real one, it gives up after so many looks as the environment says and
// goes on as if the counter had the value.
inline void WaitAtLeast(const uint32_t* counter, uint32_t value) {
  const char* const text = std::getenv("PTO_CPU_SIM_TWAIT_MAX_SPINS");
  const uint64_t most = text == nullptr ? 100000 : std::strtoull(text, nullptr, 10);
  for (uint64_t looks = 0; most == 0 || looks < most; ++looks) {
    if (__atomic_load_n(counter, __ATOMIC_ACQUIRE) >= value) return;
    const timespec pause = {0, 10000};
    nanosleep(&pause, nullptr);
  }
}

}  // namespace sim
