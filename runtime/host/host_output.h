#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "runtime/base/mutex.h"

namespace pto::host {

// What a host prints: the daemon logs the lines, not too many of them, and remembers the end. For
// one thread, except MayLog.
class HostOutput {
 public:
  explicit HostOutput(std::string name) : name_(std::move(name)) {}

  // Reads from a pipe what is there, without waiting, but not for ever.
  void Read(int pipe, int64_t now_ns);
  // Whether a line of the host may be logged now. Thread-safe.
  bool MayLog(int64_t now_ns);
  // The last lines.
  std::string Tail() const;
  // For a new host.
  void Clear();

 private:
  static constexpr size_t kTailBytes = 512;
  static constexpr size_t kMostLine = 1024;
  static constexpr uint32_t kLinesPerSecond = 100;

  void LogLine(absl::string_view line, int64_t now_ns);

  const std::string name_;
  std::string tail_;
  std::string line_;  // the begin of one
  Mutex mutex_;
  int64_t second_ns_ ABSL_GUARDED_BY(mutex_) = 0;    // when the current second began
  uint32_t lines_ ABSL_GUARDED_BY(mutex_) = 0;       // in it
  uint64_t suppressed_ ABSL_GUARDED_BY(mutex_) = 0;  // that were not logged
};

}  // namespace pto::host
