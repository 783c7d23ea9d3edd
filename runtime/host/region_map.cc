#include "runtime/host/region_map.h"

#include <cstring>
#include <iterator>
#include <utility>

#include "absl/numeric/int128.h"
#include "absl/strings/str_cat.h"
#include "kernels/dtype.h"
#include "runtime/base/error.h"
#include "runtime/engine/signal/foreign_memory.h"

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
  const auto [added, is_new] =
      regions_.try_emplace(address, Region{id, std::move(memory), absl::OkStatus()});
  if (is_new) {
    by_id_[id] = address;
    const engine::HostAllocation& known = *added->second.memory;
    engine::ForeignMemory::OfProcess().Add(known.data(), known.bytes());
  }
  return absl::OkStatus();
}

uint32_t RegionMap::Remove(const engine::HostAllocation& memory,
                           std::shared_ptr<engine::HostAllocation>* released) {
  const auto found = regions_.find(AddressOf(memory));
  if (found == regions_.end()) return 0;
  const uint32_t id = found->second.id;
  engine::ForeignMemory::OfProcess().Remove(memory.data());
  *released = std::move(found->second.memory);
  regions_.erase(found);
  by_id_.erase(id);
  return id;
}

void RegionMap::Clear() {
  for (const auto& [address, region] : regions_) {
    engine::ForeignMemory::OfProcess().Remove(region.memory->data());
  }
  regions_.clear();
  by_id_.clear();
}

Region* RegionMap::Find(uint32_t id) {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &regions_.find(found->second)->second;
}

std::byte* RegionMap::ByteAt(uint32_t id, uint64_t offset) const {
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return nullptr;
  const Region& region = regions_.find(found->second)->second;
  return offset < region.memory->bytes() ? region.memory->data() + offset : nullptr;
}

uint32_t RegionMap::IdOf(const engine::HostAllocation& memory) const {
  const auto found = regions_.find(AddressOf(memory));
  return found == regions_.end() ? 0 : found->second.id;
}

bool RegionMap::Locate(const void* data, uint64_t bytes, uint32_t* region, uint64_t* offset) const {
  *region = 0;
  const auto address = reinterpret_cast<uintptr_t>(data);
  const auto after = regions_.upper_bound(address);
  if (after == regions_.begin()) return false;
  const auto& [begin, found] = *std::prev(after);
  const uint64_t before = address - begin;
  if (before > found.memory->bytes() || bytes > found.memory->bytes() - before) return false;
  *region = found.id;
  *offset = before;
  return true;
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
