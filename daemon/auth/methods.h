#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace pto::daemon::auth {

// Which role a method needs, whatever its request says. What it may be done with is decided where
// the session is looked up: see Right.
enum class Need : uint8_t { kNone, kUser, kReader, kOperator };

struct Method {
  absl::string_view name;  // such as `pto.v1.NodeService/GetNode`
  Need need = Need::kNone;
  // Whether it changes something: then each call is a line of the audit log.
  bool mutates = false;

  // Without the service.
  absl::string_view short_name() const { return name.substr(name.rfind('/') + 1); }
};

// All methods of the API.
absl::Span<const Method> AllMethods();

// Must be one of them.
const Method& FindMethod(absl::string_view name);

}  // namespace pto::daemon::auth
