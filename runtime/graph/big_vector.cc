#include "runtime/graph/big_vector.h"

#include <sys/mman.h>

#include <cstdint>
#include <new>

namespace pto {
namespace {

constexpr size_t kLargePage = size_t{2} << 20;
// Those that stay smaller come from the heap, where they take no more than they need.
constexpr size_t kMapped = size_t{1} << 20;
// Those that grow leave the heap sooner: there they would touch new pages each time that they
// move, and a large page costs no more than some hundred small ones.
constexpr size_t kGrowsMapped = size_t{256} << 10;
// Addresses to grow into: as many as all records of nearly any graph need.
constexpr size_t kRoom = size_t{1} << 30;

void* Addresses(size_t bytes) {
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

size_t BeyondLargePage(const void* memory) {
  return reinterpret_cast<uintptr_t>(memory) % kLargePage;
}

// Addresses that begin with a large page, or null.
void* Map(size_t bytes) {
  void* memory = Addresses(bytes);
  // Newer kernels see to it that they do.
  if (memory != nullptr && BeyondLargePage(memory) != 0) {
    munmap(memory, bytes);
    memory = Addresses(bytes + kLargePage);
    if (memory == nullptr) return nullptr;
    auto* const first = static_cast<std::byte*>(memory);
    const size_t before = (kLargePage - BeyondLargePage(memory)) % kLargePage;
    if (before > 0) munmap(first, before);
    if (before < kLargePage) munmap(first + before + bytes, kLargePage - before);
    memory = first + before;
  }
  // It works without, only slower.
  if (memory != nullptr) (void)madvise(memory, bytes, MADV_HUGEPAGE);
  return memory;
}

size_t RoundUp(size_t bytes) { return (bytes + kLargePage - 1) / kLargePage * kLargePage; }

void Free(void* data, size_t capacity, bool mapped) {
  if (mapped) {
    munmap(data, capacity);
  } else {
    ::operator delete(data);
  }
}

}  // namespace

BigBlock::~BigBlock() { Free(data_, capacity_, mapped_); }

void BigBlock::Reserve(size_t bytes, size_t used, bool grows) {
  if (bytes <= capacity_) return;
  size_t capacity = std::max<size_t>(grows ? std::max(bytes, 2 * capacity_) : bytes, 64);
  void* data = nullptr;
  bool mapped = false;
  if (capacity >= (grows ? kGrowsMapped : kMapped)) {
    const size_t rounded = RoundUp(grows ? std::max(kRoom, 4 * bytes) : bytes);
    data = Map(rounded);
    mapped = data != nullptr;
    if (mapped) capacity = rounded;
  }
  // Where addresses are scarce, the heap has to do.
  if (data == nullptr) data = ::operator new(capacity);
  if (used > 0) std::memcpy(data, data_, used);
  Free(data_, capacity_, mapped_);
  data_ = data;
  capacity_ = capacity;
  mapped_ = mapped;
}

void BigBlock::Shrink(size_t used) {
  if (mapped_ && used >= kMapped) {
    const size_t kept = RoundUp(used);
    if (kept < capacity_) munmap(static_cast<std::byte*>(data_) + kept, capacity_ - kept);
    capacity_ = kept;
    return;
  }
  // A few bytes less are not worth a copy.
  if (!mapped_ && capacity_ - used <= capacity_ / 8) return;
  BigBlock exact;
  exact.Reserve(used, 0, false);
  if (used > 0) std::memcpy(exact.data_, data_, used);
  swap(exact);
}

}  // namespace pto
