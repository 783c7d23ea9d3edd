#pragma once

#include <functional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace pto::ptoctl {

// Reads `1.5s`, `200ms`, `2m`, or a number of seconds. False for anything else and for less
// than nothing.
bool ParseDurationText(absl::string_view text, absl::Duration* duration);

// An option that takes a duration.
CLI::Option* AddDurationOption(CLI::App& app, const std::string& name,
                               const std::string& description,
                               std::function<void(absl::Duration)> set);

}  // namespace pto::ptoctl
