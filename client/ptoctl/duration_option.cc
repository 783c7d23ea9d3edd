#include "client/ptoctl/duration_option.h"

#include <utility>

#include "CLI/CLI.hpp"
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

CLI::Option* AddDurationOption(CLI::App& app, const std::string& name,
                               const std::string& description,
                               std::function<void(absl::Duration)> set) {
  return app
      .add_option_function<std::string>(
          name,
          [name, set = std::move(set)](const std::string& text) {
            absl::Duration duration;
            if (!ParseDurationText(text, &duration)) {
              throw CLI::ValidationError(
                  name, "expected a duration such as 30s or 500ms, got '" + text + "'");
            }
            set(duration);
          },
          description)
      ->type_name("DURATION");
}

}  // namespace pto::ptoctl
