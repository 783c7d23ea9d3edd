#include "runtime/host/object_loader.h"

#include <memory>
#include <utility>

#include "runtime/base/status_macros.h"
#include "runtime/host/object/loaded_kernel.h"

namespace pto::host {
namespace {

absl::StatusOr<std::unique_ptr<LoadedKernel>> Load(const KernelObject& object) {
  if (object.abi == HostAbi::kOwn) {
    return LoadedKernel::Load(object.descriptor, object.entry, object.file_name);
  }
  PTO_ASSIGN_OR_RETURN(const PtoSignature signature, PtoSignature::Parse(object.signature));
  return LoadedKernel::LoadPto(object.descriptor, object.entry, object.name, signature,
                               object.file_name);
}

}  // namespace

absl::StatusOr<KernelCode> LoadObject(const KernelObject& object) {
  PTO_ASSIGN_OR_RETURN(std::unique_ptr<LoadedKernel> loaded, Load(object));
  KernelCode code;
  code.info = &loaded->info();
  code.data = loaded->data();
  code.abi = object.abi;
  code.owner = std::shared_ptr<LoadedKernel>(std::move(loaded));
  return code;
}

}  // namespace pto::host
