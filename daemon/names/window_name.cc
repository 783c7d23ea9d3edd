#include "daemon/names/window_name.h"

#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::daemon::names {
namespace {

constexpr absl::string_view kForm =
    "domains/{domain}/ranks/{rank}/buffers/{name} or domains/{domain}/ranks/{rank}/signals";

// Takes `sessions/{session}/` off, and returns the session or nothing.
absl::string_view TakeSession(absl::string_view* name) {
  absl::string_view rest = *name;
  if (!absl::ConsumePrefix(&rest, "sessions/")) return {};
  const size_t end = rest.find('/');
  if (end == absl::string_view::npos) return {};
  *name = rest.substr(end + 1);
  return rest.substr(0, end);
}

bool ParseRank(absl::string_view text, uint32_t* rank) {
  // One name for one thing: no signs, no spaces, no leading zeros.
  return !text.empty() && absl::ascii_isdigit(text[0]) && absl::ascii_isdigit(text.back()) &&
         (text[0] != '0' || text.size() == 1) && absl::SimpleAtoi(text, rank);
}

}  // namespace

std::string Window::relative() const {
  const std::string place = absl::StrCat("domains/", domain, "/ranks/", rank);
  return signals() ? place + "/signals" : absl::StrCat(place, "/buffers/", buffer);
}

bool IsWindow(absl::string_view name) {
  TakeSession(&name);
  return absl::StartsWith(name, "domains/");
}

absl::StatusOr<Window> ParseWindow(absl::string_view name, absl::string_view field) {
  absl::string_view rest = name;
  Window window;
  window.session = std::string(TakeSession(&rest));
  const std::vector<absl::string_view> parts = absl::StrSplit(rest, '/');
  const bool signals = parts.size() == 5 && parts[4] == "signals";
  const bool buffer = parts.size() == 6 && parts[4] == "buffers";
  if ((!signals && !buffer) || parts[0] != "domains" || parts[2] != "ranks" ||
      !ParseRank(parts[3], &window.rank)) {
    return Error(reason::kNameInvalid, absl::StrCat(Quoted(name), " is not of the form ", kForm))
        .At(field)
        .Hint(absl::StrCat("this name looks like ", kForm));
  }
  if (!window.session.empty()) PTO_RETURN_IF_ERROR(CheckId(window.session, field));
  PTO_RETURN_IF_ERROR(CheckId(parts[1], field));
  window.domain = std::string(parts[1]);
  if (buffer) {
    PTO_RETURN_IF_ERROR(CheckId(parts[5], field));
    window.buffer = std::string(parts[5]);
  }
  return window;
}

absl::StatusOr<Child> ParseAnyBuffer(absl::string_view name, absl::string_view field) {
  if (!IsWindow(name) || !absl::StartsWith(name, "sessions/")) {
    return ParseChild(name, "buffers", field);
  }
  PTO_ASSIGN_OR_RETURN(const Window window, ParseWindow(name, field));
  return Child{window.session, window.relative()};
}

absl::StatusOr<std::string> ParseOwnBuffer(absl::string_view name, absl::string_view session,
                                           absl::string_view field) {
  if (!absl::StrContains(name, '/')) {
    PTO_RETURN_IF_ERROR(CheckId(name, field));
    return std::string(name);
  }
  Child child;
  if (absl::StartsWith(name, "domains/")) {
    PTO_ASSIGN_OR_RETURN(const Window window, ParseWindow(name, field));
    return window.relative();
  }
  PTO_ASSIGN_OR_RETURN(child, ParseAnyBuffer(name, field));
  if (child.session != session) {
    return Error(reason::kSessionMismatch, absl::StrCat("the buffer is of ", Session(child.session),
                                                        ", but the graph is of ", Session(session)))
        .At(field)
        .With("have", Session(child.session))
        .With("want", Session(session));
  }
  return std::move(child.id);
}

std::string AnyBufferName(absl::string_view session, absl::string_view id) {
  if (IsWindow(id)) return absl::StrCat(Session(session), "/", id);
  return ChildName(session, "buffers", id);
}

}  // namespace pto::daemon::names
