#include "daemon/graph/fields.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "daemon/graph/names.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto {

absl::StatusOr<absl::string_view> ReadKernel(absl::string_view name, const KernelRegistry& kernels,
                                             absl::string_view field) {
  if (name.empty()) {
    return Error(reason::kFieldInvalid, "a task needs a kernel")
        .At(field)
        .Hint("list them with `ptoctl kernels ls`");
  }
  absl::string_view id = name;
  absl::ConsumePrefix(&id, "kernels/");
  if (kernels.Find(id) == nullptr) {
    return Error(reason::kKernelUnknown, absl::StrCat("there is no kernel ", names::Quoted(id)))
        .At(field);
  }
  return id;
}

absl::StatusOr<uint32_t> ReadChip(absl::string_view name, const GraphTarget& target,
                                  absl::string_view field) {
  return names::ParseChip(name, field, target.chip_clusters.size());
}

absl::StatusOr<std::string> ReadBuffer(absl::string_view name, absl::string_view session,
                                       absl::string_view field) {
  if (!absl::StrContains(name, '/')) {
    PTO_RETURN_IF_ERROR(names::CheckId(name, field));
    return std::string(name);
  }
  PTO_ASSIGN_OR_RETURN(names::Child child, names::ParseChild(name, "buffers", field));
  if (child.session != session) {
    return Error(reason::kSessionMismatch,
                 absl::StrCat("the buffer is of ", names::Session(child.session),
                              ", but the graph is of ", names::Session(session)))
        .At(field)
        .With("have", names::Session(child.session))
        .With("want", names::Session(session));
  }
  return std::move(child.id);
}

absl::StatusOr<Layout> ReadLayout(v1::DType dtype,
                                  const google::protobuf::RepeatedField<int64_t>& shape,
                                  const google::protobuf::RepeatedField<int64_t>& strides) {
  if (dtype == v1::DTYPE_UNSPECIFIED || !v1::DType_IsValid(dtype)) {
    return Error(reason::kTensorInvalid,
                 dtype == v1::DTYPE_UNSPECIFIED
                     ? std::string("a tensor needs an element type")
                     : absl::StrCat("element type ", static_cast<int>(dtype), " is not known"))
        .At("dtype")
        .With("dtype", static_cast<int>(dtype))
        .Hint("name one such as F32");
  }
  return MakeLayout(static_cast<uint32_t>(dtype), absl::MakeConstSpan(shape.data(), shape.size()),
                    absl::MakeConstSpan(strides.data(), strides.size()));
}

void ReadLaunch(const v1::LaunchSpec& launch, TaskInput& task) {
  task.core = static_cast<uint32_t>(launch.core());
  task.block_num = launch.block_num();
  task.require_sync_start = launch.require_sync_start();
}

absl::Status Relocate(const absl::Status& status, absl::string_view field,
                      std::initializer_list<std::pair<absl::string_view, std::string>> metadata) {
  const absl::optional<ErrorDetail> detail = GetErrorDetail(status);
  const Reason* reason = detail.has_value() ? FindReason(detail->reason) : nullptr;
  if (reason == nullptr) return status;
  Error error(*reason, status.message());
  error.At(field).Hint(detail->hint);
  for (const auto& [key, value] : detail->metadata) error.With(key, value);
  for (const auto& [key, value] : metadata) error.With(key, value);
  if (detail->quota.has_value()) {
    const Quota& quota = *detail->quota;
    error.Limit(quota.name, quota.limit, quota.usage, quota.requested);
  }
  return error;
}

}  // namespace pto
