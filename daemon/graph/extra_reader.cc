#include "daemon/graph/extra_reader.h"

#include <cstddef>
#include <string>

#include "absl/strings/str_cat.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::daemon {
namespace {

absl::Status NoSuch(absl::string_view what, uint32_t index, size_t size, absl::string_view field) {
  return Error(reason::kBlockInvalid,
               absl::StrCat("there is no ", what, " ", index, ", only ", size))
      .At(field);
}

}  // namespace

absl::Status ExtraReader::CheckRows(const v1::TaskBlock& chunk, uint32_t rows) {
  for (int i = 0; i < chunk.extras_size(); ++i) {
    const uint32_t row = chunk.extras(i).row();
    const bool rises = i == 0 || row > chunk.extras(i - 1).row();
    if (rises && row < rows) continue;
    return Error(reason::kBlockInvalid,
                 rises ? absl::StrCat("there is no row ", row, ", only ", rows)
                       : absl::StrCat("row ", row, " comes after row ", chunk.extras(i - 1).row()))
        .At(absl::StrCat("extras[", i, "].row"))
        .Hint("list each row at most once, in increasing order");
  }
  return absl::OkStatus();
}

absl::Status ExtraReader::ReadMembers(const v1::TaskExtra& extra, absl::Span<const uint32_t> chips,
                                      uint32_t tensor_count) {
  for (int i = 0; i < extra.members_size(); ++i) {
    const v1::PackedMember& member = extra.members(i);
    const auto at = [i](absl::string_view field) {
      return absl::StrCat("members[", i, "].", field);
    };
    if (member.chip() >= chips.size()) {
      return NoSuch("chip", member.chip(), chips.size(), at("chip"));
    }
    for (int a = 0; a < member.args_size(); ++a) {
      if (member.args(a) >= tensor_count) {
        return NoSuch("tensor", member.args(a), tensor_count, at(absl::StrCat("args[", a, "]")));
      }
    }
    members_.push_back(
        {chips[member.chip()], {member.args().data(), static_cast<size_t>(member.args_size())}});
  }
  return absl::OkStatus();
}

absl::Status ExtraReader::Read(const v1::TaskExtra& extra, const pto_kernel_info& kernel,
                               absl::Span<const uint32_t> chips, uint32_t tensor_count,
                               engine::TaskInput& task) {
  members_.clear();
  PTO_RETURN_IF_ERROR(ReadMembers(extra, chips, tensor_count));
  task.members = members_;
  if (extra.has_predicate()) {
    const v1::PackedPredicate& predicate = extra.predicate();
    if (predicate.tensor() >= tensor_count) {
      return NoSuch("tensor", predicate.tensor(), tensor_count, "predicate.tensor");
    }
    task.predicate = {predicate.tensor(), static_cast<uint32_t>(predicate.compare()),
                      predicate.value()};
  }
  const uint64_t all = (uint64_t{1} << kernel.argument_count) - 1;
  if ((extra.no_dependency_mask() & ~all) != 0) {
    return Error(reason::kBlockInvalid,
                 absl::StrCat("the mask names arguments that kernel '", kernel.name,
                              "' does not have; it takes ", kernel.argument_count))
        .At("no_dependency_mask")
        .With("have", extra.no_dependency_mask())
        .With("want", kernel.argument_count);
  }
  task.no_dependency_args = extra.no_dependency_mask();
  return absl::OkStatus();
}

}  // namespace pto::daemon
