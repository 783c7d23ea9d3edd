#include "runtime/graph/detail_table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "kernels/dtype.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::engine {
namespace {

absl::Status CheckPredicate(const PredicateInput& predicate, const TensorTable& tensors) {
  if (predicate.tensor >= tensors.tensor_count()) {
    return Error(reason::kTensorUnknown, absl::StrCat("there is no tensor ", predicate.tensor,
                                                      ", only ", tensors.tensor_count()))
        .At("tensor")
        .With("tensor", predicate.tensor);
  }
  const Layout& layout = tensors.layout(tensors.tensor(predicate.tensor).layout);
  if (layout.extent != 1) {
    return Error(reason::kArgumentInvalid,
                 absl::StrCat("a predicate tests one element, not ", ShapeText(layout)))
        .At("tensor")
        .With("have", ShapeText(layout))
        .With("want", 1);
  }
  if (layout.dtype < PTO_I8) {
    return Error(reason::kDtypeUnsupported, absl::StrCat("a predicate tests an integer, not ",
                                                         kernels::DtypeName(layout.dtype)))
        .At("tensor")
        .With("dtype", kernels::DtypeName(layout.dtype));
  }
  if (predicate.compare < PTO_EQ || predicate.compare > PTO_LE) {
    return Error(reason::kFieldInvalid,
                 absl::StrCat("comparison ", predicate.compare, " is not known"))
        .At("compare");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status DetailTable::AddTask(uint32_t index, const TaskInput& task, TensorTable& tensors,
                                  const TextTable& text, ImageTask& record) {
  if (IsWithout(task)) return absl::OkStatus();
  record.traits |= kTaskHasDetail;
  ImageDetail detail;
  detail.task = index;
  detail.no_dependency_args = task.no_dependency_args;
  detail.timeout_ns = task.timeout_ns;
  detail.first_member = static_cast<uint32_t>(members_.size());
  if (task.members.empty()) members_.push_back(task.chip);
  for (const TaskInput::Member& member : task.members) members_.push_back(member.chip);
  detail.member_count = static_cast<uint32_t>(members_.size()) - detail.first_member;
  std::copy(task.vector_kernels.begin(), task.vector_kernels.end(), detail.vector_kernels);
  if (task.timeout_ns != 0) record.traits |= kTaskTimed;
  if (!task.vector_kernels.empty()) record.traits |= kTaskMixed;
  if (task.predicate.has_value()) {
    const PredicateInput& predicate = *task.predicate;
    absl::Status right = CheckPredicate(predicate, tensors);
    if (!right.ok()) return PrefixField(right, "predicate.");
    absl::Status placed = tensors.AddRead(task.kernel, record.chip, predicate.tensor, text);
    if (!placed.ok()) return PrefixField(placed, "predicate.tensor");
    record.traits |= kTaskPredicated;
    detail.predicate_tensor = predicate.tensor;
    detail.predicate_compare = predicate.compare;
    detail.predicate_value = predicate.value;
  }
  details_.push_back(detail);
  return absl::OkStatus();
}

void DetailTable::Write(ImageWriter& writer, ImageHeader& header) const {
  header.details = writer.Add(details_);
  header.members = writer.Add(members_);
}

}  // namespace pto::engine
