#include "daemon/names/names.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::daemon::names {
namespace {

constexpr size_t kMaxId = 63;

// Whether `id` starts with a letter and goes on with letters, digits and `separator`.
bool IsId(absl::string_view id, char separator) {
  if (id.empty() || id.size() > kMaxId || !absl::ascii_islower(id[0])) return false;
  for (const char c : id) {
    if (!absl::ascii_islower(c) && !absl::ascii_isdigit(c) && c != separator) return false;
  }
  return true;
}

absl::Status WrongForm(absl::string_view name, absl::string_view form, absl::string_view field) {
  return Error(reason::kNameInvalid, name.empty()
                                         ? absl::StrCat("a name is missing; it looks like ", form)
                                         : absl::StrCat(Quoted(name), " is not of the form ", form))
      .At(field)
      .Hint(absl::StrCat("this name looks like ", form));
}

}  // namespace

std::string Quoted(absl::string_view text) {
  constexpr size_t kMaxShown = 80;
  if (text.size() <= kMaxShown) return absl::StrCat("'", absl::Utf8SafeCEscape(text), "'");
  size_t end = kMaxShown;
  // Never cut inside a character of several bytes.
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return absl::StrCat("'", absl::Utf8SafeCEscape(text.substr(0, end)), "…' (", text.size(),
                      " bytes)");
}

absl::Status CheckId(absl::string_view id, absl::string_view field) {
  if (IsId(id, '-')) return absl::OkStatus();
  return Error(reason::kIdInvalid,
               id.empty() ? std::string("an id is missing") : absl::StrCat(Quoted(id), " is no id"))
      .At(field);
}

absl::StatusOr<uint32_t> ParseChip(absl::string_view name, absl::string_view field) {
  absl::string_view digits = name;
  uint32_t index = 0;
  // SimpleAtoi takes signs, spaces and leading zeros; a name has none of them.
  if (!absl::ConsumePrefix(&digits, "chips/") || digits.empty() ||
      !absl::ascii_isdigit(digits[0]) || !absl::ascii_isdigit(digits.back()) ||
      (digits[0] == '0' && digits.size() > 1) || !absl::SimpleAtoi(digits, &index)) {
    return WrongForm(name, "chips/{index}", field);
  }
  return index;
}

absl::StatusOr<uint32_t> ParseChip(absl::string_view name, absl::string_view field, size_t chips) {
  PTO_ASSIGN_OR_RETURN(const uint32_t index, ParseChip(name, field));
  if (index < chips) return index;
  return Error(reason::kChipUnknown,
               absl::StrCat("there is no ", name, "; the node has ", chips, " chips"))
      .At(field)
      .With("chip", name)
      .With("chips", chips);
}

absl::StatusOr<std::string> ParseSession(absl::string_view name, absl::string_view field) {
  absl::string_view id = name;
  if (!absl::ConsumePrefix(&id, "sessions/") || absl::StrContains(id, '/')) {
    return WrongForm(name, "sessions/{session}", field);
  }
  PTO_RETURN_IF_ERROR(CheckId(id, field));
  return std::string(id);
}

absl::StatusOr<std::string> ParseKernel(absl::string_view name, absl::string_view field) {
  absl::string_view id = name;
  if (!absl::ConsumePrefix(&id, "kernels/") || absl::StrContains(id, '/')) {
    return WrongForm(name, "kernels/{kernel}", field);
  }
  PTO_RETURN_IF_ERROR(CheckKernelId(id, field));
  return std::string(id);
}

absl::Status CheckKernelId(absl::string_view id, absl::string_view field) {
  if (IsId(id, '_')) return absl::OkStatus();
  return Error(reason::kIdInvalid, absl::StrCat(Quoted(id), " is no id of a kernel"))
      .At(field)
      .Hint("the id of a kernel is 1 to 63 of a-z 0-9 _ and starts with a letter");
}

absl::StatusOr<Child> ParseAnyKernel(absl::string_view name, absl::string_view field) {
  absl::string_view rest = name;
  if (!absl::ConsumePrefix(&rest, "sessions/")) {
    PTO_ASSIGN_OR_RETURN(std::string id, ParseKernel(name, field));
    return Child{"", std::move(id)};
  }
  const size_t end = rest.find('/');
  Child child;
  child.session = std::string(rest.substr(0, end));
  rest.remove_prefix(std::min(rest.size(), child.session.size() + 1));
  if (!absl::ConsumePrefix(&rest, "kernels/") || absl::StrContains(rest, '/')) {
    return WrongForm(name, "kernels/{kernel} or sessions/{session}/kernels/{kernel}", field);
  }
  PTO_RETURN_IF_ERROR(CheckId(child.session, field));
  PTO_RETURN_IF_ERROR(CheckKernelId(rest, field));
  child.id = std::string(rest);
  return child;
}

absl::StatusOr<Child> ParseChild(absl::string_view name, absl::string_view collection,
                                 absl::string_view field) {
  const auto wrong_form = [&] {
    return WrongForm(name, absl::StrCat("sessions/{session}/", collection, "/{id}"), field);
  };
  absl::string_view rest = name;
  if (!absl::ConsumePrefix(&rest, "sessions/")) return wrong_form();
  const size_t end = rest.find('/');
  if (end == absl::string_view::npos) return wrong_form();
  const absl::string_view session = rest.substr(0, end);
  rest.remove_prefix(end + 1);
  if (!absl::ConsumePrefix(&rest, collection) || !absl::ConsumePrefix(&rest, "/") ||
      absl::StrContains(rest, '/')) {
    return wrong_form();
  }
  PTO_RETURN_IF_ERROR(CheckId(session, field));
  PTO_RETURN_IF_ERROR(CheckId(rest, field));
  return Child{std::string(session), std::string(rest)};
}

std::string Chip(uint32_t index) { return absl::StrCat("chips/", index); }

std::string Kernel(absl::string_view id) { return absl::StrCat("kernels/", id); }

std::string Session(absl::string_view id) { return absl::StrCat("sessions/", id); }

std::string ChildName(absl::string_view session, absl::string_view collection,
                      absl::string_view id) {
  return absl::StrCat("sessions/", session, "/", collection, "/", id);
}

}  // namespace pto::daemon::names
