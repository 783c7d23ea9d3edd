#include "daemon/graph/fields.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "daemon/names/duration.h"
#include "daemon/names/names.h"
#include "daemon/names/window_name.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::daemon {

absl::StatusOr<std::shared_ptr<const Kernel>> ReadKernel(absl::string_view name,
                                                         const KernelSource& kernels,
                                                         absl::string_view field) {
  if (name.empty()) {
    return Error(reason::kFieldInvalid, "a task needs a kernel")
        .At(field)
        .Hint("list them with `ptoctl kernels ls`");
  }
  std::shared_ptr<const Kernel> kernel = kernels.Find(name);
  absl::string_view id = name;
  // A table knows ids only. One of those that were uploaded is not meant by `kernels/`.
  if (kernel == nullptr && absl::ConsumePrefix(&id, "kernels/")) {
    kernel = kernels.Find(id);
    if (kernel != nullptr && kernel->lane() != nullptr) kernel = nullptr;
  }
  if (kernel == nullptr) {
    return Error(reason::kKernelUnknown, absl::StrCat("there is no kernel ", names::Quoted(id)))
        .At(field);
  }
  return kernel;
}

absl::StatusOr<uint32_t> ReadChip(absl::string_view name, const engine::GraphTarget& target,
                                  absl::string_view field) {
  return names::ParseChip(name, field, target.chip_clusters.size());
}

absl::StatusOr<std::string> ReadBuffer(absl::string_view name, absl::string_view session,
                                       absl::string_view field) {
  return names::ParseOwnBuffer(name, session, field);
}

absl::StatusOr<std::string> ReadDomain(absl::string_view name, absl::string_view session,
                                       absl::string_view field) {
  if (!absl::StrContains(name, '/')) {
    PTO_RETURN_IF_ERROR(names::CheckId(name, field));
    return std::string(name);
  }
  PTO_ASSIGN_OR_RETURN(names::Child child, names::ParseChild(name, "domains", field));
  if (child.session == session) return std::move(child.id);
  return Error(reason::kSessionMismatch,
               absl::StrCat("the domain belongs to ", names::Session(child.session)))
      .At(field)
      .With("have", names::Session(child.session))
      .With("want", names::Session(session));
}

std::string DomainScalarName(absl::string_view id) { return absl::StrCat("domains/", id); }

absl::StatusOr<engine::Layout> ReadLayout(v1::DType dtype,
                                          const google::protobuf::RepeatedField<int64_t>& shape,
                                          const google::protobuf::RepeatedField<int64_t>& strides) {
  if (dtype == v1::DTYPE_UNSPECIFIED || !v1::DType_IsValid(dtype)) {
    return Error(reason::kTensorInvalid,
                 dtype == v1::DTYPE_UNSPECIFIED
                     ? std::string("a tensor needs an element type")
                     : absl::StrCat("element type ", static_cast<int>(dtype), " is not known"))
        .At("dtype")
        .With("dtype", static_cast<int>(dtype))
        .Hint("use a type such as F32");
  }
  return engine::MakeLayout(static_cast<uint32_t>(dtype),
                            absl::MakeConstSpan(shape.data(), shape.size()),
                            absl::MakeConstSpan(strides.data(), strides.size()));
}

absl::Status ReadLaunch(const v1::LaunchSpec& launch, engine::TaskInput& task) {
  task.core = static_cast<uint32_t>(launch.core());
  task.block_num = launch.block_num();
  task.require_sync_start = launch.require_sync_start();
  if (launch.has_timeout()) {
    PTO_ASSIGN_OR_RETURN(task.timeout_ns, ParseTimeout(launch.timeout(), "timeout"));
  }
  return absl::OkStatus();
}

absl::Status ReadNumber(const v1::Scalar& scalar, engine::ScalarInput& out) {
  const auto integer = [&](int64_t value) {
    out.kind = engine::ScalarInput::Kind::kInteger;
    out.i64 = value;
    return absl::OkStatus();
  };
  const auto unknown = [](absl::string_view what, int number, absl::string_view field) {
    return Error(reason::kScalarInvalid, number == 0
                                             ? absl::StrCat("the ", what, " is missing")
                                             : absl::StrCat(what, " ", number, " is not known"))
        .At(field)
        .With("have", number);
  };
  switch (scalar.value_case()) {
    case v1::Scalar::kF64:
      out.kind = engine::ScalarInput::Kind::kFloat;
      out.f64 = scalar.f64();
      return absl::OkStatus();
    case v1::Scalar::kI64:
      return integer(scalar.i64());
    case v1::Scalar::kCompare:
      if (scalar.compare() == 0 || !v1::Comparison_IsValid(scalar.compare())) {
        return unknown("comparison", scalar.compare(), "compare")
            .Hint("use a comparison such as GE");
      }
      return integer(scalar.compare());
    case v1::Scalar::kOp:
      if (scalar.op() == 0 || !v1::NotifyOp_IsValid(scalar.op())) {
        return unknown("operation", scalar.op(), "op").Hint("use SET or ADD");
      }
      return integer(scalar.op());
    case v1::Scalar::kDomain:
      return Error(reason::kScalarInvalid, "a domain is no number").At("domain");
    case v1::Scalar::kRef:
    case v1::Scalar::VALUE_NOT_SET:
      break;
  }
  return Error(reason::kScalarInvalid, "a scalar needs a value").Hint("set f64 or i64");
}

absl::Status Relocate(const absl::Status& status, absl::string_view field, ErrorMetadata metadata) {
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

absl::Status Annotate(const absl::Status& status, ErrorMetadata metadata) {
  const absl::optional<ErrorDetail> detail = GetErrorDetail(status);
  return detail.has_value() ? Relocate(status, detail->field, metadata) : status;
}

}  // namespace pto::daemon
