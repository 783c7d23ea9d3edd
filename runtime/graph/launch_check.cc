#include "runtime/graph/launch_check.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::engine {
namespace {

// The word that counts a task's blocks uses its highest bit for failure.
constexpr uint64_t kMaxBlocks = 1u << 29;

absl::Status CheckChip(const GraphTarget& target, uint32_t chip, absl::string_view field) {
  if (chip < target.device_only.size() && target.device_only[chip]) {
    // Also for a task without tensors, which would run somewhere else than where it was sent.
    return Error(reason::kNotAvailable,
                 absl::StrCat("the memory of chips/", chip,
                              " is not visible to the host, which runs the tasks"))
        .At(field)
        .With("chip", absl::StrCat("chips/", chip))
        .Hint("such chips have buffers and copies; run tasks on other chips");
  }
  if (chip < target.chip_clusters.size()) return absl::OkStatus();
  return Error(reason::kChipUnknown, absl::StrCat("there is no chip ", chip, "; the node has ",
                                                  target.chip_clusters.size()))
      .At(field)
      .With("chip", chip)
      .With("chips", target.chip_clusters.size());
}

absl::Status CheckMembers(const GraphTarget& target, const TaskInput& task) {
  for (size_t i = 0; i < task.members.size(); ++i) {
    const std::string field = absl::StrCat("members[", i, "].chip");
    PTO_RETURN_IF_ERROR(CheckChip(target, task.members[i].chip, field));
    for (size_t other = 0; other < i; ++other) {
      if (task.members[other].chip != task.members[i].chip) continue;
      return Error(reason::kLaunchInvalid,
                   absl::StrCat("chips/", task.members[i].chip, " is already member ", other))
          .At(field)
          .With("chip", absl::StrCat("chips/", task.members[i].chip));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckControl(const pto_kernel_info& info, const TaskInput& task) {
  const char* field = nullptr;
  if (task.core != 0) field = "launch.core";
  if (task.block_num > 1) field = "launch.block_num";
  if (task.require_sync_start) field = "launch.require_sync_start";
  if (!task.vector_kernels.empty()) field = "launch.vector_kernels";
  if (!task.members.empty()) field = "members";
  if (field == nullptr) return absl::OkStatus();
  return Error(reason::kLaunchInvalid, absl::StrCat("'", info.name, "' needs no core"))
      .At(field)
      .With("kernel", info.name)
      .Hint("omit launch and members");
}

// Whether two kernels take the same arguments and scalars. Tensors are checked later.
bool TakesTheSame(const pto_kernel_info& cube, const pto_kernel_info& vector) {
  return vector.control == PTO_CONTROL_NONE && vector.argument_count == cube.argument_count &&
         std::equal(
             vector.scalars, vector.scalars + vector.scalar_count, cube.scalars,
             cube.scalars + cube.scalar_count,
             [](const pto_scalar_info& a, const pto_scalar_info& b) { return a.type == b.type; });
}

absl::Status CheckVectorKernels(absl::Span<const pto_kernel_info* const> kernels,
                                const TaskInput& task, const ImageTask& record) {
  if (task.vector_kernels.empty()) return absl::OkStatus();
  if (record.core != PTO_MIX || task.vector_kernels.size() > 2) {
    return Error(reason::kLaunchInvalid, "only a MIX task can have vector kernels, at most two")
        .At("launch.vector_kernels")
        .With("have", task.vector_kernels.size())
        .With("want", record.core == PTO_MIX ? 2 : 0);
  }
  const pto_kernel_info& cube = *kernels[task.kernel];
  for (size_t i = 0; i < task.vector_kernels.size(); ++i) {
    const std::string field = absl::StrCat("launch.vector_kernels[", i, "]");
    if (task.vector_kernels[i] >= kernels.size()) {
      return Error(reason::kKernelUnknown,
                   absl::StrCat("there is no kernel ", task.vector_kernels[i], ", only ",
                                kernels.size()))
          .At(field)
          .With("kernel", task.vector_kernels[i]);
    }
    const pto_kernel_info& vector = *kernels[task.vector_kernels[i]];
    if (!TakesTheSame(cube, vector)) {
      return Error(reason::kLaunchInvalid,
                   absl::StrCat("kernel '", vector.name, "' takes different arguments than '",
                                cube.name, "', which runs beside it"))
          .At(field)
          .With("kernel", vector.name);
    }
  }
  return absl::OkStatus();
}

// Blocks that start together need their cores at the same time.
absl::Status CheckTogether(const GraphTarget& target, uint32_t chip, const ImageTask& record) {
  const uint32_t clusters = target.chip_clusters[chip];
  const uint32_t capacity = record.core == PTO_AIV ? 2 * clusters : clusters;
  if (record.block_num <= capacity) return absl::OkStatus();
  return Error(reason::kLaunchInvalid,
               absl::StrCat(record.block_num, " blocks cannot start together on chips/", chip,
                            ", which has ", capacity, " such cores"))
      .At("launch.block_num")
      .With("chip", absl::StrCat("chips/", chip))
      .With("have", capacity)
      .With("want", record.block_num)
      .Hint("use fewer blocks; without members and require_sync_start they run in waves");
}

}  // namespace

absl::Status CheckLaunch(const GraphTarget& target,
                         absl::Span<const pto_kernel_info* const> kernels, const TaskInput& task,
                         ImageTask& record) {
  const pto_kernel_info& info = *kernels[task.kernel];
  if (task.members.empty()) {
    PTO_RETURN_IF_ERROR(CheckChip(target, task.chip, "chip"));
  } else {
    PTO_RETURN_IF_ERROR(CheckMembers(target, task));
  }
  // Check before the value is narrowed to the record's eight bits, where 258 would become AIV.
  if (task.core > PTO_MIX) {
    return Error(reason::kLaunchInvalid, absl::StrCat("core kind ", task.core, " is not known"))
        .At("launch.core")
        .With("core", task.core)
        .Hint("use AIC, AIV or MIX");
  }
  if (task.timeout_ns < 0) {
    return Error(reason::kFieldInvalid, "a task's timeout must not be negative")
        .At("launch.timeout");
  }
  record.chip = static_cast<uint16_t>(task.members.empty() ? task.chip : task.members[0].chip);
  record.core =
      static_cast<uint8_t>(task.core == 0 ? static_cast<uint32_t>(info.default_core) : task.core);
  record.block_num = task.block_num == 0 ? 1 : task.block_num;
  const uint64_t blocks = record.block_num * std::max<uint64_t>(task.members.size(), 1);
  if (blocks > kMaxBlocks) {
    return Error(reason::kLaunchInvalid,
                 absl::StrCat("a task has at most ", kMaxBlocks, " blocks, not ", blocks))
        .At("launch.block_num")
        .With("have", blocks)
        .With("want", kMaxBlocks);
  }
  if (info.control != PTO_CONTROL_NONE) {
    record.traits |= kTaskControl;
    return CheckControl(info, task);
  }
  PTO_RETURN_IF_ERROR(CheckVectorKernels(kernels, task, record));
  bool phased = info.plan != nullptr;
  uint32_t flags = info.flags;
  bool requires_sync_start = info.requires_sync_start != 0;
  for (const uint32_t kernel : task.vector_kernels) {
    flags |= kernels[kernel]->flags;
    phased |= kernels[kernel]->plan != nullptr;
    requires_sync_start |= kernels[kernel]->requires_sync_start != 0;
  }
  if (phased && !task.vector_kernels.empty()) {
    return Error(reason::kLaunchInvalid,
                 "a kernel that works in phases does not run beside others in a cluster")
        .At("launch.vector_kernels")
        .With("kernel", info.name);
  }
  if ((flags & PTO_KERNEL_WAITS) != 0) record.traits |= kTaskWaits;
  if ((flags & PTO_KERNEL_BLOCKS) != 0) record.traits |= kTaskBlocks;
  if (requires_sync_start && !task.require_sync_start) {
    return Error(reason::kLaunchInvalid,
                 absl::StrCat("kernel '", info.name, "' requires that its blocks start together"))
        .At("launch.require_sync_start")
        .With("kernel", info.name)
        .Hint("set launch.require_sync_start");
  }
  // The cores of a cluster start together, too.
  const bool one = record.block_num == 1 && task.vector_kernels.empty();
  if (!phased && task.members.size() < 2 && (!task.require_sync_start || one)) {
    return absl::OkStatus();
  }
  record.traits |= kTaskGang;
  if (task.members.empty()) return CheckTogether(target, task.chip, record);
  for (const TaskInput::Member& member : task.members) {
    PTO_RETURN_IF_ERROR(CheckTogether(target, member.chip, record));
  }
  return absl::OkStatus();
}

absl::Status CheckControlScalar(const pto_kernel_info& kernel, size_t scalar, int64_t value) {
  const char* wrong = nullptr;
  if (kernel.control == PTO_CONTROL_NOTIFY && scalar == 0) {
    if (value < PTO_SET || value > PTO_ADD) wrong = "is not an operation on a signal";
  } else if (kernel.control == PTO_CONTROL_WAIT && scalar == 0) {
    if (value < PTO_EQ || value > PTO_LE) wrong = "is not a comparison";
  } else if (kernel.control == PTO_CONTROL_WAIT && scalar == 2) {
    if (value < 0) wrong = "is not a valid timeout";
  }
  if (wrong == nullptr) return absl::OkStatus();
  return Error(reason::kScalarInvalid,
               absl::StrCat("scalar '", kernel.scalars[scalar].name, "' of '", kernel.name,
                            "': ", value, " ", wrong))
      .With("scalar", kernel.scalars[scalar].name)
      .With("have", value);
}

}  // namespace pto::engine
