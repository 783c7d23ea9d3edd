#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "daemon/graph/graph_part.h"
#include "runtime/base/memory_account.h"

namespace pto::daemon {

// Tasks of a run that are kept so that they can be looked at: its newest parts, within a bound for
// itself, one for all of the process together, and as far as the account that they are charged to
// has room. Not thread-safe, but for the latter two.
class KeptGraph {
 public:
  struct Bounds {
    uint64_t own_bytes = 0;
    uint64_t process_bytes = kProcessBytes;
  };
  static constexpr uint64_t kProcessBytes = uint64_t{1} << 30;

  // Nothing is charged without an account.
  explicit KeptGraph(Bounds bounds, std::shared_ptr<MemoryAccount> memory = nullptr)
      : bounds_(bounds), charge_(std::move(memory)) {}
  ~KeptGraph() { total_bytes_.fetch_sub(bytes_, std::memory_order_relaxed); }
  KeptGraph(const KeptGraph&) = delete;
  KeptGraph& operator=(const KeptGraph&) = delete;

  // Takes a part that follows the last one, and lets go of the oldest ones beyond the bounds,
  // perhaps of this one too. Returns them: to free a large one takes time.
  GraphParts Add(std::shared_ptr<const GraphPart> part);

  GraphParts parts() const { return {parts_.begin(), parts_.end()}; }
  uint64_t bytes() const { return bytes_; }
  static uint64_t total_bytes() { return total_bytes_.load(std::memory_order_relaxed); }

 private:
  static inline std::atomic<uint64_t> total_bytes_{0};
  const Bounds bounds_;
  std::deque<std::shared_ptr<const GraphPart>> parts_;
  uint64_t bytes_ = 0;
  HostCharge charge_;  // of `bytes_`
};

}  // namespace pto::daemon
