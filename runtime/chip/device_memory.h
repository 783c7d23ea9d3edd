#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "runtime/chip/shared_file.h"
#include "runtime/chip/usage_history.h"

namespace pto {

class DeviceMemory;

// A range of a chip's memory, zeroed when it was made. Freed with the last reference, so what a
// running kernel uses stays.
class MemoryBlock {
 public:
  // A part of a block, which it keeps alive. It must lie within; parts of one block that do not
  // overlap are to others as good as blocks of their own.
  static std::shared_ptr<MemoryBlock> Part(std::shared_ptr<MemoryBlock> whole, uint64_t offset,
                                           uint64_t bytes);
  ~MemoryBlock();
  MemoryBlock(const MemoryBlock&) = delete;
  MemoryBlock& operator=(const MemoryBlock&) = delete;

  std::byte* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }
  uint32_t chip() const;

  // ---- sharing with other processes, in steps, for one thread at a time
  // Takes pages for the next step. Anybody may use the block meanwhile.
  absl::Status PrepareShare(const std::shared_ptr<SharingBudget>& budget);
  // Moves some of the contents to a file, under the same address; what PrepareShare has not taken
  // pages for stays. Nobody may use the block meanwhile. Returns whether all has been moved. Also
  // after an error everything is where it was for those who use it.
  absl::StatusOr<bool> ShareSome();
  // The file of a block that has been moved wholly, as long as the block is there; else -1.
  int shared_descriptor() const { return shared_.load(std::memory_order_acquire); }
  // Whether it is a block of its own; a part cannot be shared.
  bool can_share() const { return whole_ == nullptr; }

 private:
  friend class DeviceMemory;
  MemoryBlock(std::shared_ptr<DeviceMemory> owner, std::shared_ptr<MemoryBlock> whole,
              std::byte* data, uint64_t bytes);

  const std::shared_ptr<DeviceMemory> owner_;
  const std::shared_ptr<MemoryBlock> whole_;  // of a part; nullptr otherwise
  std::byte* const data_;
  const uint64_t bytes_;
  std::unique_ptr<SharedFile> file_;
  uint64_t reserved_ = 0;  // bytes of the file that have pages
  uint64_t moved_ = 0;     // bytes of the block that are in the file
  std::atomic<int> shared_{-1};
};

// The memory of one simulated chip: the host's own, counted against a limit. Thread-safe.
class DeviceMemory : public std::enable_shared_from_this<DeviceMemory> {
 public:
  static std::shared_ptr<DeviceMemory> Create(uint32_t chip, uint64_t total_bytes);

  // RESOURCE_EXHAUSTED / CHIP_MEMORY_EXHAUSTED when the chip or the host has no more.
  absl::StatusOr<std::shared_ptr<MemoryBlock>> Allocate(uint64_t bytes);

  uint32_t chip() const { return chip_; }
  uint64_t total_bytes() const { return total_bytes_; }
  uint64_t used_bytes() const { return used_bytes_.load(std::memory_order_relaxed); }
  // Of used_bytes().
  const UsageHistory& history() const { return history_; }

 private:
  friend class MemoryBlock;
  DeviceMemory(uint32_t chip, uint64_t total_bytes) : chip_(chip), total_bytes_(total_bytes) {}

  void NoteUse() {
    history_.Add([this] { return used_bytes(); });
  }

  const uint32_t chip_;
  const uint64_t total_bytes_;
  std::atomic<uint64_t> used_bytes_{0};
  UsageHistory history_;
};

}  // namespace pto
