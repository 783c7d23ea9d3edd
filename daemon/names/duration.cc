#include "daemon/names/duration.h"

#include "absl/strings/str_cat.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::daemon {

absl::StatusOr<absl::Duration> ParseDuration(const google::protobuf::Duration& duration,
                                             absl::string_view field, absl::Duration least,
                                             absl::Duration most) {
  const bool well_formed = duration.nanos() > -1'000'000'000 && duration.nanos() < 1'000'000'000 &&
                           !(duration.seconds() > 0 && duration.nanos() < 0) &&
                           !(duration.seconds() < 0 && duration.nanos() > 0);
  const absl::Duration value =
      absl::Seconds(duration.seconds()) + absl::Nanoseconds(duration.nanos());
  if (!well_formed || value < least || value > most) {
    return Error(reason::kFieldInvalid,
                 absl::StrCat("a duration of ", absl::FormatDuration(least), " to ",
                              absl::FormatDuration(most), " is expected, not ",
                              absl::FormatDuration(value)))
        .At(field)
        .With("have", absl::FormatDuration(value))
        .With("least", absl::FormatDuration(least))
        .With("most", absl::FormatDuration(most));
  }
  return value;
}

absl::StatusOr<int64_t> ParseTimeout(const google::protobuf::Duration& duration,
                                     absl::string_view field) {
  PTO_ASSIGN_OR_RETURN(
      const absl::Duration timeout,
      ParseDuration(duration, field, absl::ZeroDuration(), absl::Hours(kMaxTimeoutHours)));
  return absl::ToInt64Nanoseconds(timeout);
}

}  // namespace pto::daemon
