#include "runtime/host/object_loader.h"

#include <memory>
#include <utility>

#include "runtime/base/status_macros.h"
#include "runtime/host/object/loaded_kernel.h"

namespace pto::host {

absl::StatusOr<KernelCode> LoadObject(int object, const std::string& entry,
                                      const std::string& file_name) {
  PTO_ASSIGN_OR_RETURN(std::unique_ptr<LoadedKernel> loaded,
                       LoadedKernel::Load(object, entry, file_name));
  KernelCode code;
  code.info = &loaded->info();
  code.data = loaded->data();
  code.owner = std::shared_ptr<LoadedKernel>(std::move(loaded));
  return code;
}

}  // namespace pto::host
