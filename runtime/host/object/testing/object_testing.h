#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/pto_kernel.h"
#include "runtime/base/file_descriptor.h"
#include "runtime/host/object/loaded_kernel.h"
#include "runtime/host/object/pto_call.h"

// For tests: the objects of tests/kernels, and calls of their kernels without an engine.
namespace pto::host::testing {

// Of an object that Bazel has built, by its name: for example "pto_scale_gcc".
std::string ObjectBytes(const std::string& name);
FileDescriptor OpenObject(const std::string& name);
// Any bytes as a file.
FileDescriptor FileOf(const std::string& bytes);

// Loads a kernel of the PTO ABI, or ends the test program.
std::unique_ptr<LoadedKernel> LoadPto(const std::string& object, const std::string& signature);

// What a call of a block has left.
struct CallResult {
  int32_t code = 0;
  std::string error;
  // What the kernel has deferred to.
  struct Deferred {
    pto_signal signal;
    pto_compare compare;
    int64_t value;
  };
  std::vector<Deferred> deferred;
};

// The arguments of a task on one chip, and calls of its blocks.
class ObjectTask {
 public:
  ObjectTask& Tensor(void* data, pto_dtype dtype, std::vector<int64_t> shape,
                     std::vector<int64_t> strides = {});
  ObjectTask& Integer(int64_t value);
  ObjectTask& Float(double value);

  // For further settings. Not valid after the task is moved.
  pto_context& context() { return context_; }

  // Calls one block, as a host does. Any number of threads at once.
  CallResult Call(const LoadedKernel& kernel, uint32_t block = 0, uint32_t block_count = 1,
                  const PtoCallInfo& info = {}) const;
  // With api.defer missing.
  CallResult CallWithoutDeferral(const LoadedKernel& kernel) const;

 private:
  CallResult CallWith(const LoadedKernel& kernel, const pto_context& context, bool deferral,
                      const PtoCallInfo& info) const;

  pto_context context_ = {};
  std::vector<pto_tensor> tensors_;
  std::vector<pto_scalar> scalars_;
};

}  // namespace pto::host::testing
