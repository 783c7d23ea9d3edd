#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "client/job/job_file.h"
#include "client/job/reference.h"
#include "client/job/values.h"
#include "client/job/view.h"
#include "client/job/window_place.h"
#include "pto/v1/domain.pb.h"
#include "pto/v1/graph.pb.h"

namespace pto::job {

// A buffer to create.
struct PreparedBuffer {
  std::string name;
  // Position in the job's chips, and the chip of the node that it stands for.
  uint32_t position = 0;
  uint32_t chip = 0;
  // What it holds at the start.
  Array initial;
  // Whether that is what a new buffer holds anyway.
  bool zeros = false;
  // Of one that is created with its domain.
  absl::optional<WindowPlace> window;
};

// What a name in `outputs` and `checks` stands for.
struct NamedView {
  // Index into PreparedJob::buffers.
  size_t buffer = 0;
  View view;
};

// A job that was checked as far as possible without a daemon, ready to be sent. Immutable.
struct PreparedJob {
  JobFile file;
  // Folder of the file, which paths in it are relative to; empty for the working directory.
  std::string folder;
  // Chips of the node by position.
  std::vector<uint32_t> chips;
  // With `parent` left empty.
  std::vector<pto::v1::CreateDomainRequest> domains;
  // Those of the session first, then those of the domains.
  std::vector<PreparedBuffer> buffers;
  // For the wire: chips of the node, all tensors spelled out. Tasks and the tensors of the
  // file keep their index, so that an error's field can be found in the file.
  pto::v1::GraphSpec graph;
  // Tensors of the graph and, where no tensor has the same name, buffers.
  absl::flat_hash_map<std::string, NamedView> views;
  // The job's references by name, computed.
  absl::flat_hash_map<std::string, Numbers> references;
};

// Checks a job and makes the first contents of its buffers. `chips` replaces those of the file
// unless it is empty; there must be at least as many as the job uses. JOB_INVALID names file,
// line and field.
absl::StatusOr<PreparedJob> PrepareJob(JobFile file, absl::Span<const uint32_t> chips = {});

}  // namespace pto::job
