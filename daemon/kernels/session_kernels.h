#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "daemon/domain/session_memory.h"
#include "daemon/kernels/kernel_hosts.h"
#include "daemon/kernels/kernel_store.h"
#include "daemon/kernels/used_kernels.h"
#include "kernels/kernel.h"
#include "kernels/registry.h"
#include "runtime/base/clock.h"
#include "runtime/base/mutex.h"
#include "runtime/engine/engine.h"
#include "runtime/host/host_keeper.h"

namespace pto::daemon {

// A kernel that a session's client has uploaded. Never changes.
struct SessionKernel {
  std::string id;
  std::string file_name;
  std::string entry;      // as it was given
  std::string signature;  // of a kernel of the PTO ABI
  std::shared_ptr<const KernelFile> file;
  std::shared_ptr<const KernelIdentity> identity;
  std::shared_ptr<const void> charge;  // for what it takes when it is loaded
  std::shared_ptr<const Kernel> kernel;
  bool blocks = false;
  absl::Time create_time;
};

// The kernels of one session: the built-in ones, and those that its client has uploaded, with the
// process that runs these. The process is started when the first kernel comes and ends with the
// session. Thread-safe.
class SessionKernels final : public KernelSource {
 public:
  struct Options {
    std::string session;           // its id
    std::string name;              // its name
    std::string client;            // who has it
    KernelHosts* hosts = nullptr;  // nullptr: nothing can be uploaded
    engine::Engine* engine = nullptr;
    const Clock* clock = nullptr;
    const KernelSource* built_in = nullptr;
    // See KernelStore::ChargeLoaded.
    std::function<absl::StatusOr<std::shared_ptr<const void>>(const KernelFile& file)> charge;
    std::shared_ptr<SessionMemory> memory;
    // Moves memory of before to files and shows it, before the first kernel can be used. It may
    // take long, and ends when `give_up` says so.
    std::function<absl::Status(const std::function<bool()>& give_up)> move_memory;
  };

  explicit SessionKernels(Options options) : options_(std::move(options)) {}
  ~SessionKernels() override { Close(); }

  // ---- names: `k` is an uploaded kernel or else a built-in one, `kernels/k` is built in, and
  // `sessions/s/kernels/k` is an uploaded one of this session
  std::shared_ptr<const Kernel> Find(absl::string_view name) const override;
  std::vector<std::shared_ptr<const Kernel>> List() const override;

  // ---- uploaded kernels
  struct Upload {
    std::string id;  // empty: the name that the object gives itself
    std::string file_name;
    std::string entry;
    std::string signature;
    std::shared_ptr<const KernelFile> file;
    std::function<bool()> gone;  // whether nobody waits for it any more
  };
  // Loads the kernel. The same upload again returns the kernel that is there. Waits: for threads of
  // KernelHosts::Load, one call at a time. Errors: KERNEL_INVALID, ID_INVALID, FIELD_INVALID,
  // ID_CONFLICT, HOST_LOST, BUFFER_IN_USE, CHIP_MEMORY_EXHAUSTED, QUOTA_KERNELS, MEMORY_BUDGET,
  // CLIENT_GONE, SESSION_ENDED.
  absl::StatusOr<std::shared_ptr<const SessionKernel>> Register(const Upload& upload);
  // KERNEL_UNKNOWN.
  absl::StatusOr<std::shared_ptr<const SessionKernel>> Get(absl::string_view id) const;
  // Those after `after`, in order of id.
  std::vector<std::shared_ptr<const SessionKernel>> ListUploaded(absl::string_view after,
                                                                 size_t limit) const;
  // Graphs that use the kernel keep it. KERNEL_UNKNOWN.
  absl::StatusOr<std::shared_ptr<const SessionKernel>> Remove(absl::string_view id);

  // ---- requests that are repeated
  // The uploaded kernels that a graph uses; nullptr if there are none.
  std::shared_ptr<const UsedKernels> UsedBy(
      absl::Span<const std::shared_ptr<const Kernel>> kernels) const {
    return identities_->Of(kernels);
  }
  // Whether a name of these means another kernel now than then. Empty: none does. One that was
  // deleted still means what it meant.
  std::string FindChanged(const UsedKernels& used) const;

  // ---- the process
  // Nothing if there is none.
  absl::optional<host::HostStatus> host() const;
  size_t size() const;

  // The session has ended: no kernel can be found any more, and none comes.
  void Close();
  // No run of the session is left.
  void EndHost();

 private:
  struct Host {
    std::shared_ptr<host::HostKeeper> keeper;
    std::shared_ptr<engine::LanePort> port;
  };

  absl::Status CheckOpen() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Unknown(absl::string_view id) const;
  // The kernel that the same upload has made and that `host` runs, nullptr if there is none, or
  // ID_CONFLICT.
  absl::StatusOr<std::shared_ptr<const SessionKernel>> FindSame(const Upload& upload,
                                                                const std::string& id,
                                                                const Host& host) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Starts the host unless there is one that can be used.
  absl::StatusOr<Host> EnsureHost(const std::function<bool()>& give_up);
  // The engine has given up the host before: the kernels get into another one. Graphs that were
  // compiled before keep the old ones, and fail.
  void ReloadAll(const Host& host);
  absl::StatusOr<std::shared_ptr<const SessionKernel>> Load(const Host& host, const Upload& upload,
                                                            std::shared_ptr<const void> charge);

  const Options options_;
  const std::shared_ptr<KernelIdentities> identities_ = std::make_shared<KernelIdentities>();
  mutable Mutex mutex_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  Host host_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::shared_ptr<const SessionKernel>, std::less<>> kernels_
      ABSL_GUARDED_BY(mutex_);
  std::atomic<size_t> count_{0};  // of them, for a look without the lock
};

}  // namespace pto::daemon
