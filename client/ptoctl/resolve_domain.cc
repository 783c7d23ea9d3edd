#include "client/ptoctl/resolve_domain.h"

#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::ptoctl {

absl::StatusOr<std::vector<v1::Domain>> ListDomains(Client& client, const std::string& session) {
  if (!session.empty()) {
    return client.ListDomains(absl::StrContains(session, '/') ? session
                                                              : absl::StrCat("sessions/", session));
  }
  std::vector<v1::Domain> all;
  PTO_ASSIGN_OR_RETURN(const std::vector<v1::Session> sessions, client.ListSessions());
  for (const v1::Session& one : sessions) {
    if (one.state() != v1::Session::ACTIVE) continue;
    absl::StatusOr<std::vector<v1::Domain>> domains = client.ListDomains(one.name());
    // The session may have ended since it was listed.
    if (!domains.ok() && absl::IsNotFound(domains.status())) continue;
    PTO_RETURN_IF_ERROR(domains.status());
    std::move(domains->begin(), domains->end(), std::back_inserter(all));
  }
  return all;
}

absl::StatusOr<std::string> ResolveDomain(Client& client, const std::string& given) {
  if (absl::StrContains(given, '/')) return given;
  PTO_ASSIGN_OR_RETURN(const std::vector<v1::Domain> domains, ListDomains(client, ""));
  std::vector<std::string> names;
  for (const v1::Domain& domain : domains) {
    if (absl::EndsWith(domain.name(), absl::StrCat("/", given))) names.push_back(domain.name());
  }
  if (names.size() == 1) return names[0];
  if (names.empty()) {
    return Error(reason::kDomainUnknown, absl::StrCat("there is no domain '", given, "'"));
  }
  return Error(reason::kDomainUnknown, absl::StrCat("more than one session has a domain '", given,
                                                    "': ", absl::StrJoin(names, ", ")))
      .Hint("use the full name");
}

absl::StatusOr<Domain> OpenDomain(Client& client, const std::string& given) {
  PTO_ASSIGN_OR_RETURN(const std::string name, ResolveDomain(client, given));
  const std::vector<std::string> parts = absl::StrSplit(name, '/');
  if (parts.size() != 4 || parts[0] != "sessions" || parts[2] != "domains") {
    return Error(reason::kNameInvalid, absl::StrCat("'", name, "' is not a domain name"))
        .Hint("use the form sessions/{session}/domains/{domain}");
  }
  PTO_ASSIGN_OR_RETURN(Session session,
                       client.AttachSession(absl::StrCat(parts[0], "/", parts[1])));
  return session.GetDomain(name);
}

}  // namespace pto::ptoctl
