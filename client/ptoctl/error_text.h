#pragma once

#include <string>

#include "absl/status/status.h"
#include "client/job/source_map.h"

namespace pto::ptoctl {

// An error for a person, with a line break at the end:
//
//   ptoctl: error: there is no kernel 'ad' (KERNEL_UNKNOWN)
//     at: graph.tasks[3].kernel (add.json:12:7)
//     hint: list them with `ptoctl kernels ls`
//     more: ptoctl errors show KERNEL_UNKNOWN
//
// `places` may be empty; else it tells where in a job file the field stands.
std::string FormatError(const absl::Status& status, const job::SourceMap& places = {});

}  // namespace pto::ptoctl
