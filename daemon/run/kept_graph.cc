#include "daemon/run/kept_graph.h"

#include <utility>

namespace pto::daemon {

GraphParts KeptGraph::Add(std::shared_ptr<const GraphPart> part) {
  const uint64_t more = part->bytes();
  bytes_ += more;
  uint64_t total = total_bytes_.fetch_add(more, std::memory_order_relaxed) + more;
  parts_.push_back(std::move(part));
  GraphParts dropped;
  while (!parts_.empty() && (bytes_ > bounds_.own_bytes || total > bounds_.process_bytes ||
                             !charge_.TryResize(bytes_))) {
    const uint64_t less = parts_.front()->bytes();
    bytes_ -= less;
    total = total_bytes_.fetch_sub(less, std::memory_order_relaxed) - less;
    dropped.push_back(std::move(parts_.front()));
    parts_.pop_front();
  }
  charge_.ForceResize(bytes_);
  return dropped;
}

}  // namespace pto::daemon
