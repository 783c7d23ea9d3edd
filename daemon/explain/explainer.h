#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "daemon/auth/principal.h"
#include "daemon/explain/progress.h"
#include "daemon/explain/serial_thread.h"
#include "daemon/explain/state_dump.h"
#include "daemon/node/node.h"
#include "daemon/run/failed_runs.h"
#include "pto/v1/run.pb.h"
#include "runtime/engine/snapshot/diagnosis.h"

namespace pto::daemon {

// Explains why runs do not progress: on request, and unsolicited if a run has stalled for long.
//
// Its own thread takes snapshots of the engine without taking any lock of the engine, the sessions
// or their logs, so that it answers even if these are stuck. A second thread does the work that
// needs such locks and may get stuck, too: finding runs that the engine does not have, writing to
// the event log, writing files. Thread-safe; the node outlives it.
class Explainer {
 public:
  struct Options {
    // The time without progress after which a run counts as stalled; zero: never.
    absl::Duration stall_after = absl::Seconds(30);
    // The directory for dumps; empty: dumps go to the log.
    std::string state_dir;
  };
  using Done = std::function<void(absl::StatusOr<v1::ExplainRunResponse>)>;

  Explainer(Node& node, Options options);
  ~Explainer();
  Explainer(const Explainer&) = delete;
  Explainer& operator=(const Explainer&) = delete;

  // Calls `done` once, from another thread. `session` and `id` identify the run, which is not there
  // for a caller who may not look at it.
  void Explain(auth::Caller caller, std::string session, std::string id, size_t max_tasks,
               Done done);
  // Soon writes a dump of the whole state.
  void Dump(std::string why);
  // Answers all pending requests, reports what no dump has reported yet, and refuses everything
  // from now on.
  void Stop();

 private:
  // ---- on the lock-free thread
  std::chrono::nanoseconds Tick();
  engine::EngineNow Look();
  // Groups the parts of runs by name.
  static std::vector<std::vector<size_t>> Parts(const engine::EngineNow& now);
  v1::ExplainRunResponse Describe(const engine::EngineNow& now, const engine::Diagnosis& diagnosis,
                                  const std::vector<size_t>& parts, size_t max_tasks,
                                  const auth::Principal* viewer) const;
  bool ExplainLive(const auth::Principal& caller, const std::string& name, size_t max_tasks,
                   v1::ExplainRunResponse* response);
  // Whether there are stalls or failures that no dump has reported.
  bool HasNews() const { return stalls_ > 0 || node_.failed_runs().count() > 0; }
  // Reports all news. `asked` names the requester; empty for an unsolicited dump.
  void WriteDump(const std::string& asked, const engine::EngineNow& now,
                 const engine::Diagnosis& diagnosis);
  void DumpNews();
  void ReportStalls(const engine::EngineNow& now, const engine::Diagnosis& diagnosis);
  int64_t stall_ns() const;

  // ---- on the other thread
  absl::StatusOr<v1::ExplainRunResponse> ExplainIdle(const auth::Principal& caller,
                                                     const std::string& session,
                                                     const std::string& id) const;
  void TellStall(const v1::ExplainRunResponse& stalled) const;
  // The lines of a dump that need locks.
  static std::vector<std::string> FailureLines(const FailedRuns::News& failed);
  std::vector<std::string> HolderLines() const;

  Node& node_;
  const Options options_;
  StateDump dump_;
  Progress progress_;
  // Stalls that no dump has reported yet, and lines for the first of them.
  uint64_t stalls_ = 0;
  std::vector<std::string> stall_lines_;
  int64_t next_dump_ns_ = 0;  // earliest time of the next unsolicited dump
  // In this order: the first thread gives work to the second.
  std::unique_ptr<SerialThread> reports_;
  std::unique_ptr<SerialThread> explains_;
};

}  // namespace pto::daemon
