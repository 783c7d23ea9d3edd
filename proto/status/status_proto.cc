#include "proto/status/status_proto.h"

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "proto/status/utf8.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/base/reason.h"

namespace pto {
namespace {

constexpr absl::string_view kDomain = "ptod";
// Together with the message twice (FieldViolation repeats it) well below kMaxErrorBytes.
constexpr size_t kMaxNameBytes = 128;
constexpr size_t kMaxFieldBytes = 256;
constexpr size_t kMaxHintBytes = 512;
// A client that asks again and again must not fill the disk.
constexpr int kMaxLogged = 100;

// The same error, with a reason in any case.
absl::Status WithReason(const absl::Status& status) {
  if (GetErrorDetail(status).has_value()) return status;
  static std::atomic<int> logged{0};
  if (logged.fetch_add(1, std::memory_order_relaxed) < kMaxLogged) {
    PTO_LOG(kError, kNoReasonLogged, {{"error", status.ToString()}});
  }
  return Error(reason::kReasonMissing, status.message())
      .With("code", absl::StatusCodeToString(status.code()));
}

v1::ErrorInfo InfoOf(const ErrorDetail& detail) {
  v1::ErrorInfo info;
  info.set_reason(CutUtf8(detail.reason, kMaxNameBytes));
  info.set_domain(std::string(kDomain));
  info.set_scope(static_cast<v1::ErrorScope>(detail.scope));
  info.set_mechanism(CutUtf8(detail.mechanism, kMaxNameBytes));
  info.set_hint(CutUtf8(detail.hint, kMaxHintBytes));
  info.set_help(CutUtf8(detail.help, kMaxFieldBytes));
  for (const auto& [key, value] : detail.metadata) {
    (*info.mutable_metadata())[CutUtf8(key, kMaxNameBytes)] = CutUtf8(value, kMaxErrorBytes);
  }
  return info;
}

// Removes the longest value; among equals the last key, so that the result does not depend on
// the order of a hash table.
void DropLongestValue(v1::ErrorInfo& info) {
  auto& metadata = *info.mutable_metadata();
  auto longest = metadata.begin();
  for (auto it = metadata.begin(); it != metadata.end(); ++it) {
    if (std::make_pair(it->second.size(), absl::string_view(it->first)) >
        std::make_pair(longest->second.size(), absl::string_view(longest->first))) {
      longest = it;
    }
  }
  metadata.erase(longest);
}

template <typename Detail>
absl::optional<Detail> FindDetail(const v1::Status& proto) {
  for (const google::protobuf::Any& any : proto.details()) {
    Detail detail;
    if (any.Is<Detail>() && any.UnpackTo(&detail)) return detail;
  }
  return absl::nullopt;
}

Scope ScopeOf(v1::ErrorScope scope) {
  if (scope < v1::ERROR_SCOPE_REQUEST || scope > v1::ERROR_SCOPE_NODE) return Scope::kRequest;
  return static_cast<Scope>(scope);
}

absl::StatusCode CodeOf(int32_t code) {
  constexpr int32_t kLastCode = static_cast<int32_t>(absl::StatusCode::kUnauthenticated);
  if (code < 0 || code > kLastCode) return absl::StatusCode::kUnknown;
  return static_cast<absl::StatusCode>(code);
}

static_assert(static_cast<int>(Scope::kRequest) == v1::ERROR_SCOPE_REQUEST);
static_assert(static_cast<int>(Scope::kNode) == v1::ERROR_SCOPE_NODE);

}  // namespace

v1::Status StatusToProto(const absl::Status& given) {
  v1::Status proto;
  if (given.ok()) return proto;
  const absl::Status status = WithReason(given);
  const ErrorDetail detail = *GetErrorDetail(status);
  proto.set_code(static_cast<int32_t>(status.code()));
  proto.set_message(CutUtf8(status.message(), kMaxErrorMessageBytes));

  v1::ErrorInfo info = InfoOf(detail);
  google::protobuf::Any* const packed_info = proto.add_details();
  packed_info->PackFrom(info);
  if (!detail.field.empty()) {
    v1::FieldViolation violation;
    violation.set_field(CutUtf8(detail.field, kMaxFieldBytes));
    violation.set_description(proto.message());
    proto.add_details()->PackFrom(violation);
  }
  if (detail.quota.has_value()) {
    v1::QuotaViolation violation;
    violation.set_quota(CutUtf8(detail.quota->name, kMaxNameBytes));
    violation.set_limit(detail.quota->limit);
    violation.set_usage(detail.quota->usage);
    violation.set_requested(detail.quota->requested);
    proto.add_details()->PackFrom(violation);
  }
  while (proto.ByteSizeLong() > kMaxErrorBytes && !info.metadata().empty()) {
    DropLongestValue(info);
    packed_info->PackFrom(info);
  }
  return proto;
}

absl::Status StatusFromProto(const v1::Status& proto) {
  const absl::StatusCode code = CodeOf(proto.code());
  if (code == absl::StatusCode::kOk) return absl::OkStatus();
  const absl::optional<v1::ErrorInfo> info = FindDetail<v1::ErrorInfo>(proto);
  if (!info.has_value() || info->reason().empty()) return absl::Status(code, proto.message());

  // A newer peer may have reasons that this build's registry does not.
  const Reason reason{info->reason(), code, ScopeOf(info->scope()), info->mechanism(),
                      info->hint()};
  Error error(reason, proto.message());
  error.Help(info->help());
  const std::map<std::string, std::string> metadata(info->metadata().begin(),
                                                    info->metadata().end());
  for (const auto& [key, value] : metadata) error.With(key, value);
  if (const auto field = FindDetail<v1::FieldViolation>(proto)) error.At(field->field());
  if (const auto quota = FindDetail<v1::QuotaViolation>(proto)) {
    error.Limit(quota->quota(), quota->limit(), quota->usage(), quota->requested());
  }
  return error;
}

}  // namespace pto
