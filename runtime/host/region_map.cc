#include "runtime/host/region_map.h"

#include <cstring>
#include <utility>

#include "absl/numeric/int128.h"
#include "absl/strings/str_cat.h"
#include "kernels/dtype.h"
#include "runtime/base/error.h"

namespace pto::host {
namespace {

uintptr_t AddressOf(const engine::HostAllocation& memory) {
  return reinterpret_cast<uintptr_t>(memory.data());
}

// From the first byte of a view to the last.
absl::uint128 BytesOf(const pto_tensor& tensor) {
  absl::uint128 elements = 1;
  for (uint32_t i = 0; i < tensor.ndim; ++i) {
    if (tensor.shape[i] <= 0) return 0;
    elements += absl::uint128(static_cast<uint64_t>(tensor.shape[i] - 1)) *
                static_cast<uint64_t>(tensor.strides[i]);
  }
  return elements * kernels::DtypeSize(tensor.dtype);
}

}  // namespace

absl::Status RegionMap::Add(uint32_t id, std::shared_ptr<engine::HostAllocation> memory) {
  if (memory->shared_descriptor() < 0 || memory->bytes() == 0) {
    return Error(reason::kNotAvailable,
                 absl::StrCat("memory of chips/", memory->chip(),
                              " must be shared before a kernel host can use it"));
  }
  const uintptr_t address = AddressOf(*memory);
  regions_.try_emplace(address, Region{id, std::move(memory), absl::OkStatus()});
  return absl::OkStatus();
}

uint32_t RegionMap::Remove(const engine::HostAllocation& memory,
                           std::shared_ptr<engine::HostAllocation>* released) {
  const auto found = regions_.find(AddressOf(memory));
  if (found == regions_.end()) return 0;
  const uint32_t id = found->second.id;
  *released = std::move(found->second.memory);
  regions_.erase(found);
  return id;
}

Region* RegionMap::Find(uint32_t id) {
  for (auto& [address, region] : regions_) {
    if (region.id == id) return &region;
  }
  return nullptr;
}

bool RegionMap::Has(const engine::HostAllocation& memory) const {
  return regions_.count(AddressOf(memory)) > 0;
}

absl::Status RegionMap::Translate(const pto_tensor& tensor, TensorMessage* message) const {
  message->dtype = tensor.dtype;
  message->ndim = tensor.ndim;
  std::memcpy(message->shape, tensor.shape, sizeof message->shape);
  std::memcpy(message->strides, tensor.strides, sizeof message->strides);
  message->region = TensorMessage::kNoRegion;
  message->offset = message->bytes = 0;
  if (tensor.data == nullptr) return absl::OkStatus();
  const auto address = reinterpret_cast<uintptr_t>(tensor.data);
  const absl::uint128 bytes = BytesOf(tensor);
  auto after = regions_.upper_bound(address);
  if (after != regions_.begin()) {
    const auto& [begin, region] = *--after;
    const uint64_t offset = address - begin;
    if (absl::uint128(offset) + bytes <= region.memory->bytes()) {
      if (!region.error.ok()) return region.error;
      message->region = region.id;
      message->offset = offset;
      message->bytes = static_cast<uint64_t>(bytes);
      return absl::OkStatus();
    }
  }
  return Error(reason::kNotAvailable, "a tensor is in memory that its kernel host does not see");
}

uint64_t RegionMap::bytes() const {
  uint64_t bytes = 0;
  for (const auto& [address, region] : regions_) bytes += region.memory->bytes();
  return bytes;
}

void RegionMap::ForEach(absl::FunctionRef<void(Region&)> use) {
  for (auto& [address, region] : regions_) use(region);
}

}  // namespace pto::host
