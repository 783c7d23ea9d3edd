#include "runtime/host/host_tables.h"

#include <sys/mman.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/error.h"

namespace pto::host {

void HostTables::AddKernel(uint32_t id, KernelCode code) {
  auto shared = std::make_shared<const KernelCode>(std::move(code));
  MutexLock lock(mutex_);
  kernels_[id] = std::move(shared);
}

void HostTables::RemoveKernel(uint32_t id) {
  // Unloaded without the lock, because that calls code of the object.
  std::shared_ptr<const KernelCode> last;
  MutexLock lock(mutex_);
  const auto found = kernels_.find(id);
  if (found == kernels_.end()) return;
  last = std::move(found->second);
  kernels_.erase(found);
}

std::shared_ptr<const KernelCode> HostTables::FindKernel(uint32_t id) {
  MutexLock lock(mutex_);
  const auto found = kernels_.find(id);
  return found == kernels_.end() ? nullptr : found->second;
}

absl::Status HostTables::Map(uint32_t id, int descriptor, uint64_t bytes) {
  void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (data == MAP_FAILED) {
    const int error = errno;
    return Error(reason::kChipMemoryExhausted,
                 absl::StrCat("the kernel host cannot map ", bytes,
                              " bytes: ", std::generic_category().message(error)));
  }
  MutexLock lock(mutex_);
  regions_[id] = {static_cast<std::byte*>(data), bytes};
  return absl::OkStatus();
}

void HostTables::Unmap(uint32_t id) {
  Region region;
  {
    MutexLock lock(mutex_);
    const auto found = regions_.find(id);
    if (found == regions_.end()) return;
    region = found->second;
    regions_.erase(found);
  }
  munmap(region.data, region.bytes);
}

bool HostTables::Translate(const TensorMessage& tensor, void** address) {
  *address = nullptr;
  if (tensor.region == TensorMessage::kNoRegion) return true;
  MutexLock lock(mutex_);
  const auto found = regions_.find(tensor.region);
  if (found == regions_.end()) return false;
  const Region& region = found->second;
  if (tensor.offset > region.bytes || tensor.bytes > region.bytes - tensor.offset) return false;
  *address = region.data + tensor.offset;
  return true;
}

void HostTables::FinishOrder(uint64_t number) {
  MutexLock lock(mutex_);
  orders_ = number;
  done_.NotifyAll();
}

void HostTables::AwaitOrders(uint64_t number) {
  MutexLock lock(mutex_);
  while (orders_ < number) done_.Wait(mutex_);
}

}  // namespace pto::host
