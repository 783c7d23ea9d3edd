#pragma once

#include "absl/time/time.h"
#include "google/protobuf/duration.pb.h"

namespace pto::internal {

// Values out of range are clamped.
inline void ToProto(absl::Duration duration, google::protobuf::Duration& out) {
  // The maximum of google.protobuf.Duration: about 10,000 years.
  constexpr absl::Duration kLongest = absl::Seconds(315'576'000'000);
  if (duration > kLongest) duration = kLongest;
  if (duration < -kLongest) duration = -kLongest;
  out.set_seconds(absl::IDivDuration(duration, absl::Seconds(1), &duration));
  out.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(duration)));
}

}  // namespace pto::internal
