#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"

namespace pto::daemon::auth {

// What the policy allows somebody. Zero in a limit means the node's own.
struct Rights {
  enum class Priority : uint8_t { kLow, kNormal, kHigh };

  // May have sessions.
  bool user = true;
  // Sees what everybody has, and the configuration, but no contents of buffers.
  bool reader = false;
  // The same; and cancels and deletes what everybody has, drains the node, resets chips.
  bool operates = false;

  // Whether it may upload kernels. Unset: the daemon's setting decides.
  enum class Uploads : uint8_t { kUnset, kDenied, kAllowed };
  Uploads kernel_uploads = Uploads::kUnset;

  Priority max_priority = Priority::kNormal;
  uint32_t max_weight = 1000;
  // Chips that all leases of the principal may have together.
  uint32_t max_leased_chips = 0;
  // As max_client_... of the node's limits.
  uint64_t max_sessions = 0;
  uint64_t max_device_bytes = 0;
  uint64_t max_windows = 0;
  uint64_t max_active_runs = 0;
  uint64_t max_tasks = 0;
  uint64_t max_event_log_bytes = 0;
};

// Who calls: a user of this machine, the owner of a token or of a certificate. Never changes, so
// thread-safe; a new policy makes new ones.
struct Principal {
  Principal(std::string its_name, const Rights& its_rights)
      : name(std::move(its_name)), rights(its_rights) {}

  // `uid-1000`, `token-ci`, `cert-alice`: an id, which stays the same over connections and boots.
  const std::string name;
  const Rights rights;

  bool sees_all() const { return rights.reader || rights.operates; }
};

// The principal of a call. Held as long as the call.
using Caller = std::shared_ptr<const Principal>;

// What a caller wants with something that a principal owns.
enum class Right : uint8_t {
  kLook,  // at its state, not at contents of buffers: the owner, readers, operators
  kEnd,   // cancel, delete: the owner, operators
  kUse,   // everything else: the owner
};

// `owner` is the name of a principal. Empty: a former release did not record it, so it is known to
// operators only.
inline bool May(const Principal& caller, absl::string_view owner, Right right) {
  if (owner.empty()) return caller.rights.operates;
  if (caller.name == owner) return true;
  switch (right) {
    case Right::kLook:
      return caller.sees_all();
    case Right::kEnd:
      return caller.rights.operates;
    case Right::kUse:
      return false;
  }
  return false;
}

// The daemon itself, which may do all of this with what it finds. Never a caller.
inline const Principal& Daemon() {
  static const Principal* const daemon = [] {
    Rights rights;
    rights.reader = true;
    rights.operates = true;
    rights.max_priority = Rights::Priority::kHigh;
    return new Principal("daemon", rights);
  }();
  return *daemon;
}

// The principal of a user of this machine.
inline std::string UidName(uint32_t uid) { return "uid-" + std::to_string(uid); }

}  // namespace pto::daemon::auth
