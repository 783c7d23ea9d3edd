#include "runtime/graph/big_vector.h"

#include <sys/mman.h>

#include <atomic>
#include <cstdint>
#include <new>

namespace pto::engine {
namespace {

constexpr size_t kLargePage = size_t{2} << 20;
// Smaller arrays that do not grow live on the heap, where they take no more than they need.
constexpr size_t kMapped = size_t{1} << 20;
// Growing arrays leave the heap earlier: on the heap, each move would touch new pages, and a large
// page costs no more than a few hundred small ones.
constexpr size_t kGrowsMapped = size_t{256} << 10;
// Reserved address space for growth; enough for the records of nearly any graph.
constexpr size_t kRoom = size_t{1} << 30;

void* Addresses(size_t bytes) {
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

size_t BeyondLargePage(const void* memory) {
  return reinterpret_cast<uintptr_t>(memory) % kLargePage;
}

// Maps memory aligned to a large page; nullptr on failure.
void* Map(size_t bytes) {
  void* memory = Addresses(bytes);
  // Newer kernels align large mappings themselves.
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
  // Only an optimisation, so errors are ignored.
  if (memory != nullptr) (void)madvise(memory, bytes, MADV_HUGEPAGE);
  return memory;
}

size_t RoundUp(size_t bytes) { return (bytes + kLargePage - 1) / kLargePage * kLargePage; }

// The mappings of a process are limited, and the heap needs some, too. Beyond these arrays live
// there.
constexpr int kMostMapped = 4096;
std::atomic<int> mapped_now{0};

bool TakeMapping() {
  if (mapped_now.fetch_add(1, std::memory_order_relaxed) < kMostMapped) return true;
  mapped_now.fetch_sub(1, std::memory_order_relaxed);
  return false;
}

void Free(void* data, size_t capacity, bool mapped) {
  if (mapped) {
    mapped_now.fetch_sub(1, std::memory_order_relaxed);
    // The host may have no mapping left to cut this one out of another. Then at least the pages go.
    if (munmap(data, capacity) != 0) (void)madvise(data, capacity, MADV_DONTNEED);
  } else {
    ::operator delete(data);
  }
}

}  // namespace

BigMemory::~BigMemory() { Free(data_, capacity_, mapped_); }

void BigMemory::Reserve(size_t bytes, size_t used, bool grows) {
  if (bytes <= capacity_) return;
  size_t capacity = std::max<size_t>(grows ? std::max(bytes, 2 * capacity_) : bytes, 64);
  void* data = nullptr;
  bool mapped = false;
  if (capacity >= (grows ? kGrowsMapped : kMapped)) {
    const size_t rounded = RoundUp(grows ? std::max(kRoom, 4 * bytes) : bytes);
    if (TakeMapping()) {
      data = Map(rounded);
      mapped = data != nullptr;
      if (!mapped) mapped_now.fetch_sub(1, std::memory_order_relaxed);
    }
    if (mapped) capacity = rounded;
  }
  // If no address range is available, use the heap.
  if (data == nullptr) data = ::operator new(capacity);
  if (used > 0) std::memcpy(data, data_, used);
  Free(data_, capacity_, mapped_);
  data_ = data;
  capacity_ = capacity;
  mapped_ = mapped;
}

void BigMemory::Shrink(size_t used) {
  if (mapped_ && used >= kMapped) {
    const size_t kept = RoundUp(used);
    // What the host does not take back has at least never been touched.
    if (kept < capacity_ && munmap(static_cast<std::byte*>(data_) + kept, capacity_ - kept) == 0) {
      capacity_ = kept;
    }
    return;
  }
  // Saving a few bytes is not worth a copy.
  if (!mapped_ && capacity_ - used <= capacity_ / 8) return;
  BigMemory exact;
  exact.Reserve(used, 0, false);
  if (used > 0) std::memcpy(exact.data_, data_, used);
  swap(exact);
}

}  // namespace pto::engine
