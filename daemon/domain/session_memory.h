#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/base/mutex.h"
#include "runtime/chip/allocation.h"
#include "runtime/chip/shared_file.h"

namespace pto::daemon {

// The windows of a domain, in memory of the session.
struct SharedDomain {
  struct Window {
    uint32_t chip = 0;
    const void* data = nullptr;  // nullptr: the host cannot see it
    uint64_t bytes = 0;
  };
  uint64_t number = 0;          // Domain::number
  std::vector<Window> windows;  // of each rank
};

// Another process that maps the memory of a session. Thread-safe.
class MemoryView {
 public:
  virtual ~MemoryView() = default;
  // The memory is in a file. It stays mapped until it is hidden.
  virtual absl::Status Show(std::shared_ptr<engine::HostAllocation> memory) = 0;
  virtual void Hide(const engine::HostAllocation& memory) = 0;
  // Tells it of a domain whose windows it has been shown, perhaps not for the first time.
  virtual void ShowDomain(const SharedDomain& domain) = 0;
  virtual void HideDomain(uint64_t number) = 0;
};

// All device memory of a session: buffers and windows, until the last run that uses them has let
// go. Shows it to the process that runs the session's own kernels. Held by the session and by its
// memory. Thread-safe; calls the view without locks.
class SessionMemory : public std::enable_shared_from_this<SessionMemory> {
 public:
  // Counts a file until the result is destroyed; an error if there can be no more.
  using TakeFile = std::function<absl::StatusOr<std::shared_ptr<const void>>()>;

  // New memory that nobody uses yet. The result is to be used in its place. If there is a view, the
  // memory is moved to a file and shown before; CHIP_MEMORY_EXHAUSTED if that fails.
  absl::StatusOr<std::shared_ptr<engine::Allocation>> Add(
      std::shared_ptr<engine::Allocation> memory);

  // From now on new memory is moved to files and shown to this view, in place of another one.
  // `take_file` is asked before each move; nullptr: there is no limit but the budget.
  void ShowTo(std::shared_ptr<MemoryView> view, std::shared_ptr<engine::SharingBudget> budget,
              TakeFile take_file = nullptr);
  // Shows a domain, whose windows Add has returned, now and to each later view, as long as the
  // result lives.
  std::shared_ptr<void> AddDomain(SharedDomain domain);
  // Shows all domains of before ShowTo. Their windows must have been shown.
  void ShowDomains();

  // Memory of before ShowTo is about to be moved to a file: what Add has returned.
  absl::Status PrepareMove(const std::shared_ptr<engine::Allocation>& memory);
  // Shows such memory, which has been moved.
  absl::Status Show(const std::shared_ptr<engine::Allocation>& memory);

 private:
  // Lives as long as anybody but the view has the memory.
  struct Kept {
    ~Kept();
    std::shared_ptr<SessionMemory> owner;
    std::shared_ptr<engine::Allocation> memory;
    // The view that has it, which is told when it goes. Guarded by the owner's lock.
    std::shared_ptr<MemoryView> view;
    // That its file counts. Guarded likewise.
    std::shared_ptr<const void> file;
  };

  // Tells the view when its domain goes.
  struct KeptDomain {
    ~KeptDomain();
    std::shared_ptr<SessionMemory> owner;
    uint64_t number = 0;
  };

  absl::Status CountFile(Kept& kept);
  absl::Status ShowKept(Kept& kept, const std::shared_ptr<MemoryView>& view);

  Mutex mutex_;
  std::shared_ptr<MemoryView> view_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<engine::SharingBudget> budget_ ABSL_GUARDED_BY(mutex_);
  TakeFile take_file_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<const engine::Allocation*, std::weak_ptr<Kept>> all_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<uint64_t, SharedDomain> domains_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace pto::daemon
