#include "client/ptoctl/resolve_kernel.h"

#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/job/nearest.h"
#include "client/ptoctl/session_name.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::ptoctl {

absl::StatusOr<std::vector<v1::Kernel>> ListUploadedKernels(Client& client,
                                                            const std::string& session) {
  if (!session.empty()) return client.ListKernels(SessionName(session));
  std::vector<v1::Kernel> all;
  // Each session with kernels has a host. An older daemon has neither.
  const absl::StatusOr<std::vector<v1::Host>> hosts = client.ListHosts();
  if (!hosts.ok() && absl::IsUnimplemented(hosts.status())) return all;
  PTO_RETURN_IF_ERROR(hosts.status());
  for (const v1::Host& host : *hosts) {
    absl::StatusOr<std::vector<v1::Kernel>> kernels = client.ListKernels(host.session());
    // The session may have ended since it was listed, and readers see the hosts of all.
    if (!kernels.ok() &&
        (absl::IsNotFound(kernels.status()) || absl::IsPermissionDenied(kernels.status()))) {
      continue;
    }
    PTO_RETURN_IF_ERROR(kernels.status());
    std::move(kernels->begin(), kernels->end(), std::back_inserter(all));
  }
  return all;
}

absl::StatusOr<v1::Kernel> PickKernel(absl::Span<const v1::Kernel> kernels,
                                      const std::string& given) {
  const std::string ending = absl::StrCat("/", given);
  std::vector<const v1::Kernel*> found;
  std::vector<std::string> ids, names;
  for (const v1::Kernel& kernel : kernels) {
    if (kernel.name() == given) return kernel;
    if (absl::EndsWith(kernel.name(), ending)) {
      found.push_back(&kernel);
      names.push_back(kernel.name());
    }
    ids.push_back(kernel.name().substr(kernel.name().rfind('/') + 1));
  }
  if (found.size() == 1) return *found[0];
  if (found.empty()) {
    const std::string nearest = job::Nearest(given, ids);
    return Error(reason::kKernelUnknown, absl::StrCat("there is no kernel '", given, "'"))
        .Hint(nearest.empty() ? "list them with `ptoctl kernels ls`"
                              : absl::StrCat("did you mean '", nearest, "'?"));
  }
  return Error(reason::kKernelUnknown, absl::StrCat("more than one kernel is called '", given,
                                                    "': ", absl::StrJoin(names, ", ")))
      .Hint("use the full name");
}

}  // namespace pto::ptoctl
