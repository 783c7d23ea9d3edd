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
  // Position in the chip list of the job, and the chip of the node at that position.
  uint32_t position = 0;
  uint32_t chip = 0;
  // Initial contents.
  Array initial;
  // Whether the initial contents are zeros, as in any new buffer.
  bool zeros = false;
  // Set for a buffer that is part of a domain.
  absl::optional<WindowPlace> window;
};

// A kernel to upload.
struct PreparedKernel {
  // Relative to the working directory.
  std::string file;
  std::string id;
  std::string signature;
  std::string entry;
};

// What a name in `outputs` and `checks` refers to.
struct NamedView {
  // Index into PreparedJob::buffers.
  size_t buffer = 0;
  View view;
};

// A validated job, ready to be sent. Validated as far as possible without a daemon. Immutable.
struct PreparedJob {
  JobFile file;
  // Folder of the job file; paths in the file are relative to it. Empty means the working
  // directory.
  std::string folder;
  // Chips of the node by position.
  std::vector<uint32_t> chips;
  std::vector<PreparedKernel> kernels;
  // `parent` is not set.
  std::vector<pto::v1::CreateDomainRequest> domains;
  // Buffers of the session first, then those of the domains.
  std::vector<PreparedBuffer> buffers;
  // The graph to send, with chips of the node and with all tensors listed. Tasks and tensors keep
  // their index in the file, so that the field of an error can be located there.
  pto::v1::GraphSpec graph;
  // Tensors of the graph and, where no tensor has the same name, buffers.
  absl::flat_hash_map<std::string, NamedView> views;
  // The computed references of the job, by name.
  absl::flat_hash_map<std::string, Numbers> references;
};

// Validates a job and creates the initial contents of its buffers. If `chips` is not empty, it
// replaces the chips in the file and must have at least as many. The message of JOB_INVALID
// contains file, line and field.
absl::StatusOr<PreparedJob> PrepareJob(JobFile file, absl::Span<const uint32_t> chips = {});

}  // namespace pto::job
