#include "client/ptoctl/duration_text.h"

#include "absl/strings/numbers.h"

namespace pto::ptoctl {

bool ParseDurationText(absl::string_view text, absl::Duration* duration) {
  double seconds = 0;
  if (absl::SimpleAtod(text, &seconds)) {
    *duration = absl::Seconds(seconds);
  } else if (!absl::ParseDuration(text, duration)) {
    return false;
  }
  return *duration > absl::ZeroDuration();
}

}  // namespace pto::ptoctl
