#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/chip/shared_file.h"

namespace pto::engine {

class HostAllocation;

// A range of a chip's memory. The host may only copy to and from it; a HostAllocation can be
// dereferenced. Reference-counted, so that memory stays while a running kernel uses it. Threads may
// copy concurrently if they do not write the same bytes.
class Allocation {
 public:
  virtual ~Allocation() = default;
  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;

  // A part of `whole`, which it keeps alive. It must lie within `whole`.
  static std::shared_ptr<Allocation> Part(std::shared_ptr<Allocation> whole, uint64_t offset,
                                          uint64_t bytes);
  // The same memory, for code that dereferences it. NOT_AVAILABLE, with the chip's name, if the
  // host cannot.
  static absl::StatusOr<std::shared_ptr<HostAllocation>> ToHost(
      const std::shared_ptr<Allocation>& memory);

  uint64_t bytes() const { return bytes_; }
  uint32_t chip() const { return chip_; }

  // nullptr if the host cannot dereference the memory.
  virtual HostAllocation* AsHost() { return nullptr; }

  // Copies from or to the host's memory. Ranges must lie within the allocation.
  virtual absl::Status Write(uint64_t offset, const void* from, uint64_t bytes) = 0;
  virtual absl::Status Read(uint64_t offset, void* to, uint64_t bytes) = 0;
  // Sets every byte.
  virtual absl::Status Fill(uint64_t offset, uint64_t bytes, std::byte value) = 0;
  // Copies from another allocation, which may be on another chip and must not overlap. The default
  // copies through host memory if neither side is visible to the host.
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

  // ---- Sharing with other processes, in steps, from one thread at a time. Whether the memory can
  // be shared. The functions below require that.
  virtual bool can_share() const { return false; }
  // Reserves pages for the next step. The memory may be used meanwhile.
  virtual absl::Status PrepareShare(const std::shared_ptr<SharingBudget>& budget);
  // Moves some of the contents to a file, at the same address, as far as PrepareShare has reserved
  // pages. Nobody may use the memory meanwhile. Returns whether everything has been moved. After an
  // error, contents and addresses are unchanged.
  virtual absl::StatusOr<bool> ShareSome();
  // Moves memory that nobody has used yet to a file, in one step: there is nothing to copy, and the
  // host provides the pages when they are first touched. After an error the memory is unchanged.
  virtual absl::Status ShareNew(const std::shared_ptr<SharingBudget>& budget);
  // The file of memory that has been moved completely, valid as long as the memory; otherwise -1.
  virtual int shared_descriptor() const { return -1; }

 protected:
  HostAllocation(uint32_t chip, uint64_t bytes, std::byte* data)
      : Allocation(chip, bytes), data_(data) {}

 private:
  std::byte* const data_;
};

}  // namespace pto::engine
