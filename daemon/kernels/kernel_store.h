#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "daemon/kernels/descriptor_shares.h"
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
// that uses them. A file goes with its last user. Also counts what loaded kernels take: nothing
// else limits their number. Thread-safe.
class KernelStore : public std::enable_shared_from_this<KernelStore> {
  struct Client;
  struct Share;

 public:
  // A file that is being uploaded; all of it is charged from the beginning, unless the client has
  // it already. What is not finished leaves nothing. Not thread-safe.
  class Upload {
   public:
    ~Upload();
    Upload(const Upload&) = delete;
    Upload& operator=(const Upload&) = delete;

    uint64_t received() const { return received_; }
    // The next bytes. FIELD_INVALID if there are more than announced; MEMORY_BUDGET if the machine
    // has no memory.
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
    std::shared_ptr<Share> known_;  // the client has the file: what comes is only compared
    KernelFile file_;
    uint64_t received_ = 0;
    uint64_t taken_ = 0;  // of the client's limit
    HostCharge charge_;
    std::shared_ptr<const void> descriptor_;
    std::unique_ptr<Hash> hash_;
  };

  // What a loaded kernel takes beside the copy of its file in its host.
  static constexpr uint64_t kLoadedBytes = uint64_t{64} << 10;

  // `descriptors`: for files and loaded kernels.
  KernelStore(uint64_t max_kernel_bytes, uint64_t max_client_bytes,
              std::function<uint64_t()> descriptors = DescriptorShares::OfProcess(2))
      : max_kernel_bytes_(max_kernel_bytes),
        max_client_bytes_(max_client_bytes),
        descriptors_(std::make_shared<DescriptorShares>(std::move(descriptors))) {}
  KernelStore(const KernelStore&) = delete;
  KernelStore& operator=(const KernelStore&) = delete;

  // `memory` is the client's account. A file that the client has is not charged again, so a
  // repeated upload does not fail for want of room. Errors: FIELD_INVALID at `file_bytes` or
  // `sha256`, QUOTA_KERNELS, MEMORY_BUDGET.
  absl::StatusOr<std::unique_ptr<Upload>> Begin(const std::string& client,
                                                const std::shared_ptr<MemoryAccount>& memory,
                                                uint64_t bytes, absl::string_view sha256);

  // What a kernel of this file takes when a host has loaded it, until the result is destroyed: its
  // description, a descriptor and the host's copy of the file. QUOTA_KERNELS, MEMORY_BUDGET.
  absl::StatusOr<std::shared_ptr<const void>> ChargeLoaded(
      const std::string& client, const std::shared_ptr<MemoryAccount>& memory,
      const KernelFile& file);

  // What is stored now.
  struct Stored {
    uint64_t files = 0;
    uint64_t bytes = 0;
  };
  Stored stored() const;
  // Entries of the table of files, also of files that have gone.
  size_t known_files() const;

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
    std::shared_ptr<const void> descriptor;
  };

  absl::StatusOr<std::shared_ptr<const void>> TakeDescriptor(const std::string& client);
  absl::Status Take(Client& client, uint64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void GiveBack(Client& client, uint64_t bytes);
  std::shared_ptr<const KernelFile> Add(Upload& upload);
  void Drop(Share& share);

  const uint64_t max_kernel_bytes_;
  const uint64_t max_client_bytes_;
  const std::shared_ptr<DescriptorShares> descriptors_;
  mutable Mutex mutex_;
  absl::flat_hash_map<std::string, std::weak_ptr<const KernelFile>> files_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, std::weak_ptr<Client>> clients_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace pto::daemon
