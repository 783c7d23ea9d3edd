#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/client.h"

namespace pto::ptoctl {

// Lists the uploaded kernels of one session, given by name or id, or of all sessions that have any
// if `session` is empty.
absl::StatusOr<std::vector<v1::Kernel>> ListUploadedKernels(Client& client,
                                                            const std::string& session);

// The kernel of this name: a full name, or an id. An id that several sessions have, or a session
// and the daemon, is an error that lists them.
absl::StatusOr<v1::Kernel> PickKernel(absl::Span<const v1::Kernel> kernels,
                                      const std::string& given);

}  // namespace pto::ptoctl
