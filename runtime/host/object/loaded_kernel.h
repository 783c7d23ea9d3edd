#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "kernels/pto_kernel.h"
#include "runtime/host/object/inspect.h"
#include "runtime/host/object/loaded_object.h"
#include "runtime/host/object/pto_call.h"
#include "runtime/host/object/pto_signature.h"

namespace pto::host {

// A kernel whose object is loaded into this process: only in a kernel host, because the code may do
// anything. The owner destroys it when no block of it runs any more. Its members may be used from
// any thread.
class LoadedKernel {
 public:
  // A kernel of our own ABI: `entry` is the symbol of its pto_kernel_info; empty: the usual one.
  // Reads the file from its start, whatever the position of the descriptor, and does not close it.
  // `file_name` is what backtraces call the object.
  //
  // FIELD_INVALID if the object does not suit this machine, cannot be loaded, or describes itself
  // wrongly.
  static absl::StatusOr<std::unique_ptr<LoadedKernel>> Load(
      int fd, const std::string& entry, const std::string& file_name = "kernel.so");

  // A kernel of the PTO ABI. `name` is the kernel's. `entry` is the function; empty: the usual one.
  // The process must have called SetPtoEnvironment.
  static absl::StatusOr<std::unique_ptr<LoadedKernel>> LoadPto(
      int fd, const std::string& entry, const std::string& name, const PtoSignature& signature,
      const std::string& file_name = "kernel.so");

  // How to call it: info().function, with data() as pto_context.kernel_data.
  const pto_kernel_info& info() const { return *info_; }
  const void* data() const { return pto_.get(); }
  // What was found before it was loaded.
  const ObjectReport& report() const { return report_; }

 private:
  LoadedKernel(ObjectReport report, std::unique_ptr<LoadedObject> object)
      : report_(std::move(report)), object_(std::move(object)) {}

  static absl::StatusOr<std::unique_ptr<LoadedKernel>> LoadObject(int fd, const std::string& entry,
                                                                  KernelAbi abi,
                                                                  const std::string& file_name);

  const ObjectReport report_;
  const std::unique_ptr<LoadedObject> object_;
  std::unique_ptr<const PtoKernel> pto_;  // of the PTO ABI
  const pto_kernel_info* info_ = nullptr;
};

}  // namespace pto::host
