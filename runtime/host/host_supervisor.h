#pragma once

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "runtime/base/mutex.h"
#include "runtime/host/host_keeper.h"

namespace pto::host {

// All kernel hosts of a node, with a thread each. A host ends with its lane (see HostLane), with
// HostKeeper::Stop, or here. Thread-safe.
class HostSupervisor {
 public:
  HostSupervisor() = default;
  // Ends all hosts, and waits for that.
  ~HostSupervisor();
  HostSupervisor(const HostSupervisor&) = delete;
  HostSupervisor& operator=(const HostSupervisor&) = delete;

  // Begins to start a host. Returns at once; see HostKeeper::AwaitReady.
  std::shared_ptr<HostKeeper> Start(HostOptions options);
  // Those that have not ended, in the order of their starts.
  std::vector<HostStatus> List();

 private:
  struct Entry {
    std::shared_ptr<HostKeeper> keeper;
    std::atomic<bool> ended{false};
    std::thread thread;
  };

  // Joins the threads of hosts that have ended.
  void Sweep() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  std::vector<std::unique_ptr<Entry>> entries_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace pto::host
