#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "daemon/core/registered_graph.h"
#include "daemon/core/run_status.h"
#include "daemon/core/session_buffer.h"
#include "daemon/graph/digest.h"
#include "runtime/base/clock.h"
#include "runtime/base/mutex.h"
#include "runtime/engine/engine.h"

namespace pto {

class Session;

// A run as its session knows it: from its acceptance until it is forgotten. Writes the run's
// events and tells those who wait for its end. Thread-safe.
class RunEntry final : public RunObserver, public std::enable_shared_from_this<RunEntry> {
 public:
  // Called once with the final status, from any thread; must be quick.
  using Waiter = std::function<void(const RunStatus&)>;

  RunEntry(std::weak_ptr<Session> session, std::shared_ptr<const RunIdentity> identity,
           const Digest& digest, std::shared_ptr<RegisteredGraph> graph,
           std::vector<std::shared_ptr<SessionBuffer>> buffers, const Clock& clock);

  const RunIdentity& identity() const { return *identity_; }
  const std::shared_ptr<const RunIdentity>& shared_identity() const { return identity_; }
  // Of the request that made it; 0 when the server chose the id.
  const Digest& digest() const { return digest_; }

  // The run to watch. Once, before it is started.
  void Attach(std::shared_ptr<Run> run);

  RunStatus Status() const;
  bool ended() const;

  // The engine's run, or nullptr when it has ended.
  std::shared_ptr<Run> run() const;

  // Calls `waiter` when the run ends; at once, and returning 0, when it has.
  uint64_t AddWaiter(Waiter waiter);
  // Returns true when the waiter will never be called.
  bool RemoveWaiter(uint64_t id);

  // Moves the records of ended tasks to the session's event log.
  void Drain();

  void OnStarted(Run& run) override;
  void OnRecords(Run& run, size_t waiting) override;
  void OnFinished(Run& run) override;

 private:
  RunStatus StatusOf(const Run& run) const;
  void MoveRecords(Run& run);

  const std::weak_ptr<Session> session_;
  const std::shared_ptr<const RunIdentity> identity_;
  const Digest digest_;
  const std::shared_ptr<RegisteredGraph> graph_;  // nullptr for a submitted graph
  // Until the run has ended; then only OnFinished touches them, to let go.
  std::vector<std::shared_ptr<SessionBuffer>> buffers_;
  const Clock& clock_;

  // Held while records move from the run to the log, so that they keep their order.
  Mutex drain_mutex_;
  mutable Mutex mutex_;
  std::shared_ptr<Run> run_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const RunStatus> final_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_waiter_ ABSL_GUARDED_BY(mutex_) = 1;
  std::vector<std::pair<uint64_t, Waiter>> waiters_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace pto
