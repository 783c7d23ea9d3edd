#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/chip/shared_file.h"

namespace pto {

class HostAllocation;

// A range of a chip's memory. The host may only copy to and from it; memory that the host may
// dereference is a HostAllocation. Freed with the last reference, so memory that a running kernel
// uses stays. Threads may copy at the same time, as long as they do not write the same bytes.
class Allocation {
 public:
  virtual ~Allocation() = default;
  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;

  // A part of an allocation, which it keeps alive. The part must lie within the whole.
  static std::shared_ptr<Allocation> Part(std::shared_ptr<Allocation> whole, uint64_t offset,
                                          uint64_t bytes);
  // The same memory for code that dereferences it. NOT_AVAILABLE, with the chip's name, when the
  // host cannot do that.
  static absl::StatusOr<std::shared_ptr<HostAllocation>> ToHost(
      const std::shared_ptr<Allocation>& memory);

  uint64_t bytes() const { return bytes_; }
  uint32_t chip() const { return chip_; }

  // nullptr when the host cannot dereference the memory.
  virtual HostAllocation* AsHost() { return nullptr; }

  // Copies from or to the host's memory. Ranges must lie within the allocation.
  virtual absl::Status Write(uint64_t offset, const void* from, uint64_t bytes) = 0;
  virtual absl::Status Read(uint64_t offset, void* to, uint64_t bytes) = 0;
  // Sets every byte.
  virtual absl::Status Fill(uint64_t offset, uint64_t bytes, std::byte value) = 0;
  // Copies from another allocation, which may be on another chip and must not overlap. The default
  // copies through host memory where neither side is visible to the host.
  virtual absl::Status CopyFrom(uint64_t offset, Allocation& from, uint64_t from_offset,
                                uint64_t bytes);

 protected:
  Allocation(uint32_t chip, uint64_t bytes) : bytes_(bytes), chip_(chip) {}

 private:
  const uint64_t bytes_;
  const uint32_t chip_;
};

// Memory that the host may dereference.
class HostAllocation : public Allocation {
 public:
  std::byte* data() const { return data_; }

  HostAllocation* AsHost() final { return this; }
  absl::Status Write(uint64_t offset, const void* from, uint64_t bytes) final;
  absl::Status Read(uint64_t offset, void* to, uint64_t bytes) final;
  absl::Status Fill(uint64_t offset, uint64_t bytes, std::byte value) final;

  // ---- sharing with other processes, in steps, for one thread at a time
  // Whether it can be shared at all. The functions below are for memory that can.
  virtual bool can_share() const { return false; }
  // Takes pages for the next step. Others may use the memory meanwhile.
  virtual absl::Status PrepareShare(const std::shared_ptr<SharingBudget>& budget);
  // Moves some of the contents to a file, under the same address; what PrepareShare has not taken
  // pages for stays. Nobody may use the memory meanwhile. Returns whether all has been moved. After
  // an error the contents and addresses are unchanged.
  virtual absl::StatusOr<bool> ShareSome();
  // The file of memory that has been moved completely, valid as long as the memory; else -1.
  virtual int shared_descriptor() const { return -1; }

 protected:
  HostAllocation(uint32_t chip, uint64_t bytes, std::byte* data)
      : Allocation(chip, bytes), data_(data) {}

 private:
  std::byte* const data_;
};

}  // namespace pto
