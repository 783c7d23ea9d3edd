#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "daemon/auth/policy.pb.h"
#include "daemon/auth/principal.h"

namespace pto::daemon::auth {

// Which rights somebody has. Never changes, so thread-safe: a new file is a new policy.
class Policy {
 public:
  // What holds without a file. `own_uid` is the user that the daemon runs as.
  explicit Policy(uint32_t own_uid) : own_uid_(own_uid) {}

  // Error: CONFIG_INVALID, with the file and the grant.
  static absl::StatusOr<std::shared_ptr<const Policy>> Parse(absl::string_view file,
                                                             const std::string& text,
                                                             uint32_t own_uid);
  static absl::StatusOr<std::shared_ptr<const Policy>> Load(const std::string& file,
                                                            uint32_t own_uid);

  // Of a user of this machine. `groups` are all that the user is in; they matter only if the policy
  // has any.
  Rights OfUser(uint32_t uid, absl::Span<const uint32_t> groups) const;
  bool has_groups() const { return !groups_.empty(); }
  // Of a principal that is no user. `roles` are what its token says.
  Rights OfOther(absl::string_view name, absl::Span<const policy::v1::Grant::Role> roles) const;

 private:
  using Grant = policy::v1::Grant;

  absl::Status Add(absl::string_view who, const Grant& grant);
  // `found` has the most special grants last; those of one level are together.
  Rights Combine(const std::vector<std::vector<const Grant*>>& found,
                 absl::Span<const Grant::Role> more_roles, bool always_operates) const;

  const uint32_t own_uid_;
  // Merged for each: a later grant to the same adds to the former ones.
  absl::optional<Grant> everyone_;
  absl::flat_hash_map<uint32_t, Grant> groups_;
  absl::flat_hash_map<std::string, Grant> principals_;
};

// A role by its name in lower case: user, reader, operator.
absl::optional<policy::v1::Grant::Role> ParseRole(absl::string_view text);

}  // namespace pto::daemon::auth
