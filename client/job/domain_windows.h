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

// A buffer of a window, or the signals of a rank, as if it were a buffer of its own.
struct WindowPart {
  WindowPlace place;
  v1::BufferInit contents;
  // Of what describes it, in the file.
  std::string path;
};

struct DomainWindows {
  // With `parent` left empty.
  std::vector<pto::v1::CreateDomainRequest> domains;
  std::vector<WindowPart> parts;
};

// The domains of a job and all that is in their windows. `chips` are those of the node by
// position. JOB_INVALID names file, line and field.
absl::StatusOr<DomainWindows> FindWindows(const JobFile& file, absl::Span<const uint32_t> chips);

}  // namespace pto::job
