#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "google/protobuf/duration.pb.h"

namespace pto::daemon {

// The most that a request can ask for as a limit in time.
inline constexpr int64_t kMaxTimeoutHours = 24 * 365;

// FIELD_INVALID unless it is a valid duration of `least` to `most`.
absl::StatusOr<absl::Duration> ParseDuration(const google::protobuf::Duration& duration,
                                             absl::string_view field, absl::Duration least,
                                             absl::Duration most);

// A limit in time, in ns: 0, which means none, up to a year.
absl::StatusOr<int64_t> ParseTimeout(const google::protobuf::Duration& duration,
                                     absl::string_view field);

}  // namespace pto::daemon
