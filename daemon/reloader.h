#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "daemon/config/effective.h"

namespace pto::daemon {

// Changes settings while the daemon serves. A part of the daemon whose settings can change adds a
// function that applies them; all other settings need a restart. For one thread.
class Reloader {
 public:
  // Applies all its settings or, when it returns an error, none of them.
  using Function = std::function<absl::Status(const config::v1::DaemonConfig&)>;

  explicit Reloader(EffectiveConfig current) : current_(std::move(current)) {}

  // `settings` are keys of AllSettings, or beginnings of keys that end with a dot: `log_level`,
  // `auth.`. The function is called at every reload, because a file that a setting names may have
  // changed while the setting has not.
  void Add(std::vector<std::string> settings, Function apply);

  // Calls all functions, also after one has failed, and logs which settings have changed and which
  // of them need a restart. `next` must be valid. Returns the first error.
  absl::Status Apply(const EffectiveConfig& next);

  // What is in use.
  const EffectiveConfig& current() const { return current_; }

 private:
  struct Part {
    std::vector<std::string> settings;
    Function apply;
  };
  EffectiveConfig current_;
  std::vector<Part> parts_;
};

}  // namespace pto::daemon
