#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/pto_kernel.h"

namespace pto::engine {

// The engine's end of a lane: runtime/engine/lane/lane_port.h. Only a handle here.
class LanePort;

}  // namespace pto::engine

namespace pto {

// A snapshot of one kernel: its description, its closure, what keeps its code loaded, and the lane
// that runs it. Never changes, so any thread may use it.
//
// Graphs share ownership of their kernels. A kernel that was removed from its table therefore lives
// until the last image and the last run that use it are gone. The thread that releases the last
// reference destroys the owner. That may be a worker, so the owner's destructor must not block.
class Kernel {
 public:
  // A kernel that is part of the program. Its strings and arrays are not copied: they must live as
  // long as the program. FIELD_INVALID if the description is malformed.
  static absl::StatusOr<std::shared_ptr<const Kernel>> BuiltIn(const pto_kernel_info& info);

  // A kernel whose code or closure `owner` keeps alive, for example a loaded library. Strings and
  // arrays are copied, so that errors and lists can name the kernel whatever happens to the
  // library. `data` is the closure: kernel calls find it as pto_context.kernel_data, plans as
  // pto_launch.kernel_data.
  static absl::StatusOr<std::shared_ptr<const Kernel>> Owned(const pto_kernel_info& info,
                                                             const void* data,
                                                             std::shared_ptr<const void> owner);

  // The same for a kernel whose blocks run on a lane instead of the engine's threads. Its function
  // is never called and may be missing. It counts as one that blocks (PTO_KERNEL_BLOCKS). It cannot
  // have a plan, and cannot be a control kernel: FIELD_INVALID.
  static absl::StatusOr<std::shared_ptr<const Kernel>> OnLane(
      const pto_kernel_info& info, const void* data, std::shared_ptr<const void> owner,
      std::shared_ptr<engine::LanePort> lane);

  ~Kernel();
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

  const pto_kernel_info& info() const { return info_; }
  absl::string_view name() const { return info_.name; }
  // nullptr for built-in kernels.
  const void* data() const { return data_; }
  bool built_in() const { return owning_ == nullptr; }
  // The lane that runs it; nullptr: the engine calls its function.
  engine::LanePort* lane() const { return lane_.get(); }

 private:
  // The copied strings and arrays of a kernel that is not built in, and its owner.
  struct Owning;

  Kernel(const pto_kernel_info& info, const void* data, std::unique_ptr<const Owning> owning,
         std::shared_ptr<engine::LanePort> lane);

  // First: images read it for every task.
  pto_kernel_info info_ = {};
  const void* const data_;
  const std::unique_ptr<const Owning> owning_;
  const std::shared_ptr<engine::LanePort> lane_;
};

}  // namespace pto
