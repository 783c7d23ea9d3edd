#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "daemon/domain/domain_spec.h"
#include "daemon/domain/session_buffer.h"
#include "daemon/domain/session_memory.h"
#include "daemon/names/window_name.h"
#include "daemon/quota/quota.h"
#include "daemon/turn/run_turn.h"
#include "daemon/turn/stoppable.h"
#include "kernels/pto_kernel.h"
#include "runtime/base/mutex.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/run/completions.h"
#include "runtime/engine/signal/signal_word.h"

namespace pto::daemon {

// Chips that communicate: on each a window, in it buffers and signals. To runs and transfers its
// buffers are like others of the session; it keeps what they have in common.
//
// Runs that use its signals, and segments of open runs, take turns, so at any time at most one of
// them uses them. Such a use begins when its turn comes, or with a client's notification before;
// then all signals become zero. It ends with the run or segment, and what it left can be read until
// the next use. So no use ever sees a value of another. The same holds for the buffers that are to
// be zero before each run: a use sets those to zero that its tasks name, and leaves the others
// alone, as a notification does. Whose kernels get the whole windows (domain scalars) uses the
// signals and all buffers.
//
// Thread-safe; its lock is the last that anybody takes.
class Domain {
 public:
  // Sets the windows aside, zeroed: all or none. The chips must be the engine's. `name` is the
  // full one. `memory` is that of the session, if it has any.
  static absl::StatusOr<std::shared_ptr<Domain>> Create(std::string name, DomainSpec spec,
                                                        const WindowLayout& layout,
                                                        engine::Engine& engine,
                                                        const std::shared_ptr<SessionQuota>& quota,
                                                        SessionMemory* memory = nullptr);

  const std::string& name() const { return name_; }
  // No other domain of the process ever has the same, whatever its name. Never 0.
  uint64_t number() const { return number_; }
  absl::string_view id() const;
  // With the bytes that the windows have.
  const DomainSpec& spec() const { return spec_; }
  uint64_t device_bytes() const { return spec_.window_bytes * spec_.chips.size(); }
  // Why it is revoked; OK while it is not.
  absl::Status error() const;
  // Uses of the signals that have begun.
  uint64_t epoch() const;

  // A buffer or the signals of a rank. BUFFER_UNKNOWN when there is none.
  absl::StatusOr<std::shared_ptr<SessionBuffer>> Find(const names::Window& window) const;
  // The memory of the whole window of each rank; empty when it has been let go.
  std::vector<std::shared_ptr<engine::Allocation>> windows() const;
  // All buffers and signals of all ranks; empty likewise.
  std::vector<std::shared_ptr<SessionBuffer>> parts() const;
  // The rank of the chip; -1: it has none.
  int RankOf(uint32_t chip) const;
  // Whether uses of this part begin with zeros.
  bool BeginsZero(const names::Window& window) const;
  // The buffers of all ranks whose uses begin with zeros; empty when they have been let go.
  std::vector<std::shared_ptr<SessionBuffer>> zero_parts() const;
  // Puts the runs that use the signals, of whatever rank, in order. The session's lock guards it.
  const std::shared_ptr<BufferQueue>& signal_queue() const { return signal_queue_; }
  // Puts the runs that use all of it in order with those that use parts: these read it, the others
  // write it. Guarded as the other is.
  const std::shared_ptr<BufferQueue>& whole_queue() const { return whole_queue_; }

  // ---- runs and segments of open ones, known by their turns
  // From now on the domain keeps its memory for it, and its run is stopped when the domain is
  // revoked, whether its turn has come or not. Who looks at error() after this misses nothing.
  void Enter(const RunTurn* user, std::weak_ptr<Stoppable> run, bool uses_signals);
  // The turn has come. Nothing for one that has left. Sets `zeroed` to zero, parts of this domain
  // that the run uses, and takes as long as that does.
  void BeginUse(const RunTurn* user, absl::Span<const std::shared_ptr<SessionBuffer>> zeroed);
  // It leaves without having begun.
  void Forget(const RunTurn* user);

  // Runs that a revocation is to stop.
  struct Revoked {
    std::vector<std::shared_ptr<Stoppable>> runs;
    absl::Status error;
  };
  // The run has ended, as `run` tells. When it leaves its signals half way, the domain is revoked.
  Revoked Leave(const RunTurn* user, const engine::Run& run, absl::string_view run_name);
  // Stops the runs that a revocation is to stop.
  static void Stop(const Revoked& revoked, engine::Completions& completions);

  // ---- clients
  // The first reason stays.
  void Revoke(absl::string_view why);
  // Returns the value after the change or a later one. RANGE_OUT_OF_BOUNDS at `rank` or `signal`,
  // DOMAIN_REVOKED.
  absl::StatusOr<uint64_t> Notify(uint32_t rank, uint32_t signal, pto_notify_op op, int64_t value);
  // `count` of 0 means all from `first` on.
  absl::StatusOr<std::vector<uint64_t>> ReadSignals(uint32_t rank, uint32_t first,
                                                    uint32_t count) const;

  // ---- the session's kernel host
  // As HostAllocation::PrepareShare and ShareSome of a rank's window. The second needs the lock of
  // the session. BUFFER_IN_USE while a run, or a client's notification, uses a part of it.
  absl::Status PrepareShare(uint32_t rank, const std::shared_ptr<engine::SharingBudget>& budget);
  absl::StatusOr<bool> ShareSome(uint32_t rank) ABSL_NO_THREAD_SAFETY_ANALYSIS;
  // The memory of the rank's window; nullptr when it has been let go.
  std::shared_ptr<engine::Allocation> WindowOf(uint32_t rank) const;

  // It is no longer the session's: lets go of the memory as soon as no run uses it.
  void Close();

 private:
  // What lies on one chip.
  struct Rank {
    std::shared_ptr<engine::Allocation> window;
    std::vector<std::shared_ptr<SessionBuffer>> buffers;
    std::shared_ptr<SessionBuffer> signals;         // nullptr when there are none
    std::shared_ptr<engine::HostAllocation> words;  // the memory of `signals`
  };
  struct Use {
    std::weak_ptr<Stoppable> run;
    bool uses_signals = false;
    bool has_begun = false;
  };

  Domain(std::string name, DomainSpec spec, engine::Engine& engine);

  absl::Status CheckRank(uint32_t rank) const;
  engine::SignalWord Word(uint32_t rank, uint32_t signal) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Lets go of the memory of a domain that was closed and is not used any more.
  void ReleaseUnused() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Begins a use unless one has.
  void Refresh() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Revoked RevokeLocked(absl::Status error) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string name_;
  const uint64_t number_;
  const DomainSpec spec_;
  engine::Engine& engine_;
  const std::shared_ptr<BufferQueue> signal_queue_ = std::make_shared<BufferQueue>();
  const std::shared_ptr<BufferQueue> whole_queue_ = std::make_shared<BufferQueue>();
  absl::flat_hash_map<std::string, size_t> buffer_by_name_;

  mutable Mutex mutex_;
  std::vector<Rank> ranks_ ABSL_GUARDED_BY(mutex_);  // empty when it has been let go
  // Shows the windows to the session's kernel host.
  std::shared_ptr<void> shared_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<const RunTurn*, Use> uses_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  uint32_t notifying_ ABSL_GUARDED_BY(mutex_) = 0;  // notifications of clients that are under way
  // Whether the signals are left from a use that has ended, or there was none.
  bool used_ ABSL_GUARDED_BY(mutex_) = true;
  uint64_t epoch_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace pto::daemon
