#include "runtime/host/object/loaded_kernel.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/domain_scalar.h"
#include "kernels/kernel_info.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"
#include "runtime/host/object/look_counter.h"
#include "runtime/host/object/object_file.h"
#include "runtime/host/object/pto_hooks.h"

namespace pto::host {
namespace {

const char* AbiName(KernelAbi abi) {
  return abi == KernelAbi::kOwn ? "a pto_kernel_info" : "a function of the PTO ABI";
}

}  // namespace

absl::StatusOr<std::unique_ptr<LoadedKernel>> LoadedKernel::LoadObject(
    int fd, const std::string& entry, KernelAbi abi, const std::string& file_name) {
  PTO_ASSIGN_OR_RETURN(std::string bytes, ReadObject(fd));
  InspectOptions options;
  options.entry = entry.empty() ? (abi == KernelAbi::kOwn ? kOwnEntry : kPtoEntry) : entry;
  ObjectReport report = Inspect(bytes, options);
  if (abi == KernelAbi::kOwn && entry.empty() && !report.status().ok()) {
    options.entry = kPtoEntry;
    const ObjectReport other = Inspect(bytes, options);
    if (other.status().ok() && other.abi == KernelAbi::kPto) {
      return Error(reason::kFieldInvalid,
                   absl::StrCat("the object exports ", kPtoEntry, " and no ", kOwnEntry,
                                ", so it is a kernel of the PTO ABI, which needs a signature"))
          .At("signature");
    }
  }
  PTO_RETURN_IF_ERROR(report.status());
  if (report.abi != abi) {
    return Error(reason::kFieldInvalid, absl::StrCat("'", report.entry, "' is ",
                                                     AbiName(report.abi), ", not ", AbiName(abi)))
        .At("object.entry");
  }
  PTO_ASSIGN_OR_RETURN(std::unique_ptr<LoadedObject> object,
                       LoadedObject::Load(std::move(bytes), file_name));
  return std::unique_ptr<LoadedKernel>(new LoadedKernel(std::move(report), std::move(object)));
}

absl::StatusOr<std::unique_ptr<LoadedKernel>> LoadedKernel::Load(int fd, const std::string& entry,
                                                                 const std::string& file_name) {
  PTO_ASSIGN_OR_RETURN(std::unique_ptr<LoadedKernel> kernel,
                       LoadObject(fd, entry, KernelAbi::kOwn, file_name));
  const void* const info = kernel->object_->Find(kernel->report_.entry.c_str());
  if (info == nullptr) {
    return Error(reason::kFieldInvalid,
                 absl::StrCat("'", kernel->report_.entry, "' is not in the loaded object"))
        .At("object.entry");
  }
  kernel->info_ = static_cast<const pto_kernel_info*>(info);
  // Nothing behind the constant may be read.
  if (kernel->info_->struct_size > kernel->report_.entry_bytes) {
    return Error(reason::kFieldInvalid,
                 absl::StrCat(kernel->info_->struct_size, " is more than the ",
                              kernel->report_.entry_bytes, " bytes of the constant"))
        .At(absl::StrCat(kernel->report_.entry, ".struct_size"));
  }
  const absl::Status checked = CheckKernelInfo(*kernel->info_);
  if (!checked.ok()) return PrefixField(checked, absl::StrCat(kernel->report_.entry, "."));
  for (uint32_t i = 0; i < kernel->info_->scalar_count; ++i) {
    if (kernel->info_->scalars[i].type != kDomainScalar) continue;
    return Error(reason::kFieldInvalid, "there is no such type of scalar")
        .At(absl::StrCat(kernel->report_.entry, ".scalars[", i, "].type"));
  }
  if (kernel->info_->control != PTO_CONTROL_NONE) {
    return Error(reason::kFieldInvalid, "only built-in kernels are executed by the engine itself")
        .At(absl::StrCat(kernel->report_.entry, ".control"));
  }
  return kernel;
}

absl::StatusOr<std::unique_ptr<LoadedKernel>> LoadedKernel::LoadPto(int fd,
                                                                    const std::string& entry,
                                                                    const std::string& name,
                                                                    const PtoSignature& signature,
                                                                    const std::string& file_name) {
  PTO_RETURN_IF_ERROR(CheckPtoEnvironment());
  PTO_ASSIGN_OR_RETURN(std::unique_ptr<LoadedKernel> kernel,
                       LoadObject(fd, entry, KernelAbi::kPto, file_name));
  void* const function = kernel->object_->Find(kernel->report_.entry.c_str());
  if (function == nullptr) {
    return Error(reason::kFieldInvalid,
                 absl::StrCat("'", kernel->report_.entry, "' is not in the loaded object"))
        .At("object.entry");
  }
  // Objects of an older pto-isa do not look for the hooks, but want to be given them.
  if (void* const give = kernel->object_->Find("pto_sim_register_hooks")) {
    reinterpret_cast<void (*)(void*, void*)>(give)(
        reinterpret_cast<void*>(&pto_sim_get_subblock_id),
        reinterpret_cast<void*>(&pto_sim_get_pipe_shared_state));
  }
  PtoKernel::Setting setting;
  setting.name = name;
  setting.entry = reinterpret_cast<PtoEntry>(function);
  setting.signature = signature;
  setting.blocks = signature.blocks.value_or(kernel->report_.blocks);
  setting.waits = kernel->report_.blocks;
  if (!kernel->report_.waits_obey_host) {
    CountLooks(*kernel->object_);
    setting.give_up_looks = PtoKernel::kLeastGiveUpLooks;
  }
  auto pto = std::make_unique<const PtoKernel>(std::move(setting));
  PTO_RETURN_IF_ERROR(CheckKernelInfo(pto->info()));
  kernel->info_ = &pto->info();
  kernel->pto_ = std::move(pto);
  return kernel;
}

}  // namespace pto::host
