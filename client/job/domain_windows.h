#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/job/job.pb.h"
#include "client/job/job_file.h"
#include "client/job/window_place.h"
#include "pto/v1/domain.pb.h"

namespace pto::job {

// A buffer of a window, or the signals of a rank, described like a separate buffer.
struct WindowPart {
  WindowPlace place;
  v1::BufferInit contents;
  // Path of its description in the job file.
  std::string path;
};

struct DomainWindows {
  // `parent` is not set.
  std::vector<pto::v1::CreateDomainRequest> domains;
  std::vector<WindowPart> parts;
};

// Prepares the domains of a job and the contents of their windows. `chips` maps positions to chips
// of the node. The message of JOB_INVALID contains file, line and field.
absl::StatusOr<DomainWindows> FindWindows(const JobFile& file, absl::Span<const uint32_t> chips);

}  // namespace pto::job
