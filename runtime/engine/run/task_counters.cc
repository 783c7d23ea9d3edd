#include "runtime/engine/run/task_counters.h"

#include <sys/mman.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace pto::engine {
namespace {

// Smaller arrays come from the heap.
constexpr size_t kMapped = size_t{64} << 10;
// Arrays of at least this size use large pages.
constexpr size_t kLarge = size_t{2} << 20;

// The mappings of a process are limited, and the heap needs some, too. Beyond these arrays come
// from there.
constexpr int kMostMapped = 4096;
std::atomic<int> mapped_now{0};

// nullptr if there is no mapping left.
void* Map(size_t bytes) {
  if (mapped_now.fetch_add(1, std::memory_order_relaxed) >= kMostMapped) {
    mapped_now.fetch_sub(1, std::memory_order_relaxed);
    return nullptr;
  }
  void* const memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    mapped_now.fetch_sub(1, std::memory_order_relaxed);
    return nullptr;
  }
  // Optional: without large pages it is only slower.
  if (bytes >= kLarge) (void)madvise(memory, bytes, MADV_HUGEPAGE);
  return memory;
}

}  // namespace

TaskCounters::TaskCounters(size_t count) {
  if (count <= kInline) return;
  const size_t bytes = count * sizeof *counters_;
  void* memory = nullptr;
  if (bytes >= kMapped) {
    memory = Map(bytes);
    if (memory != nullptr) mapped_bytes_ = bytes;
  }
  if (memory == nullptr) {
    memory = std::calloc(count, sizeof *counters_);
    if (memory == nullptr) throw std::bad_alloc();
  }
  // Zeroed memory is a valid std::atomic of zero. Constructing each would touch all pages.
  counters_ = static_cast<std::atomic<uint32_t>*>(memory);
}

TaskCounters::~TaskCounters() {
  if (mapped_bytes_ > 0) {
    mapped_now.fetch_sub(1, std::memory_order_relaxed);
    // The host may have no mapping left to cut this one out of another. Then at least the pages go.
    if (munmap(counters_, mapped_bytes_) != 0) {
      (void)madvise(counters_, mapped_bytes_, MADV_DONTNEED);
    }
  } else if (counters_ != few_) {
    std::free(counters_);
  }
}

}  // namespace pto::engine
