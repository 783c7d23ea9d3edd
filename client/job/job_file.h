#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/job/job.pb.h"
#include "client/job/source_map.h"

namespace pto::job {

// A job as it was written, and where each part of it stands.
struct JobFile {
  v1::Job job;
  SourceMap places;
};

// Reads a job file; the ending of its name tells the format: `.json`, or `.txtpb`,
// `.textproto`, `.pbtxt`. JOB_INVALID with file, line and what was expected.
absl::StatusOr<JobFile> LoadJobFile(const std::string& path);

// The same for text in memory.
absl::StatusOr<JobFile> ParseJob(const std::string& path, const std::string& text);

}  // namespace pto::job
