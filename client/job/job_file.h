#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/job/job.pb.h"
#include "client/job/source_map.h"

namespace pto::job {

// A job as written in the file, with the position of each part.
struct JobFile {
  v1::Job job;
  SourceMap places;
};

// Reads a job file. The extension selects the format: JSON for `.json`, text protobuf for `.txtpb`,
// `.textproto` and `.pbtxt`. The message of JOB_INVALID contains file, line and what was expected.
absl::StatusOr<JobFile> LoadJobFile(const std::string& path);

// The same for a text in memory. `path` selects the format.
absl::StatusOr<JobFile> ParseJob(const std::string& path, const std::string& text);

}  // namespace pto::job
