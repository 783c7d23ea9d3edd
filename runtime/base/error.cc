#include "runtime/base/error.h"

#include <cstring>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"

namespace pto {
namespace {

constexpr absl::string_view kPayloadUrl = "ptod/error-detail";

// The payload is a list of strings, each preceded by its length, then eight-byte numbers.
void Put(std::string& out, absl::string_view text) {
  const auto size = static_cast<uint32_t>(text.size());
  out.append(reinterpret_cast<const char*>(&size), sizeof size);
  out.append(text.data(), text.size());
}

void PutNumber(std::string& out, uint64_t number) {
  out.append(reinterpret_cast<const char*>(&number), sizeof number);
}

// Reads what Put and PutNumber wrote. Any code can set a payload on a status, so malformed input
// sets failed() and is never read past its end.
class Reader {
 public:
  explicit Reader(absl::string_view in) : in_(in) {}

  std::string Text() {
    uint32_t size = 0;
    Fixed(&size);
    if (size > in_.size()) return Fail();
    std::string text(in_.substr(0, size));
    in_.remove_prefix(size);
    return text;
  }

  uint64_t Number() {
    uint64_t number = 0;
    Fixed(&number);
    return number;
  }

  bool failed() const { return failed_; }
  bool done() const { return in_.empty(); }

 private:
  template <typename T>
  void Fixed(T* value) {
    if (in_.size() < sizeof *value) {
      Fail();
      return;
    }
    std::memcpy(value, in_.data(), sizeof *value);
    in_.remove_prefix(sizeof *value);
  }

  std::string Fail() {
    failed_ = true;
    in_ = {};
    return {};
  }

  absl::string_view in_;
  bool failed_ = false;
};

absl::Cord Encode(const ErrorDetail& detail) {
  std::string out;
  for (absl::string_view text :
       {absl::string_view(detail.reason), absl::string_view(detail.mechanism),
        absl::string_view(detail.hint), absl::string_view(detail.help),
        absl::string_view(detail.field)}) {
    Put(out, text);
  }
  PutNumber(out, static_cast<uint64_t>(detail.scope));
  PutNumber(out, detail.metadata.size());
  for (const auto& [key, value] : detail.metadata) {
    Put(out, key);
    Put(out, value);
  }
  PutNumber(out, detail.quota.has_value() ? 1 : 0);
  if (detail.quota.has_value()) {
    Put(out, detail.quota->name);
    PutNumber(out, detail.quota->limit);
    PutNumber(out, detail.quota->usage);
    PutNumber(out, detail.quota->requested);
  }
  return absl::Cord(out);
}

absl::optional<ErrorDetail> Decode(const absl::Cord& payload) {
  const std::string flat(payload);
  Reader reader(flat);
  ErrorDetail detail;
  detail.reason = reader.Text();
  detail.mechanism = reader.Text();
  detail.hint = reader.Text();
  detail.help = reader.Text();
  detail.field = reader.Text();
  detail.scope = static_cast<Scope>(reader.Number());
  const uint64_t pairs = reader.Number();
  for (uint64_t i = 0; i < pairs && !reader.failed(); ++i) {
    std::string key = reader.Text();
    detail.metadata.emplace_back(std::move(key), reader.Text());
  }
  if (reader.Number() != 0) {
    Quota quota;
    quota.name = reader.Text();
    quota.limit = reader.Number();
    quota.usage = reader.Number();
    quota.requested = reader.Number();
    detail.quota = std::move(quota);
  }
  if (reader.failed() || !reader.done()) return absl::nullopt;
  return detail;
}

absl::Status Make(absl::StatusCode code, absl::string_view message, const ErrorDetail& detail) {
  absl::Status status(code, message);
  status.SetPayload(kPayloadUrl, Encode(detail));
  return status;
}

}  // namespace

Error::Error(const Reason& reason, absl::string_view message)
    : reason_(&reason), message_(message) {
  detail_.reason = std::string(reason.name);
  detail_.scope = reason.scope;
  detail_.mechanism = std::string(reason.mechanism);
  detail_.hint = std::string(reason.hint);
  detail_.help = HelpAnchor(reason);
}

Error& Error::At(absl::string_view field) {
  detail_.field = std::string(field);
  return *this;
}

Error& Error::With(absl::string_view key, absl::AlphaNum value) {
  detail_.metadata.emplace_back(std::string(key), std::string(value.Piece()));
  return *this;
}

Error& Error::Hint(absl::string_view hint) {
  detail_.hint = std::string(hint);
  return *this;
}

Error& Error::Help(absl::string_view help) {
  detail_.help = std::string(help);
  return *this;
}

Error& Error::Limit(absl::string_view name, uint64_t limit, uint64_t usage, uint64_t requested) {
  detail_.quota = Quota{std::string(name), limit, usage, requested};
  return *this;
}

Error::operator absl::Status() const { return Make(reason_->code, message_, detail_); }

absl::optional<ErrorDetail> GetErrorDetail(const absl::Status& status) {
  absl::optional<absl::Cord> payload = status.GetPayload(kPayloadUrl);
  if (!payload.has_value()) return absl::nullopt;
  return Decode(*payload);
}

std::string ReasonOf(const absl::Status& status) {
  absl::optional<ErrorDetail> detail = GetErrorDetail(status);
  return detail.has_value() ? detail->reason : std::string();
}

absl::Status PrefixField(const absl::Status& status, absl::string_view prefix) {
  absl::optional<ErrorDetail> detail = GetErrorDetail(status);
  if (!detail.has_value()) return status;
  detail->field = absl::StrCat(prefix, detail->field);
  if (absl::EndsWith(detail->field, ".")) detail->field.pop_back();
  return Make(status.code(), status.message(), *detail);
}

}  // namespace pto
