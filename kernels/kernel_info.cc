#include "kernels/kernel_info.h"

#include <algorithm>
#include <cstddef>
#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "kernels/domain_scalar.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto {
namespace {

constexpr size_t kMaxNameLength = 63;

bool IsName(absl::string_view name) {
  return !name.empty() && name.size() <= kMaxNameLength && absl::ascii_islower(name[0]) &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '_';
         });
}

Error Malformed(absl::string_view field, absl::string_view message) {
  return Error(reason::kFieldInvalid, message).At(field);
}

absl::Status CheckName(absl::string_view field, const char* name) {
  if (name == nullptr) return Malformed(field, "is missing");
  if (IsName(name)) return absl::OkStatus();
  return Malformed(field, absl::StrCat("'", name, "' is not 1 to ", kMaxNameLength,
                                       " of a-z 0-9 _ that start with a letter"));
}

// Checks the `count` names that `name_of(i)` returns, and that no two are equal.
template <typename NameOf>
absl::Status CheckNames(absl::string_view list, uint32_t count, NameOf name_of) {
  absl::flat_hash_set<absl::string_view> seen;
  for (uint32_t i = 0; i < count; ++i) {
    const std::string field = absl::StrCat(list, "[", i, "].name");
    PTO_RETURN_IF_ERROR(CheckName(field, name_of(i)));
    if (!seen.insert(name_of(i)).second) {
      return Malformed(field, absl::StrCat("'", name_of(i), "' is listed twice"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckList(absl::string_view list, const void* data, uint32_t count, uint32_t limit) {
  if (count > limit) {
    return Malformed(list, absl::StrCat(count, " are too many, the limit is ", limit));
  }
  if (count > 0 && data == nullptr) {
    return Malformed(list, absl::StrCat("is missing, but its count is ", count));
  }
  return absl::OkStatus();
}

absl::Status CheckArguments(const pto_kernel_info& info) {
  PTO_RETURN_IF_ERROR(CheckList("arguments", info.arguments, info.argument_count, PTO_MAX_ARGS));
  for (uint32_t i = 0; i < info.argument_count; ++i) {
    const pto_argument_info& argument = info.arguments[i];
    const std::string field = absl::StrCat("arguments[", i, "]");
    if (argument.direction < PTO_INPUT || argument.direction > PTO_NO_DEPENDENCY) {
      return Malformed(absl::StrCat(field, ".direction"),
                       absl::StrCat("there is no direction ", argument.direction));
    }
    if (argument.dtypes == 0 || (argument.dtypes & ~PTO_DTYPE_ALL) != 0) {
      return Malformed(
          absl::StrCat(field, ".dtypes"),
          absl::StrCat("0x", absl::Hex(argument.dtypes), " is not a set of element types"));
    }
  }
  return CheckNames("arguments", info.argument_count,
                    [&](uint32_t i) { return info.arguments[i].name; });
}

absl::Status CheckScalars(const pto_kernel_info& info) {
  PTO_RETURN_IF_ERROR(CheckList("scalars", info.scalars, info.scalar_count, PTO_MAX_SCALARS));
  for (uint32_t i = 0; i < info.scalar_count; ++i) {
    const pto_scalar_type type = info.scalars[i].type;
    if (type != PTO_FLOAT && type != PTO_INTEGER && type != kDomainScalar) {
      return Malformed(absl::StrCat("scalars[", i, "].type"),
                       absl::StrCat("there is no scalar type ", info.scalars[i].type));
    }
  }
  return CheckNames("scalars", info.scalar_count, [&](uint32_t i) { return info.scalars[i].name; });
}

// Fields from here on were added later. A kernel that was built before does not have them.
constexpr size_t kLeastInfoSize = offsetof(pto_kernel_info, overlaps);

bool HasOverlaps(const pto_kernel_info& info) {
  return info.struct_size >= offsetof(pto_kernel_info, cost) && info.overlaps != nullptr;
}

absl::Status CheckOverlaps(const pto_kernel_info& info) {
  if (!HasOverlaps(info)) return absl::OkStatus();
  const uint64_t all = (uint64_t{1} << info.argument_count) - 1;
  for (uint32_t i = 0; i < info.argument_count; ++i) {
    const pto_overlap_info& overlap = info.overlaps[i];
    if ((overlap.same | overlap.any) == 0) continue;
    const std::string field = absl::StrCat("overlaps[", i, "]");
    const pto_direction direction = info.arguments[i].direction;
    if (direction != PTO_OUTPUT && direction != PTO_INOUT) {
      return Malformed(field, absl::StrCat("'", info.arguments[i].name, "' is not written"));
    }
    if (((overlap.same | overlap.any) & ~all) != 0) {
      return Malformed(
          field, absl::StrCat("0x", absl::Hex(overlap.same | overlap.any), " is not a set of the ",
                              info.argument_count, " arguments"));
    }
    if ((overlap.same & PTO_ARGUMENT_BIT(i)) != 0) {
      return Malformed(absl::StrCat(field, ".same"), "an argument is always the same as itself");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckKernelInfo(const pto_kernel_info& info) {
  // First, because nothing beyond the size may be read.
  if (info.struct_size < kLeastInfoSize) {
    return Malformed("struct_size", absl::StrCat(info.struct_size, " is less than ", kLeastInfoSize,
                                                 ", the size of ABI ", PTO_KERNEL_ABI_VERSION));
  }
  PTO_RETURN_IF_ERROR(CheckName("name", info.name));
  if (info.description == nullptr) return Malformed("description", "is missing");
  if (info.control > PTO_CONTROL_COPY) {
    return Malformed("control", absl::StrCat("there is no control ", info.control));
  }
  const bool control = info.control != PTO_CONTROL_NONE;
  if (control != (info.function == nullptr)) {
    return Malformed("function", control
                                     ? "must not be set, because the engine executes this itself"
                                     : "is missing");
  }
  if ((info.flags & ~(PTO_KERNEL_WAITS | PTO_KERNEL_BLOCKS | PTO_KERNEL_NOTIFIES)) != 0) {
    return Malformed("flags", absl::StrCat("0x", absl::Hex(info.flags), " is not a set of flags"));
  }
  if (info.plan != nullptr && (control || (info.flags & ~PTO_KERNEL_NOTIFIES) != 0)) {
    return Malformed("plan", "a kernel that works in phases neither waits nor blocks");
  }
  if (info.default_core < PTO_AIC || info.default_core > PTO_MIX) {
    return Malformed("default_core", absl::StrCat("there is no kind of core ", info.default_core));
  }
  if (info.requires_sync_start > 1) {
    return Malformed("requires_sync_start",
                     absl::StrCat(info.requires_sync_start, " is neither 0 nor 1"));
  }
  PTO_RETURN_IF_ERROR(CheckArguments(info));
  PTO_RETURN_IF_ERROR(CheckOverlaps(info));
  return CheckScalars(info);
}

pto_overlap_info OverlapOf(const pto_kernel_info& info, uint32_t argument) {
  return HasOverlaps(info) ? info.overlaps[argument] : pto_overlap_info{0, 0};
}

}  // namespace pto
