#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/client.h"

namespace pto::ptoctl {

// The full name of a domain. `given` is one, or the id of a domain that only one session has.
absl::StatusOr<std::string> ResolveDomain(Client& client, const std::string& given);

// All domains of the node, or of one session, whose name or id that is.
absl::StatusOr<std::vector<v1::Domain>> ListDomains(Client& client, const std::string& session);

// A handle by the full name.
absl::StatusOr<Domain> OpenDomain(Client& client, const std::string& given);

}  // namespace pto::ptoctl
