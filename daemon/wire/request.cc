#include "daemon/wire/request.h"

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/error.h"

namespace pto::daemon {
namespace {

constexpr size_t kDefaultPage = 100;
constexpr int32_t kMaxPage = 1000;
constexpr size_t kMaxLabels = 32;
constexpr size_t kMaxLabelBytes = 256;
constexpr size_t kMaxReasonBytes = 1024;
constexpr size_t kMaxTokenBytes = 512;

// The prefix of a list's page tokens. Names have no colons.
std::string TokenPrefix(const PageScope& scope) {
  return absl::StrCat("p2:", scope.method, ":", scope.parent, ":");
}

}  // namespace

absl::StatusOr<size_t> PageSize(int32_t page_size) {
  if (page_size < 0 || page_size > kMaxPage) {
    return Error(reason::kFieldInvalid,
                 absl::StrCat("a page has 0 to ", kMaxPage, " entries, not ", page_size))
        .At("page_size")
        .With("have", page_size)
        .With("want", kMaxPage);
  }
  return page_size == 0 ? kDefaultPage : static_cast<size_t>(page_size);
}

std::string MakePageToken(const PageScope& scope, absl::string_view after) {
  return absl::WebSafeBase64Escape(absl::StrCat(TokenPrefix(scope), after));
}

absl::StatusOr<std::string> ParsePageToken(const PageScope& scope, absl::string_view token) {
  if (token.empty()) return std::string();
  const std::string prefix = TokenPrefix(scope);
  std::string text;
  if (token.size() > kMaxTokenBytes || !absl::WebSafeBase64Unescape(token, &text) ||
      !absl::StartsWith(text, prefix)) {
    return Error(reason::kPageTokenInvalid,
                 absl::StrCat("this is not a page token of this ", scope.method))
        .At("page_token")
        .With("method", scope.method);
  }
  return text.substr(prefix.size());
}

absl::StatusOr<Labels> ParseLabels(const google::protobuf::Map<std::string, std::string>& labels,
                                   absl::string_view field) {
  if (labels.size() > kMaxLabels) {
    return Error(reason::kFieldInvalid,
                 absl::StrCat("there are at most ", kMaxLabels, " labels, not ", labels.size()))
        .At(field)
        .With("have", labels.size())
        .With("want", kMaxLabels);
  }
  Labels result;
  for (const auto& [key, value] : labels) {
    if (key.empty() || key.size() > kMaxLabelBytes || value.size() > kMaxLabelBytes) {
      return Error(reason::kFieldInvalid, absl::StrCat("a label's key has 1 to ", kMaxLabelBytes,
                                                       " bytes, its value at most as many"))
          .At(field)
          .With("key", key.substr(0, 64));
    }
    result.emplace(key, value);
  }
  return result;
}

absl::Status CheckReasonText(absl::string_view text) {
  if (text.size() <= kMaxReasonBytes) return absl::OkStatus();
  return Error(reason::kFieldInvalid,
               absl::StrCat("a reason has at most ", kMaxReasonBytes, " bytes"))
      .At("reason")
      .With("have", text.size())
      .With("want", kMaxReasonBytes);
}

void SetDuration(absl::Duration from, google::protobuf::Duration* to) {
  absl::Duration rest;
  to->set_seconds(absl::IDivDuration(from, absl::Seconds(1), &rest));
  to->set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(rest)));
}

void SetTimestamp(absl::Time from, google::protobuf::Timestamp* to) {
  const int64_t nanos = absl::ToUnixNanos(from);
  to->set_seconds(nanos / 1'000'000'000);
  to->set_nanos(static_cast<int32_t>(nanos % 1'000'000'000));
}

}  // namespace pto::daemon
