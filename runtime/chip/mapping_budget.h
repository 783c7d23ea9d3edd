#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

namespace pto::engine {

// How many mappings the process may have for the memory of chips. The kernel limits those of a
// process, and when it has no more, nothing works: not the heap, not stacks, and not even munmap of
// a part. So the memory of chips gets a share. Thread-safe.
class MappingBudget {
 public:
  explicit MappingBudget(uint64_t limit) : limit_(limit) {}
  // The one of this process: half of vm.max_map_count.
  static const std::shared_ptr<MappingBudget>& OfThisProcess();

  bool TryTake(uint64_t mappings) {
    const uint64_t before = used_.fetch_add(mappings, std::memory_order_relaxed);
    if (mappings <= limit_ && before <= limit_ - mappings) return true;
    Give(mappings);
    return false;
  }
  void Give(uint64_t mappings) { used_.fetch_sub(mappings, std::memory_order_relaxed); }

  uint64_t limit() const { return limit_; }
  uint64_t used() const { return used_.load(std::memory_order_relaxed); }

 private:
  const uint64_t limit_;
  std::atomic<uint64_t> used_{0};
};

}  // namespace pto::engine
