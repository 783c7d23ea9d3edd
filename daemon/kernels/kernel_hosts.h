#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/kernels/descriptor_shares.h"
#include "daemon/kernels/kernel_store.h"
#include "daemon/kernels/load_queue.h"
#include "runtime/base/mutex.h"
#include "runtime/chip/shared_file.h"
#include "runtime/host/host_keeper.h"
#include "runtime/host/host_supervisor.h"

namespace pto::daemon {

// What a node has for kernels of users: their files, the processes that run them, and the threads
// that load them. Owned by the node. Thread-safe.
class KernelHosts {
 public:
  struct Options {
    // The program of a host. Without arguments the node cannot run hosts.
    host::HostCommand command;
    host::SandboxLimits sandbox;
    // How long a host may take to start, and a kernel to be loaded.
    absl::Duration start_timeout = absl::Seconds(10);
    absl::Duration load_timeout = absl::Seconds(20);
    // How long buffers may be in use before they are moved to where a host can see them.
    absl::Duration move_timeout = absl::Seconds(10);
    uint64_t max_kernel_bytes = uint64_t{64} << 20;
    uint64_t max_client_bytes = uint64_t{1} << 30;
  };

  explicit KernelHosts(Options options);
  ~KernelHosts() { Stop(); }

  const Options& options() const { return options_; }
  // NOT_AVAILABLE if the node cannot run hosts.
  absl::Status CheckAvailable() const;
  KernelStore& store() { return *store_; }
  const std::shared_ptr<engine::SharingBudget>& sharing() const { return sharing_; }
  // A file for a buffer or window of the client's, counted until the result is destroyed.
  // CHIP_MEMORY_EXHAUSTED if there can be no more.
  absl::StatusOr<std::shared_ptr<const void>> TakeBufferFile(const std::string& client);
  // See LoadQueue::Add. The work is dropped after Stop. MEMORY_BUDGET if the machine has no thread
  // for it.
  absl::Status Load(const void* session, const std::string& client, std::function<void()> work);

  // Begins to start the host of a session, which names it.
  std::shared_ptr<host::HostKeeper> Start(const std::string& session);

  // Ends a host for good, and soon gives back all that it has.
  void Retire(std::shared_ptr<host::HostKeeper> keeper);

  // Since the daemon began.
  struct Counts {
    uint64_t starts = 0;
    uint64_t deaths = 0;
  };
  Counts counts() const;

  // Ends all hosts, and waits for the threads that load kernels. Nothing is loaded any more.
  void Stop();

 private:
  const Options options_;
  const std::shared_ptr<KernelStore> store_;
  const std::shared_ptr<engine::SharingBudget> sharing_;
  const std::shared_ptr<DescriptorShares> buffer_files_;
  host::HostSupervisor supervisor_;
  // Keepers are destroyed by whoever lets go last, and then what they have counted is added.
  struct Past {
    Mutex mutex;
    Counts counts ABSL_GUARDED_BY(mutex);
  };
  const std::shared_ptr<Past> past_ = std::make_shared<Past>();
  mutable Mutex mutex_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::weak_ptr<host::HostKeeper>> hosts_ ABSL_GUARDED_BY(mutex_);
  // Last: its threads use all of this.
  LoadQueue loads_;
};

}  // namespace pto::daemon
