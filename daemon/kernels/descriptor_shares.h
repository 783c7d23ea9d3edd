#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "runtime/base/mutex.h"

namespace pto::daemon {

// Counts the file descriptors that clients make the daemon hold for one purpose. A client has at
// most a quarter of them, so that none takes them all. Thread-safe.
class DescriptorShares : public std::enable_shared_from_this<DescriptorShares> {
 public:
  static constexpr uint64_t kClients = 4;  // that can use up their share

  // `all` tells how many there are; it is asked each time.
  explicit DescriptorShares(std::function<uint64_t()> all) : all_(std::move(all)) {}
  // One of `divisor` of those that the process may open, now.
  static std::function<uint64_t()> OfProcess(uint64_t divisor);

  // The limit that a request would exceed.
  struct Limit {
    bool of_client = false;
    uint64_t limit = 0;
    uint64_t used = 0;
  };
  // Takes one until the result is destroyed. nullptr: there is none, and `exceeded` says why.
  std::shared_ptr<const void> Take(const std::string& client, Limit* exceeded);

  uint64_t used() const;

 private:
  void Give(const std::string& client);

  const std::function<uint64_t()> all_;
  mutable Mutex mutex_;
  uint64_t used_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<std::string, uint64_t> by_client_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace pto::daemon
