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

namespace pto::engine {

// Limits the memory and the number of files shared with other processes. Shared memory counts until
// the host has its pages back, which other processes can delay. Thread-safe.
class SharingBudget {
 public:
  SharingBudget(uint64_t max_files, uint64_t max_bytes, PageReclaimer::Options reclaiming = {})
      : max_files_(max_files), max_bytes_(max_bytes), reclaimer_(std::move(reclaiming)) {}
  // A quarter of the process's descriptor limit, at most 4,096 files, and half of the memory that
  // the process may use.
  static std::shared_ptr<SharingBudget> OfThisProcess();

  uint64_t files() const { return files_.load(std::memory_order_relaxed); }
  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  // Files that are no longer needed but still count. If this is 0 before a request is refused,
  // waiting would not have helped.
  uint64_t reclaiming() const { return reclaimer_.pending(); }
  // Waits until there are none, or until the timeout. Returns whether there are none.
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

// Memory with a descriptor, so that another process can map it: a memfd whose size is sealed. The
// other process can corrupt its contents at most.
//
// The destructor frees the pages, even if other processes have them mapped: from then on they see
// zeros, in pages charged to them. So nobody keeps memory that is not accounted for. This happens
// asynchronously, in another thread: see PageReclaimer.
class SharedFile {
 public:
  // `bytes` must be whole pages. RESOURCE_EXHAUSTED / CHIP_MEMORY_EXHAUSTED if the budget or the
  // host has no more.
  static absl::StatusOr<std::unique_ptr<SharedFile>> Create(uint64_t bytes,
                                                            std::shared_ptr<SharingBudget> budget);
  ~SharedFile();
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;

  int descriptor() const { return descriptor_.get(); }

  // Takes zeroed pages from the host now, so that a shortage is an error here and not a signal at
  // their first use.
  absl::Status Reserve(uint64_t offset, uint64_t bytes);
  // Copies the memory at `address` to `offset` of the file, and maps the file over it. Nobody may
  // write there meanwhile. All arguments are whole pages.
  absl::Status TakeOver(std::byte* address, uint64_t offset, uint64_t bytes);
  // Maps the whole file, which is zero, over the memory at `address`.
  absl::Status Replace(std::byte* address);

 private:
  SharedFile(FileDescriptor descriptor, uint64_t bytes, std::shared_ptr<SharingBudget> budget);

  FileDescriptor descriptor_;
  const uint64_t bytes_;
  const std::shared_ptr<SharingBudget> budget_;
};

}  // namespace pto::engine
