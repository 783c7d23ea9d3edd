#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "client/kernel_check/options.h"
#include "kernels/pto_kernel.h"
#include "runtime/host/object/inspect.h"
#include "runtime/host/object/loaded_kernel.h"

namespace pto::kernel_check {

// A kernel that is loaded into this process to be checked.
class CheckedKernel {
 public:
  // Only in a process that may crash. Errors: those of LoadedKernel, and NOT_AVAILABLE for what
  // cannot be checked.
  static absl::StatusOr<CheckedKernel> Load(const Options& options);

  const pto_kernel_info& info() const { return kernel_->info(); }
  const void* data() const { return kernel_->data(); }
  bool is_pto() const { return kernel_->report().abi == host::KernelAbi::kPto; }
  // Whether its blocks must run at the same time, because they may wait for each other.
  bool together() const;

 private:
  explicit CheckedKernel(std::unique_ptr<host::LoadedKernel> kernel) : kernel_(std::move(kernel)) {}

  std::unique_ptr<host::LoadedKernel> kernel_;
};

// Reads the file and looks at it without loading it. FIELD_INVALID if it cannot be read.
absl::StatusOr<host::ObjectReport> InspectFile(const Options& options);

// The name of a file without folders, and without its ending.
std::string BaseName(const std::string& path);
std::string StemOf(const std::string& path);

}  // namespace pto::kernel_check
