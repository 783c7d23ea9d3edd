#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "daemon/names/names.h"

// Names of what is in a domain's windows: `domains/{domain}/ranks/{rank}/buffers/{name}` and
// `domains/{domain}/ranks/{rank}/signals`, which both may follow `sessions/{session}/`. Errors are
// those of names.h.
namespace pto::daemon::names {

// A buffer of a window, or the signals of a rank.
struct Window {
  std::string session;  // empty when the name has none
  std::string domain;
  uint32_t rank = 0;
  std::string buffer;  // empty for the signals

  bool signals() const { return buffer.empty(); }
  // Without the session: what graphs call it.
  std::string relative() const;
};

// Whether a name has the form of a window name.
bool IsWindow(absl::string_view name);

absl::StatusOr<Window> ParseWindow(absl::string_view name, absl::string_view field);

// The full name of a buffer of a session or of a window. The id of the latter is its relative
// name.
absl::StatusOr<Child> ParseAnyBuffer(absl::string_view name, absl::string_view field);

// What a graph or a launch of `session` calls a buffer: an id, or any name of the above. Returns
// the id or the relative name. SESSION_MISMATCH for a buffer of another session.
absl::StatusOr<std::string> ParseOwnBuffer(absl::string_view name, absl::string_view session,
                                           absl::string_view field);

// The full name of a buffer of either kind.
std::string AnyBufferName(absl::string_view session, absl::string_view id);

}  // namespace pto::daemon::names
