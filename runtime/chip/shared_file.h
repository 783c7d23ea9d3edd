#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/base/file_descriptor.h"
#include "runtime/chip/page_reclaimer.h"

namespace pto {

// How much memory, in how many files, may be shared with other processes. What is shared counts
// until the host has its pages back, which others can hold up. Thread-safe.
class SharingBudget {
 public:
  SharingBudget(uint64_t max_files, uint64_t max_bytes, PageReclaimer::Options reclaiming = {})
      : max_files_(max_files), max_bytes_(max_bytes), reclaimer_(std::move(reclaiming)) {}
  // A fourth of the descriptors that the process may have, at most 4,096, and half of the
  // machine's memory.
  static std::shared_ptr<SharingBudget> OfThisProcess();

  uint64_t files() const { return files_.load(std::memory_order_relaxed); }
  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  // Of the files, those that nobody needs any more. When there are none before something is
  // refused, then waiting would not have helped.
  uint64_t reclaiming() const { return reclaimer_.pending(); }
  // Waits until there are none, or until the time is up. Returns whether there are none.
  bool AwaitReclaimed(std::chrono::nanoseconds timeout) { return reclaimer_.AwaitNone(timeout); }

 private:
  friend class SharedFile;
  bool Take(uint64_t bytes);
  void GiveBack(uint64_t bytes);

  const uint64_t max_files_;
  const uint64_t max_bytes_;
  std::atomic<uint64_t> files_{0};
  std::atomic<uint64_t> bytes_{0};
  PageReclaimer reclaimer_;
};

// Memory that has a descriptor, so that another process can map it: a memfd, with a size that
// nobody can change any more. What the other process does with it harms its contents at most.
//
// When the object goes its pages are given back, even when others have them mapped: they see
// zeros from then on, in pages that are theirs. So nobody keeps memory that is not counted. That
// happens soon after, in another thread: see PageReclaimer.
class SharedFile {
 public:
  // `bytes` in whole pages. RESOURCE_EXHAUSTED / CHIP_MEMORY_EXHAUSTED when the budget or the host
  // has no more.
  static absl::StatusOr<std::unique_ptr<SharedFile>> Create(uint64_t bytes,
                                                            std::shared_ptr<SharingBudget> budget);
  ~SharedFile();
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;

  int descriptor() const { return descriptor_.get(); }

  // Takes pages from the host, here rather than by a signal at their first use. They are zero.
  absl::Status Reserve(uint64_t offset, uint64_t bytes);
  // Copies what is at `address` to the same place in the file, and maps that over it. Nobody may
  // write there meanwhile. All in whole pages.
  absl::Status TakeOver(std::byte* address, uint64_t offset, uint64_t bytes);

 private:
  SharedFile(FileDescriptor descriptor, uint64_t bytes, std::shared_ptr<SharingBudget> budget);

  FileDescriptor descriptor_;
  const uint64_t bytes_;
  const std::shared_ptr<SharingBudget> budget_;
};

}  // namespace pto
