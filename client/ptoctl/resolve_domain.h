#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/client.h"

namespace pto::ptoctl {

// Returns the full name of a domain. `given` is a full name, or an id that is unique among all
// sessions.
absl::StatusOr<std::string> ResolveDomain(Client& client, const std::string& given);

// Lists the domains of one session, given by name or id, or of all sessions if `session` is empty.
absl::StatusOr<std::vector<v1::Domain>> ListDomains(Client& client, const std::string& session);

// Opens a handle of a domain, given by full name or unique id.
absl::StatusOr<Domain> OpenDomain(Client& client, const std::string& given);

}  // namespace pto::ptoctl
