#include "client/kernel_check/checked_kernel.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/error.h"
#include "runtime/base/file_descriptor.h"
#include "runtime/base/status_macros.h"
#include "runtime/host/object/object_file.h"
#include "runtime/host/object/pto_hooks.h"
#include "runtime/host/object/pto_signature.h"

namespace pto::kernel_check {
namespace {

absl::StatusOr<FileDescriptor> Open(const std::string& path) {
  FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) {
    return Error(reason::kFieldInvalid,
                 absl::StrCat(path, ": ", std::generic_category().message(errno)));
  }
  return file;
}

}  // namespace

std::string BaseName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

std::string StemOf(const std::string& path) {
  const std::string name = BaseName(path);
  return name.substr(0, name.find('.'));
}

absl::StatusOr<host::ObjectReport> InspectFile(const Options& options) {
  PTO_ASSIGN_OR_RETURN(const FileDescriptor file, Open(options.file));
  PTO_ASSIGN_OR_RETURN(const std::string bytes, host::ReadObject(file.get()));
  host::InspectOptions inspect;
  inspect.entry = options.entry;
  return host::Inspect(bytes, inspect);
}

absl::StatusOr<CheckedKernel> CheckedKernel::Load(const Options& options) {
  host::SetPtoEnvironment();
  PTO_ASSIGN_OR_RETURN(const host::ObjectReport report, InspectFile(options));
  PTO_RETURN_IF_ERROR(report.status());
  PTO_ASSIGN_OR_RETURN(const FileDescriptor file, Open(options.file));
  const std::string name = BaseName(options.file);
  std::unique_ptr<host::LoadedKernel> kernel;
  if (report.abi == host::KernelAbi::kPto) {
    PTO_ASSIGN_OR_RETURN(const host::PtoSignature signature,
                         host::PtoSignature::Parse(options.signature));
    for (const host::PtoScalarParameter& scalar : signature.scalars) {
      if (scalar.kind == host::PtoScalarParameter::Kind::kDomain && scalar.given()) {
        return Error(reason::kNotAvailable,
                     "a domain without a tensor cannot be checked: write domain(N), where tensor N "
                     "is the window");
      }
    }
    PTO_ASSIGN_OR_RETURN(
        kernel, host::LoadedKernel::LoadPto(file.get(), options.entry, StemOf(options.file),
                                            signature, name));
  } else {
    PTO_ASSIGN_OR_RETURN(kernel, host::LoadedKernel::Load(file.get(), options.entry, name));
  }
  if (kernel->info().plan != nullptr) {
    return Error(reason::kNotAvailable, "kernels with a plan cannot be checked");
  }
  return CheckedKernel(std::move(kernel));
}

bool CheckedKernel::together() const {
  constexpr uint32_t kWaits = PTO_KERNEL_WAITS | PTO_KERNEL_BLOCKS;
  return (info().flags & kWaits) != 0 || info().requires_sync_start != 0;
}

}  // namespace pto::kernel_check
