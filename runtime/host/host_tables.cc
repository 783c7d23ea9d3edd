#include "runtime/host/host_tables.h"

#include <sys/mman.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::host {

const PtoCommContext* DomainCode::ContextOf(uint32_t chip) const {
  for (size_t i = 0; i < windows.size(); ++i) {
    if (windows[i].chip == chip) return &contexts[i];
  }
  return nullptr;
}

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

bool HostTables::Translate(const TensorMessage& tensor, void** address, PtoBuffer* whole) {
  *address = nullptr;
  if (whole != nullptr) *whole = PtoBuffer();
  if (tensor.region == TensorMessage::kNoRegion) return true;
  MutexLock lock(mutex_);
  const auto found = regions_.find(tensor.region);
  if (found == regions_.end()) return false;
  const Region& region = found->second;
  if (tensor.offset > region.bytes || tensor.bytes > region.bytes - tensor.offset) return false;
  *address = region.data + tensor.offset;
  if (whole != nullptr) *whole = {region.data, region.bytes};
  return true;
}

absl::Status HostTables::AddDomain(uint64_t number, absl::Span<const DomainRank> ranks) {
  auto code = std::make_shared<DomainCode>();
  std::vector<uint64_t> addresses;
  MutexLock lock(mutex_);
  for (const DomainRank& rank : ranks) {
    const auto found = regions_.find(rank.region);
    if (found == regions_.end() || rank.offset > found->second.bytes ||
        rank.bytes > found->second.bytes - rank.offset) {
      return Error(reason::kNotAvailable,
                   absl::StrCat("the window on chips/", rank.chip, " is not mapped"));
    }
    std::byte* const data = found->second.data + rank.offset;
    code->windows.push_back({rank.chip, data, rank.bytes});
    addresses.push_back(reinterpret_cast<uintptr_t>(data));
  }
  for (uint32_t rank = 0; rank < ranks.size(); ++rank) {
    PTO_ASSIGN_OR_RETURN(const PtoCommContext context,
                         MakePtoCommContext(rank, addresses, ranks[rank].bytes));
    code->contexts.push_back(context);
  }
  domains_[number] = {std::vector<DomainRank>(ranks.begin(), ranks.end()), std::move(code)};
  return absl::OkStatus();
}

void HostTables::RemoveDomain(uint64_t number) {
  MutexLock lock(mutex_);
  domains_.erase(number);
}

std::shared_ptr<const DomainCode> HostTables::FindDomain(uint64_t number) {
  MutexLock lock(mutex_);
  const auto found = domains_.find(number);
  return found == domains_.end() ? nullptr : found->second.code;
}

PtoBuffer HostTables::WindowOf(const TensorMessage& tensor) {
  MutexLock lock(mutex_);
  for (const auto& [number, domain] : domains_) {
    for (size_t i = 0; i < domain.ranks.size(); ++i) {
      const DomainRank& rank = domain.ranks[i];
      if (rank.region != tensor.region || tensor.offset < rank.offset ||
          tensor.offset - rank.offset > rank.bytes ||
          tensor.bytes > rank.bytes - (tensor.offset - rank.offset)) {
        continue;
      }
      return {domain.code->windows[i].data, rank.bytes};
    }
  }
  return {};
}

uint32_t HostTables::Locate(const void* address, uint64_t bytes, uint64_t* offset) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  MutexLock lock(mutex_);
  for (const auto& [id, region] : regions_) {
    const auto begin = reinterpret_cast<uintptr_t>(region.data);
    if (at < begin || at - begin > region.bytes || bytes > region.bytes - (at - begin)) continue;
    *offset = at - begin;
    return id;
  }
  return TensorMessage::kNoRegion;
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
