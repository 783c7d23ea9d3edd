#include "tests/soak/options.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"

namespace pto::soak {

absl::StatusOr<Options> ParseOptions(int argc, char** argv) {
  Options options;
  options.seed = static_cast<uint64_t>(absl::ToUnixMicros(absl::Now()));
  for (int i = 1; i < argc; ++i) {
    absl::string_view value = argv[i];
    bool good = true;
    if (value == "--json") {
      options.json = true;
    } else if (value == "--no-faults") {
      options.faults = false;
    } else if (absl::ConsumePrefix(&value, "--seconds=")) {
      good = absl::SimpleAtoi(value, &options.seconds) && options.seconds >= 1;
    } else if (absl::ConsumePrefix(&value, "--clients=")) {
      good = absl::SimpleAtoi(value, &options.clients) && options.clients >= 1;
    } else if (absl::ConsumePrefix(&value, "--seed=")) {
      good = absl::SimpleAtoi(value, &options.seed);
    } else if (absl::ConsumePrefix(&value, "--chips=")) {
      good = absl::SimpleAtoi(value, &options.chips) && options.chips >= 2;
    } else {
      good = false;
    }
    if (!good) return absl::InvalidArgumentError(absl::StrCat(argv[i], " makes no sense"));
  }
  return options;
}

}  // namespace pto::soak
