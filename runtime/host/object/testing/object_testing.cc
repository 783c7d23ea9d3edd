#include "runtime/host/object/testing/object_testing.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "runtime/base/log.h"
#include "runtime/host/object/object_file.h"
#include "runtime/host/object/pto_signature.h"

namespace pto::host::testing {
namespace {

CallResult& ResultOf(const pto_context* context) {
  return *static_cast<CallResult*>(context->engine);
}

int NeverCancelled(const pto_context*) { return 0; }
void IgnoreLog(const pto_context*, pto_log_level, const char*) {}
void KeepError(const pto_context* context, const char* text) { ResultOf(context).error = text; }
int32_t KeepDeferred(const pto_context* context, const pto_signal* signal, pto_compare compare,
                     int64_t value, int64_t) {
  ResultOf(context).deferred.push_back({*signal, compare, value});
  return PTO_OK;
}

}  // namespace

FileDescriptor OpenObject(const std::string& name) {
  const char* const root = std::getenv("TEST_SRCDIR");
  const char* const workspace = std::getenv("TEST_WORKSPACE");
  PTO_CHECK(root != nullptr && workspace != nullptr, "not run by Bazel");
  const std::string path = std::string(root) + "/" + workspace + "/tests/kernels/" + name + ".so";
  FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  PTO_CHECK(file.valid(), path);
  return file;
}

std::string ObjectBytes(const std::string& name) {
  absl::StatusOr<std::string> bytes = ReadObject(OpenObject(name).get());
  PTO_CHECK(bytes.ok(), std::string(bytes.status().message()));
  return *std::move(bytes);
}

FileDescriptor FileOf(const std::string& bytes) {
  FileDescriptor file(memfd_create("test", MFD_CLOEXEC));
  PTO_CHECK(file.valid(), "memfd_create");
  PTO_CHECK(write(file.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()),
            "write");
  return file;
}

std::unique_ptr<LoadedKernel> LoadPto(const std::string& object, const std::string& signature) {
  const absl::StatusOr<PtoSignature> parsed = PtoSignature::Parse(signature);
  PTO_CHECK(parsed.ok(), std::string(parsed.status().message()));
  absl::StatusOr<std::unique_ptr<LoadedKernel>> kernel =
      LoadedKernel::LoadPto(OpenObject(object).get(), "", "test", *parsed, object + ".so");
  PTO_CHECK(kernel.ok(), std::string(kernel.status().message()));
  return *std::move(kernel);
}

ObjectTask& ObjectTask::Tensor(void* data, pto_dtype dtype, std::vector<int64_t> shape,
                               std::vector<int64_t> strides) {
  pto_tensor tensor = {};
  tensor.data = data;
  tensor.dtype = dtype;
  tensor.ndim = static_cast<uint32_t>(shape.size());
  uint64_t stride = 1;  // wraps for views that are meant to be invalid
  for (size_t d = shape.size(); d-- > 0;) {
    tensor.shape[d] = shape[d];
    tensor.strides[d] = strides.empty() ? static_cast<int64_t>(stride) : strides[d];
    stride *= static_cast<uint64_t>(shape[d]);
  }
  tensors_.push_back(tensor);
  return *this;
}

ObjectTask& ObjectTask::Integer(int64_t value) {
  pto_scalar scalar;
  scalar.i64 = value;
  scalars_.push_back(scalar);
  return *this;
}

ObjectTask& ObjectTask::Float(double value) {
  pto_scalar scalar;
  scalar.f64 = value;
  scalars_.push_back(scalar);
  return *this;
}

CallResult ObjectTask::Call(const LoadedKernel& kernel, uint32_t block, uint32_t block_count,
                            const PtoCallInfo& info) const {
  pto_context context = context_;
  context.block_index = block;
  context.block_count = block_count;
  return CallWith(kernel, context, true, info);
}

CallResult ObjectTask::CallWithoutDeferral(const LoadedKernel& kernel) const {
  pto_context context = context_;
  context.block_count = 1;
  return CallWith(kernel, context, false, {});
}

CallResult ObjectTask::CallWith(const LoadedKernel& kernel, const pto_context& given, bool deferral,
                                const PtoCallInfo& info) const {
  pto_kernel_api api = {};
  api.struct_size = sizeof api;
  api.abi_version = PTO_KERNEL_ABI_VERSION;
  api.cancelled = NeverCancelled;
  api.log = IgnoreLog;
  api.set_error = KeepError;
  if (deferral) api.defer = KeepDeferred;
  CallResult result;
  pto_context context = given;
  context.struct_size = sizeof context;
  context.tensors = tensors_.data();
  context.tensor_count = static_cast<uint32_t>(tensors_.size());
  context.scalars = scalars_.data();
  context.scalar_count = static_cast<uint32_t>(scalars_.size());
  context.api = &api;
  context.engine = &result;
  context.kernel_data = kernel.data();
  if (context.core_kind == 0) context.core_kind = kernel.info().default_core;
  const PtoCallScope scope(info);
  result.code = kernel.info().function(&context);
  return result;
}

}  // namespace pto::host::testing
