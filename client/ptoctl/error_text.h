#pragma once

#include <string>

#include "absl/status/status.h"
#include "client/job/source_map.h"

namespace pto::ptoctl {

// Formats an error for the user, with a trailing line break:
//
//   ptoctl: error: there is no kernel 'ad' (KERNEL_UNKNOWN)
//     at: graph.tasks[3].kernel (add.json:12:7)
//     hint: list them with `ptoctl kernels ls`
//     more: ptoctl errors show KERNEL_UNKNOWN
//
// If `places` is not empty, it gives the position of the field in the job file.
std::string FormatError(const absl::Status& status, const job::SourceMap& places = {});

}  // namespace pto::ptoctl
