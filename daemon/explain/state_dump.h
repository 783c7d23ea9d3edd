#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/session/session.h"
#include "pto/v1/run.pb.h"
#include "runtime/base/clock.h"
#include "runtime/engine/snapshot/engine_now.h"

namespace pto {

// Writes down how everything is: JSON objects, one on a line. Of files in the state directory's
// `dumps` the newest are kept. For one thread at a time.
class StateDump {
 public:
  static constexpr size_t kMaxFiles = 16;
  // Without a directory for files, at most this many lines are logged.
  static constexpr size_t kMaxLogLines = 64;

  // Empty: to the log.
  explicit StateDump(std::string state_dir) : state_dir_(std::move(state_dir)) {}
  bool to_files() const { return !state_dir_.empty(); }

  // What is known without a lock: a line that says why, one for each chip and for each run.
  static std::vector<std::string> Lines(const std::string& why, const std::string& boot_id,
                                        absl::Time time, const EngineNow& now,
                                        const std::vector<v1::ExplainRunResponse>& runs);
  static std::string SessionLine(Session& session, const Clock& clock);
  // Of a run that had stalled, as it was then.
  static std::string StallLine(const v1::ExplainRunResponse& stalled);
  // Of a run that has failed.
  static std::string FailureLine(const v1::Run& run);
  // Of a chip that a session has for itself, or is about to.
  static std::string LeaseLine(uint32_t chip, const std::string& holder);

  // Returns the name of the file, or `log`.
  absl::StatusOr<std::string> Write(const std::vector<std::string>& lines, absl::Time time);
  // Adds to what Write has begun.
  void Append(const std::string& place, const std::vector<std::string>& lines) const;

 private:
  void RemoveOld(const std::string& directory) const;

  const std::string state_dir_;
  uint64_t next_ = 1;
};

}  // namespace pto
