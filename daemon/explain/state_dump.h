#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/session/session.h"
#include "pto/v1/run.pb.h"
#include "runtime/base/clock.h"
#include "runtime/engine/snapshot/engine_now.h"
#include "runtime/host/host_keeper.h"

namespace pto::daemon {

// Writes dumps of the state: one JSON object per line. Keeps the newest files in `dumps` of the
// state directory. For one thread at a time.
class StateDump {
 public:
  static constexpr size_t kMaxFiles = 16;
  // Without a state directory, at most this many lines are logged.
  static constexpr size_t kMaxLogLines = 64;

  // If empty, dumps go to the log.
  explicit StateDump(std::string state_dir) : state_dir_(std::move(state_dir)) {}
  bool to_files() const { return !state_dir_.empty(); }

  // The lines that need no lock: one with the reason, then one per chip and per run.
  static std::vector<std::string> Lines(const std::string& why, const std::string& boot_id,
                                        absl::Time time, const engine::EngineNow& now,
                                        const std::vector<v1::ExplainRunResponse>& runs);
  static std::string SessionLine(Session& session, const Clock& clock);
  // The process that runs the uploaded kernels of a session.
  static std::string HostLine(const std::string& session, const host::HostStatus& host);
  // A run that had stalled, as it was then.
  static std::string StallLine(const v1::ExplainRunResponse& stalled);
  // A failed run.
  static std::string FailureLine(const v1::Run& run);
  // A chip that a session has leased or is about to.
  static std::string LeaseLine(uint32_t chip, const std::string& holder);

  // Returns the name of the file, or `log`.
  absl::StatusOr<std::string> Write(const std::vector<std::string>& lines, absl::Time time);
  // Appends to what Write has begun.
  void Append(const std::string& place, const std::vector<std::string>& lines) const;

 private:
  void RemoveOld(const std::string& directory) const;

  const std::string state_dir_;
  uint64_t next_ = 1;
};

}  // namespace pto::daemon
