#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "daemon/domain/domain_uses.h"
#include "daemon/domain/session_buffer.h"
#include "daemon/run/registered_graph.h"
#include "daemon/run/run_entry.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/run/completions.h"

namespace pto::daemon {

// The run of a graph that was compiled before: submitted or launched. Thread-safe.
class ImageRun final : public RunEntry, public engine::RunObserver {
 public:
  struct Parts {
    std::shared_ptr<RegisteredGraph> graph;  // nullptr for a submitted graph
    std::shared_ptr<const BoundSlots> slots;
    std::shared_ptr<const DomainUses> domains;  // nullptr when it uses none
    engine::Engine* engine = nullptr;
  };

  ImageRun(Options&& options, Parts&& parts);

  // The run to watch. Once, before it is started.
  void Attach(std::shared_ptr<engine::Run> run);

  // Its turn has come, and it begins next.
  void BeginUse() const {
    if (parts_.domains != nullptr) parts_.domains->BeginUse(this);
  }
  // Whether BeginUse may take long. Then BeginLater has another thread do that, and begins the run.
  bool begins_long() const { return parts_.domains != nullptr && parts_.domains->begins_long(); }
  void BeginLater();
  // Why a domain that it uses cannot be used any more; OK while all can.
  absl::Status CheckDomains() const {
    return parts_.domains == nullptr ? absl::OkStatus() : parts_.domains->CheckUsable();
  }

  // While it is quiet, the run tells nothing before its end. For a run that the calling thread
  // works on itself: it mostly ends soon, and then all events are appended together. When it is
  // quiet no more, a run that has not ended tells what is new.
  void SetQuiet(bool quiet);

  RunStatus Status() const override;
  using Stoppable::Stop;
  void Stop(engine::RunState as, const absl::Status& error,
            engine::Completions& completions) override;
  void Tell() override;
  void TellStall(RunStall stall, absl::Time time) override;
  // Of one that has ended and was launched as it was registered the graph has them.
  GraphParts graph_parts() const override;

  // The engine's run, or nullptr some time after its end.
  std::shared_ptr<engine::Run> run() const;

  std::string name() const override { return record().name(); }
  uint64_t order_number() const override { return number(); }
  uint64_t goes_after(size_t i) const override { return shown_before(i); }
  void OnStarted(engine::Run& run) override;
  void OnRecords(engine::Run& run, size_t waiting) override;
  void RecordEnd(engine::Run& run) override;
  void TellEnd(engine::Run& run) override;
  void AnswerEnd(engine::Run& run) override;
  void OnFinished(engine::Run& run, engine::Completions& completions) override;

 protected:
  void OnTurn(engine::Completions& completions) override;
  void OnPassedLate() override;

 private:
  // Adds what is to be told next.
  void CollectNews(engine::Run& run, std::vector<LogEntry>* news)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(tell_mutex_);
  // With `last` after it, if any.
  void TellNews(engine::Run& run, absl::optional<LogEntry> last = absl::nullopt);
  absl::Time TimeOf(const engine::Run& run, int64_t ns) const {
    return record().create_time + absl::Nanoseconds(ns - run.accepted_ns());
  }

  Parts parts_;
  std::atomic<bool> quiet_{false};

  // Held while news goes to the log, so that it keeps its order.
  Mutex tell_mutex_;
  bool told_queued_ ABSL_GUARDED_BY(tell_mutex_) = false;
  bool told_started_ ABSL_GUARDED_BY(tell_mutex_) = false;

  std::shared_ptr<engine::Run> run_ ABSL_GUARDED_BY(mutex_);

  // ---- from one step of its end to the next
  // Nobody else has its image when it has ended, and all its tasks have events.
  bool keeps_image_ = false;
  // Calls wait for its end. It keeps its place among the runs until they are answered: else a run
  // that is launched meanwhile could be answered first.
  bool answers_ = false;
  DomainUses::Revoked revoked_;
};

}  // namespace pto::daemon
