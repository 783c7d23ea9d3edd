#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "daemon/explain/progress.h"
#include "daemon/explain/serial_thread.h"
#include "daemon/explain/state_dump.h"
#include "daemon/node/node.h"
#include "daemon/run/failed_runs.h"
#include "pto/v1/run.pb.h"
#include "runtime/engine/snapshot/diagnosis.h"

namespace pto {

// Says why runs do not go on: to those who ask, and by itself when one has stood still for long.
//
// It looks at the engine from a thread of its own that takes none of the locks of the engine, the
// sessions or their logs, so that it answers whatever these are stuck in. What needs such locks,
// and may then wait with them, is left to a second thread: to look for runs that the engine does
// not have, to tell the event log, to write files. Thread-safe; the node outlives it.
class Explainer {
 public:
  struct Options {
    // The time without progress after which a run counts as stalled; zero: never.
    absl::Duration stall_after = absl::Seconds(30);
    // Where dumps go; empty: to the log.
    std::string state_dir;
  };
  using Done = std::function<void(absl::StatusOr<v1::ExplainRunResponse>)>;

  Explainer(Node& node, Options options);
  ~Explainer();
  Explainer(const Explainer&) = delete;
  Explainer& operator=(const Explainer&) = delete;

  // Calls `done` once, from another thread. `session` and `id` are those of the run.
  void Explain(std::string session, std::string id, size_t max_tasks, Done done);
  // Writes down how everything is, soon.
  void Dump(std::string why);
  // Answers what was asked so far, tells what no dump has told yet, and refuses everything from now
  // on.
  void Stop();

 private:
  // ---- on the thread that takes no locks
  std::chrono::nanoseconds Tick();
  EngineNow Look();
  // Which of the runs belong together, by name.
  static std::vector<std::vector<size_t>> Parts(const EngineNow& now);
  v1::ExplainRunResponse Describe(const EngineNow& now, const Diagnosis& diagnosis,
                                  const std::vector<size_t>& parts, size_t max_tasks) const;
  bool ExplainLive(const std::string& name, size_t max_tasks, v1::ExplainRunResponse* response);
  // Whether there are stalls or failures that no dump has reported.
  bool HasNews() const { return stalls_ > 0 || node_.failed_runs().count() > 0; }
  // Reports all news. `asked` names the requester; empty for an unsolicited dump.
  void WriteDump(const std::string& asked, const EngineNow& now, const Diagnosis& diagnosis);
  void DumpNews();
  void ReportStalls(const EngineNow& now, const Diagnosis& diagnosis);
  int64_t stall_ns() const;

  // ---- on the other one
  absl::StatusOr<v1::ExplainRunResponse> ExplainIdle(const std::string& session,
                                                     const std::string& id) const;
  void TellStall(const v1::ExplainRunResponse& stalled) const;
  // Lines of a dump of what has to be asked for with locks.
  static std::vector<std::string> FailureLines(const FailedRuns::News& failed);
  std::vector<std::string> HolderLines() const;

  Node& node_;
  const Options options_;
  StateDump dump_;
  Progress progress_;
  // Of which no dump has told yet, and lines for the first of them.
  uint64_t stalls_ = 0;
  std::vector<std::string> stall_lines_;
  int64_t next_dump_ns_ = 0;  // earliest time of the next unsolicited dump
  // In this order: the first one gives work to the second.
  std::unique_ptr<SerialThread> reports_;
  std::unique_ptr<SerialThread> explains_;
};

}  // namespace pto
