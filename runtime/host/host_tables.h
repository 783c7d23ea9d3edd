#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/pto_kernel.h"
#include "runtime/base/mutex.h"
#include "runtime/host/message.h"

namespace pto::host {

// The code of a kernel in this process, ready to be called.
struct KernelCode {
  const pto_kernel_info* info = nullptr;
  const void* data = nullptr;   // pto_context.kernel_data
  std::shared_ptr<void> owner;  // keeps it loaded
};

// Loads an object from a descriptor, which it does not close. `entry` is the symbol of the kernel,
// empty for the usual one, and `file_name` is for messages.
using KernelLoader = std::function<absl::StatusOr<KernelCode>(int object, const std::string& entry,
                                                              const std::string& file_name)>;

// In the host: what it has loaded and mapped by order of the daemon. Thread-safe.
class HostTables {
 public:
  HostTables() = default;
  HostTables(const HostTables&) = delete;
  HostTables& operator=(const HostTables&) = delete;

  void AddKernel(uint32_t id, KernelCode code);
  void RemoveKernel(uint32_t id);
  // nullptr: there is none.
  std::shared_ptr<const KernelCode> FindKernel(uint32_t id);

  absl::Status Map(uint32_t id, int descriptor, uint64_t bytes);
  void Unmap(uint32_t id);
  // Where a view is in this process. Returns false if it is not within its region.
  bool Translate(const TensorMessage& tensor, void** address);

  // Orders are done one after the other; posts wait until those before them are done.
  void FinishOrder(uint64_t number);
  void AwaitOrders(uint64_t number);

 private:
  struct Region {
    std::byte* data = nullptr;
    uint64_t bytes = 0;
  };

  Mutex mutex_;
  CondVar done_;
  uint64_t orders_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<uint32_t, std::shared_ptr<const KernelCode>> kernels_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<uint32_t, Region> regions_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace pto::host
