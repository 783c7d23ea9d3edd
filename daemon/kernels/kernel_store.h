#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/base/file_descriptor.h"
#include "runtime/base/memory_account.h"
#include "runtime/base/mutex.h"

namespace pto::daemon {

// The file of an uploaded kernel, in memory only. Nobody can change it, so hosts of different
// sessions may have the same one.
struct KernelFile {
  std::string sha256;  // 32 bytes
  uint64_t bytes = 0;
  FileDescriptor descriptor;
};

// The files of uploaded kernels. Identical files are stored once, and charged once to each client
// that uses them. A file goes with its last user. Thread-safe.
class KernelStore : public std::enable_shared_from_this<KernelStore> {
  struct Client;
  struct Share;

 public:
  // A file that is being uploaded; all of it is charged from the beginning. What is not finished
  // leaves nothing. Not thread-safe.
  class Upload {
   public:
    ~Upload();
    Upload(const Upload&) = delete;
    Upload& operator=(const Upload&) = delete;

    uint64_t received() const { return received_; }
    // The next bytes. FIELD_INVALID if there are more than announced; CHIP_MEMORY_EXHAUSTED if the
    // machine has no memory.
    absl::Status Append(absl::string_view data);
    // That was all. FIELD_INVALID if bytes are missing, or are not those that were announced.
    // The file lives, and is charged to the client, as long as the result.
    absl::StatusOr<std::shared_ptr<const KernelFile>> Finish();

   private:
    friend class KernelStore;
    class Hash;
    Upload();

    std::shared_ptr<KernelStore> store_;
    std::shared_ptr<Client> client_;
    KernelFile file_;
    uint64_t received_ = 0;
    uint64_t taken_ = 0;  // of the client's limit
    HostCharge charge_;
    std::unique_ptr<Hash> hash_;
  };

  KernelStore(uint64_t max_kernel_bytes, uint64_t max_client_bytes)
      : max_kernel_bytes_(max_kernel_bytes), max_client_bytes_(max_client_bytes) {}
  KernelStore(const KernelStore&) = delete;
  KernelStore& operator=(const KernelStore&) = delete;

  // `memory` is the client's account. Errors: FIELD_INVALID at `file_bytes` or `sha256`,
  // QUOTA_KERNELS, MEMORY_BUDGET.
  absl::StatusOr<std::unique_ptr<Upload>> Begin(const std::string& client,
                                                const std::shared_ptr<MemoryAccount>& memory,
                                                uint64_t bytes, absl::string_view sha256);

  // What is stored now.
  struct Stored {
    uint64_t files = 0;
    uint64_t bytes = 0;
  };
  Stored stored() const;

 private:
  // What one client has. Its last user destroys it.
  struct Client {
    std::string name;
    uint64_t used = 0;  // guarded by the store, as the shares are
    absl::flat_hash_map<std::string, std::weak_ptr<Share>> shares;
  };
  // That a client uses a file.
  struct Share {
    ~Share() {
      if (store != nullptr) store->Drop(*this);
    }
    std::shared_ptr<KernelStore> store;
    std::shared_ptr<Client> client;
    std::shared_ptr<const KernelFile> file;
    uint64_t taken = 0;
    HostCharge charge;
  };

  absl::Status Take(Client& client, uint64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void GiveBack(Client& client, uint64_t bytes);
  std::shared_ptr<const KernelFile> Add(Upload& upload);
  void Drop(Share& share);

  const uint64_t max_kernel_bytes_;
  const uint64_t max_client_bytes_;
  mutable Mutex mutex_;
  absl::flat_hash_map<std::string, std::weak_ptr<const KernelFile>> files_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, std::weak_ptr<Client>> clients_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace pto::daemon
