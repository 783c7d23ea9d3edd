#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "kernels/pto_kernel.h"
#include "runtime/chip/allocation.h"
#include "runtime/host/message.h"

namespace pto::host {

// Memory that a host sees.
struct Region {
  uint32_t id = 0;
  std::shared_ptr<engine::HostAllocation> memory;
  absl::Status error;  // the host cannot map it
};

// In the daemon: which regions the host has, and where in them a tensor is. Words in them are
// foreign (engine::ForeignMemory). Not thread-safe.
class RegionMap {
 public:
  RegionMap() = default;
  ~RegionMap() { Clear(); }
  RegionMap(const RegionMap&) = delete;
  RegionMap& operator=(const RegionMap&) = delete;

  // NOT_AVAILABLE if the memory is not in a file. Replaces nothing: memory that is there stays.
  absl::Status Add(uint32_t id, std::shared_ptr<engine::HostAllocation> memory);
  // Returns its id; 0 if it is not there. `memory` becomes what the caller may release.
  uint32_t Remove(const engine::HostAllocation& memory,
                  std::shared_ptr<engine::HostAllocation>* released);
  void Clear();
  // nullptr: there is none with this id, or at this address.
  Region* Find(uint32_t id);
  // The address of a byte of a region; nullptr: it is not there.
  std::byte* ByteAt(uint32_t id, uint64_t offset) const;
  bool Has(const engine::HostAllocation& memory) const { return IdOf(memory) != 0; }
  // 0: it is not there.
  uint32_t IdOf(const engine::HostAllocation& memory) const;

  // Where the bytes are: their region, and the offset in it. Returns false, and the region 0, if
  // they are in none.
  bool Locate(const void* data, uint64_t bytes, uint32_t* region, uint64_t* offset) const;

  // Where the tensor is. NOT_AVAILABLE if a part of it is in no region.
  absl::Status Translate(const pto_tensor& tensor, TensorMessage* message) const;

  size_t size() const { return regions_.size(); }
  uint64_t bytes() const;
  void ForEach(absl::FunctionRef<void(Region&)> use);

 private:
  std::map<uintptr_t, Region> regions_;  // by address
  absl::flat_hash_map<uint32_t, uintptr_t> by_id_;
};

}  // namespace pto::host
