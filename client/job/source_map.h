#pragma once

#include <cstddef>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace pto::job {

// Where the parts of a job stand in its file, by path such as `buffers[2].shape[0]`.
class SourceMap {
 public:
  SourceMap() = default;
  explicit SourceMap(std::string file) : file_(std::move(file)) {}

  // Both count from 1.
  void Set(absl::string_view path, int line, int column);

  // `file:line:column` of the path, or of what it is part of; the file when nothing is known.
  std::string Where(absl::string_view path) const;

  // JOB_INVALID: where, what, and the path as the field.
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
