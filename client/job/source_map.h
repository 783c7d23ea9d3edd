#pragma once

#include <cstddef>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace pto::job {

// Maps paths such as `buffers[2].shape[0]` to positions in a job file.
class SourceMap {
 public:
  SourceMap() = default;
  explicit SourceMap(std::string file) : file_(std::move(file)) {}

  // Both start at 1.
  void Set(absl::string_view path, int line, int column);

  // Returns `file:line:column` of the path or of its nearest known parent, or only the file name.
  std::string Where(absl::string_view path) const;

  // Creates a JOB_INVALID error with the position, the message and, as the field, the path.
  absl::Status Fault(absl::string_view path, absl::string_view message) const;

  const std::string& file() const { return file_; }

 private:
  struct Place {
    int line;
    int column;
  };
  std::string file_;
  absl::flat_hash_map<std::string, Place> places_;
};

}  // namespace pto::job
