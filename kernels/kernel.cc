#include "kernels/kernel.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "kernels/kernel_info.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto {

struct Kernel::Owning {
  Owning(const pto_kernel_info& info, std::shared_ptr<const void> code)
      : owner(std::move(code)),
        name(info.name),
        description(info.description),
        arguments(info.arguments, info.arguments + info.argument_count),
        scalars(info.scalars, info.scalars + info.scalar_count) {
    // The strings do not move: there is room for all of them.
    names.reserve(arguments.size() + scalars.size());
    for (pto_argument_info& argument : arguments) {
      argument.name = names.emplace_back(argument.name).c_str();
    }
    for (pto_scalar_info& scalar : scalars) scalar.name = names.emplace_back(scalar.name).c_str();
    for (uint32_t i = 0; i < info.argument_count; ++i) overlaps.push_back(OverlapOf(info, i));
  }
  Owning(const Owning&) = delete;
  Owning& operator=(const Owning&) = delete;

  // The same description, in terms of the copies.
  pto_kernel_info Described(const pto_kernel_info& info) const {
    pto_kernel_info own = {};
    std::memcpy(&own, &info, std::min<size_t>(info.struct_size, sizeof own));
    own.struct_size = sizeof own;
    own.name = name.c_str();
    own.description = description.c_str();
    own.arguments = arguments.data();
    own.scalars = scalars.data();
    own.overlaps = overlaps.data();
    return own;
  }

  const std::shared_ptr<const void> owner;
  const std::string name;
  const std::string description;
  std::vector<pto_argument_info> arguments;
  std::vector<pto_scalar_info> scalars;
  std::vector<pto_overlap_info> overlaps;
  std::vector<std::string> names;  // of the arguments and scalars
};

namespace {

// Stands for the function of a kernel that runs elsewhere.
int32_t RunsElsewhere(const pto_context*) { return PTO_NOT_ALLOWED; }

}  // namespace

Kernel::Kernel(const pto_kernel_info& info, const void* data, std::unique_ptr<const Owning> owning,
               std::shared_ptr<engine::LanePort> lane)
    : data_(data), owning_(std::move(owning)), lane_(std::move(lane)) {
  // A description built with an older header is shorter; a newer one has fields that are unknown
  // here.
  std::memcpy(&info_, &info, std::min<size_t>(info.struct_size, sizeof info_));
}

Kernel::~Kernel() = default;

absl::StatusOr<std::shared_ptr<const Kernel>> Kernel::BuiltIn(const pto_kernel_info& info) {
  PTO_RETURN_IF_ERROR(CheckKernelInfo(info));
  return std::shared_ptr<const Kernel>(new Kernel(info, nullptr, nullptr, nullptr));
}

absl::StatusOr<std::shared_ptr<const Kernel>> Kernel::Owned(const pto_kernel_info& info,
                                                            const void* data,
                                                            std::shared_ptr<const void> owner) {
  PTO_RETURN_IF_ERROR(CheckKernelInfo(info));
  auto owning = std::make_unique<const Owning>(info, std::move(owner));
  const pto_kernel_info own = owning->Described(info);
  return std::shared_ptr<const Kernel>(new Kernel(own, data, std::move(owning), nullptr));
}

absl::StatusOr<std::shared_ptr<const Kernel>> Kernel::OnLane(
    const pto_kernel_info& given, const void* data, std::shared_ptr<const void> owner,
    std::shared_ptr<engine::LanePort> lane) {
  pto_kernel_info info = {};
  std::memcpy(&info, &given, std::min<size_t>(given.struct_size, sizeof info));
  if (info.control != PTO_CONTROL_NONE) {
    return Error(reason::kFieldInvalid, "the engine does this itself, without a lane")
        .At("control");
  }
  // No engine thread runs it, as for kernels that block.
  info.flags |= PTO_KERNEL_BLOCKS;
  if (info.function == nullptr) info.function = &RunsElsewhere;
  PTO_RETURN_IF_ERROR(CheckKernelInfo(info));
  auto owning = std::make_unique<const Owning>(info, std::move(owner));
  const pto_kernel_info own = owning->Described(info);
  return std::shared_ptr<const Kernel>(new Kernel(own, data, std::move(owning), std::move(lane)));
}

}  // namespace pto
