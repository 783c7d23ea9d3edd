#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/pto_kernel.h"
#include "runtime/base/mutex.h"
#include "runtime/host/message.h"
#include "runtime/host/object/pto_call.h"
#include "runtime/host/object/pto_layout.h"

namespace pto::host {

// The code of a kernel in this process, ready to be called.
struct KernelCode {
  const pto_kernel_info* info = nullptr;
  const void* data = nullptr;   // pto_context.kernel_data
  std::shared_ptr<void> owner;  // keeps it loaded
  HostAbi abi = HostAbi::kOwn;
};

// What is to be loaded.
struct KernelObject {
  int descriptor = -1;  // of the file; the loader does not close it
  HostAbi abi = HostAbi::kOwn;
  std::string entry;      // the symbol of the kernel; empty: the usual one
  std::string file_name;  // for messages
  // Of the PTO ABI, whose objects do not tell.
  std::string name;
  std::string signature;
};
using KernelLoader = std::function<absl::StatusOr<KernelCode>(const KernelObject& object)>;

// A domain: where its windows are in this process, and what kernels of the PTO ABI read of it.
struct DomainCode {
  struct Window {
    uint32_t chip = 0;
    std::byte* data = nullptr;
    uint64_t bytes = 0;
  };
  std::vector<Window> windows;           // of each rank
  std::vector<PtoCommContext> contexts;  // for each rank

  // The context for the rank on the chip; nullptr: the chip is none of the domain.
  const PtoCommContext* ContextOf(uint32_t chip) const;
};

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
  // Where a view is in this process. Returns false if it is not within its region. `whole`, unless
  // nullptr, becomes the region.
  bool Translate(const TensorMessage& tensor, void** address, PtoBuffer* whole = nullptr);

  // The regions of its windows must be mapped.
  absl::Status AddDomain(uint64_t number, absl::Span<const DomainRank> ranks);
  void RemoveDomain(uint64_t number);
  // nullptr: there is none.
  std::shared_ptr<const DomainCode> FindDomain(uint64_t number);
  // The window that contains the view. Its address is nullptr if there is none.
  PtoBuffer WindowOf(const TensorMessage& tensor);

  // The region that has so many bytes at an address, and where; kNoRegion: none has.
  uint32_t Locate(const void* address, uint64_t bytes, uint64_t* offset);

  // Orders are done one after the other; posts wait until those before them are done.
  void FinishOrder(uint64_t number);
  void AwaitOrders(uint64_t number);

 private:
  struct Region {
    std::byte* data = nullptr;
    uint64_t bytes = 0;
  };
  struct Domain {
    std::vector<DomainRank> ranks;
    std::shared_ptr<const DomainCode> code;
  };

  Mutex mutex_;
  CondVar done_;
  uint64_t orders_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<uint32_t, std::shared_ptr<const KernelCode>> kernels_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<uint32_t, Region> regions_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<uint64_t, Domain> domains_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace pto::host
