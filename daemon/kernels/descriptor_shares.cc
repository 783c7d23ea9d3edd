#include "daemon/kernels/descriptor_shares.h"

#include <sys/resource.h>

#include <algorithm>
#include <utility>

namespace pto::daemon {

std::function<uint64_t()> DescriptorShares::OfProcess(uint64_t divisor) {
  return [divisor]() -> uint64_t {
    // More are of no use, and some systems have no limit.
    constexpr uint64_t kMost = uint64_t{1} << 20;
    rlimit limit = {};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
      return kMost / divisor;
    }
    return std::min<uint64_t>(limit.rlim_cur, kMost) / divisor;
  };
}

std::shared_ptr<const void> DescriptorShares::Take(const std::string& client, Limit* exceeded) {
  const uint64_t all = all_();
  const uint64_t share = std::max<uint64_t>(all / kClients, 1);
  {
    MutexLock lock(mutex_);
    if (used_ >= all) {
      *exceeded = {false, all, used_};
      return nullptr;
    }
    uint64_t& mine = by_client_[client];
    if (mine >= share) {
      *exceeded = {true, share, mine};
      return nullptr;
    }
    ++mine;
    ++used_;
  }
  struct Taken {
    ~Taken() { shares->Give(client); }
    const std::shared_ptr<DescriptorShares> shares;
    const std::string client;
  };
  return std::shared_ptr<const Taken>(new Taken{shared_from_this(), client});
}

void DescriptorShares::Give(const std::string& client) {
  MutexLock lock(mutex_);
  --used_;
  const auto found = by_client_.find(client);
  if (--found->second == 0) by_client_.erase(found);
}

uint64_t DescriptorShares::used() const {
  MutexLock lock(mutex_);
  return used_;
}

}  // namespace pto::daemon
