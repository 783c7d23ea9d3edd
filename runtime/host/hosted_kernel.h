#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernels/pto_kernel.h"
#include "runtime/host/message.h"

namespace pto::host {

// A kernel that hosts load, as the daemon knows it: the description that the object gives of
// itself. Never changes. The owner of a Kernel::OnLane keeps it, with itself as the closure:
//
//   Kernel::OnLane(hosted->info(), hosted.get(), hosted, port)
//
// The last owner's release unloads it, which waits for nothing.
class HostedKernel {
 public:
  HostedKernel(uint32_t id, const KernelDescription& description,
               std::function<void(uint32_t)> unload);
  ~HostedKernel();
  HostedKernel(const HostedKernel&) = delete;
  HostedKernel& operator=(const HostedKernel&) = delete;

  uint32_t id() const { return id_; }
  // Its function is missing: only the host has it. The texts are those of the user.
  const pto_kernel_info& info() const { return info_; }
  // It works in phases, which a host cannot do.
  bool has_plan() const { return description_.has_plan != 0; }
  HostAbi abi() const { return description_.abi; }
  // It may ask for pipes between the cores of a cluster, which the host keeps until its run ends.
  bool has_pipes() const {
    return abi() == HostAbi::kPto && (description_.flags & PTO_KERNEL_BLOCKS) != 0;
  }

 private:
  const uint32_t id_;
  const KernelDescription description_;
  const std::function<void(uint32_t)> unload_;
  std::vector<pto_argument_info> arguments_;
  std::vector<pto_overlap_info> overlaps_;
  std::vector<pto_scalar_info> scalars_;
  pto_kernel_info info_ = {};
};

}  // namespace pto::host
