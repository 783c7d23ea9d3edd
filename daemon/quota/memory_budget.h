#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/base/memory_account.h"
#include "runtime/base/mutex.h"

namespace pto::daemon {

// Holds memory that can be done without: a session, with the graphs of ended runs and old events.
// Thread-safe.
class MemoryHolder {
 public:
  virtual ~MemoryHolder() = default;
  // Frees about this much, or what there is; returns how much. Takes the holder's locks.
  virtual uint64_t Shed(uint64_t bytes) = 0;
};

// What the daemon may hold of the machine's memory: one account for each client, and one above them
// for all. README.md says who charges what. Thread-safe.
class MemoryBudget {
 public:
  MemoryBudget(uint64_t max_bytes, uint64_t max_client_bytes);

  const std::shared_ptr<MemoryAccount>& all() const { return all_; }
  // The client's account, as long as anybody holds it or something is charged to it; then a new
  // one.
  std::shared_ptr<MemoryAccount> OfClient(const std::string& client);

  // Adds a holder whose memory is charged to the account, as long as it lives.
  void AddHolder(const MemoryAccount* account, std::weak_ptr<MemoryHolder> holder);
  // Lets holders free what they can do without, first those of this account, until this many bytes
  // fit. Returns whether that helped. Call it without locks.
  bool MakeRoom(const MemoryAccount& account, uint64_t bytes);

  // All accounts of clients that hold anything, by name.
  std::vector<std::shared_ptr<MemoryAccount>> clients() const;

 private:
  struct Holder {
    const MemoryAccount* account;
    std::weak_ptr<MemoryHolder> holder;
  };

  const uint64_t max_client_bytes_;
  const std::shared_ptr<MemoryAccount> all_;
  mutable Mutex mutex_;
  absl::flat_hash_map<std::string, std::weak_ptr<MemoryAccount>> clients_ ABSL_GUARDED_BY(mutex_);
  std::vector<Holder> holders_ ABSL_GUARDED_BY(mutex_);
};

// Whether a request was refused for want of memory, and how much it wanted.
bool WantsMemory(const absl::Status& status, uint64_t* bytes);
template <typename T>
bool WantsMemory(const absl::StatusOr<T>& result, uint64_t* bytes) {
  return WantsMemory(result.status(), bytes);
}

}  // namespace pto::daemon
