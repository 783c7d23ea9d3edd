#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace pto::internal {

// The bearer token for a daemon at `address`, from the file `given`, or else from the one that the
// environment variable PTOD_TOKEN_FILE names. Empty: none, and on unix sockets, where the daemon
// knows the user. FIELD_INVALID if the file cannot be read or others can read it, or if the token
// would leave this machine without encryption.
absl::StatusOr<std::string> FindToken(absl::string_view address, const std::string& given,
                                      bool encrypted);

}  // namespace pto::internal
