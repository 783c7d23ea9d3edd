#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "daemon/chip/chip_leases.h"
#include "daemon/domain/domain_table.h"
#include "daemon/domain/session_buffer.h"
#include "daemon/events/event_log.h"
#include "daemon/journal/run_ids.h"
#include "daemon/model/limits.h"
#include "daemon/names/digest.h"
#include "daemon/quota/memory_budget.h"
#include "daemon/quota/quota.h"
#include "daemon/quota/task_budget.h"
#include "daemon/run/failed_runs.h"
#include "daemon/run/former_runs.h"
#include "daemon/run/image_run.h"
#include "daemon/run/registered_graph.h"
#include "daemon/run/run_entry.h"
#include "daemon/run/run_owner.h"
#include "daemon/run/run_table.h"
#include "daemon/run/slot_binder.h"
#include "daemon/run/streamed_run.h"
#include "daemon/session/drain_gate.h"
#include "runtime/base/memory_account.h"
#include "runtime/base/mutex.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/run/account.h"
#include "runtime/engine/run/completions.h"
#include "runtime/graph/domain_scalars.h"
#include "runtime/graph/task_input.h"
#include "runtime/graph/work_budget.h"

namespace pto::daemon {

class KernelHosts;
class SessionKernels;

struct BufferRequest {
  std::string id;
  uint32_t chip = 0;
  uint64_t bytes = 0;
};

// How to do a run, whatever its tasks.
struct RunTerms {
  std::string id;  // empty lets the session choose
  Labels labels;
  engine::RecordLevel record_level = engine::RecordLevel::kAll;
  // As in RunSpec.
  int64_t timeout_ns = 0;
  int64_t queue_timeout_ns = 0;
  int64_t task_timeout_ns = 0;
  int64_t wait_timeout_ns = 0;
  engine::Priority priority = engine::Priority::kNormal;
};

// A run of a compiled graph, to start.
struct RunRequest : RunTerms {
  Digest digest;  // of the request's content; matters only with an id
  std::shared_ptr<const engine::GraphImage> image;
  std::shared_ptr<RegisteredGraph> graph;  // nullptr for a submitted graph
  std::vector<SlotBinding> bindings;
  std::vector<uint64_t> named_scalars;  // empty means the image's own
  // Of the image, unless it is a graph's, which has them. StartRun finds them.
  std::vector<engine::DomainUser> domain_users;
  // Whether a short run may be done by the calling thread.
  bool help = false;
  // Whether nobody waits for the run to start any more, asked while its graph is compiled for
  // buffers that overlap. Only during StartRun.
  engine::WorkBudget::Cancelled cancelled = nullptr;
};

// One client's lease, and owner of all that it makes. Thread-safe.
class Session final : public RunOwner,
                      public MemoryHolder,
                      public std::enable_shared_from_this<Session> {
 public:
  struct Options {
    std::string id;
    Labels labels;
    Digest digest;
    uint32_t api_version = 1;
    absl::Duration ttl;
    // Its share of a chip that others want too, in proportion to theirs.
    uint32_t weight = 1;
    // Who knows this may map its buffers. Empty: nobody.
    std::string attach_key;
    const Limits* limits = nullptr;
    engine::Engine* engine = nullptr;
    // For the deadlines of open runs.
    TimerQueue* timers = nullptr;
    const Clock* clock = nullptr;
    // To tell of its runs; nullptr when nothing is to be remembered.
    Journal* journal = nullptr;
    // What a session of the same id has left in former boots; nullptr when there was none.
    std::shared_ptr<const FormerSession> former;
    // To tell of ids that must not be used again; nullptr when nobody remembers them.
    RunIds* run_ids = nullptr;
    // To tell of runs that have failed; nullptr when nobody wants to know.
    FailedRuns* failed = nullptr;
    // Closed when the node takes no new runs; nullptr when it always does.
    const DrainGate* gate = nullptr;
    // The name of the principal that it belongs to.
    std::string owner;
    // What its client calls itself: a label.
    std::string client;
    // What it may hold.
    std::shared_ptr<SessionQuota> quota;
    // What its runs and their core time count in; nullptr when nobody counts.
    std::shared_ptr<UsageCounter> usage;
    // The exclusive leases of chips; nullptr when there are none. Outlives the session's runs.
    ChipLeases* leases = nullptr;
    // Id of the session whose leased chips it may use; empty when there is none.
    std::string lease;
    // What its graphs are compiled for, but for the kernels that it has itself; nullptr: it
    // compiles none.
    const engine::GraphTarget* target = nullptr;
    // For kernels that its client uploads; nullptr: it cannot.
    KernelHosts* hosts = nullptr;
  };

  struct Usage {
    uint64_t buffers = 0;
    uint64_t device_bytes = 0;
    uint64_t graphs = 0;
    uint64_t active_runs = 0;
    uint64_t finished_runs = 0;
    uint64_t windows = 0;
    uint64_t tasks = 0;       // without those of open runs
    uint64_t open_tasks = 0;  // of open runs, which have come and not ended
  };

  explicit Session(Options options);
  ~Session() override;

  const std::string& id() const { return options_.id; }
  const std::string& name() const { return *name_; }
  const Options& options() const { return options_; }
  const std::string& owner() const { return options_.owner; }
  absl::Time create_time() const { return create_time_; }
  EventLog& log() override { return log_; }
  absl::Time WallTime() const override { return options_.clock->WallTime(); }
  Usage usage() const;
  // With the lock: see DrainGate.
  uint64_t CountActiveRuns() const;

  // ---- the lease
  // Extends it by its time to live from now.
  void Touch();
  // When it ends unless it is extended. While the session is held, as if that ended now.
  int64_t expire_ns() const;
  // While a call that names the session is open the session is held: it does not expire. The end of
  // a hold extends the lease. See SessionHold.
  void AddHold() override { holds_.fetch_add(1, std::memory_order_acq_rel); }
  void DropHold() override;
  bool held() const { return holds_.load(std::memory_order_acquire) > 0; }
  bool ended() const { return ended_.load(std::memory_order_acquire); }
  // Stops its runs and gives up all that it owns. Only the first call does anything. The log's
  // last event comes when all runs have ended.
  void End(absl::string_view why);

  // ---- memory
  // The client's account.
  const std::shared_ptr<MemoryAccount>& memory() const override { return options_.quota->memory(); }
  // As SessionQuota::WithRoom.
  template <typename Do>
  auto WithRoom(Do make) const {
    return options_.quota->WithRoom(std::move(make));
  }
  // Drops tasks of runs that have ended, oldest first, then old events.
  uint64_t Shed(uint64_t bytes) override;

  // ---- buffers
  // All or none.
  absl::StatusOr<std::vector<std::shared_ptr<SessionBuffer>>> CreateBuffers(
      absl::Span<const BufferRequest> requests);
  // Also one of a window, by its name without the session's.
  absl::StatusOr<std::shared_ptr<SessionBuffer>> FindBuffer(absl::string_view id) const;
  // In order of id, after `after`.
  std::vector<std::shared_ptr<SessionBuffer>> ListBuffers(absl::string_view after,
                                                          size_t limit) const;
  // Returns the buffer that is no longer the session's, or nullptr when there is none.
  std::shared_ptr<SessionBuffer> RemoveBuffer(absl::string_view id);

  // ---- buffers in memory that the client maps
  // Whether this is the session's key. Who owns the session was checked when it was found.
  bool Attach(absl::string_view key) const;
  // OK while the client may use what is in the buffer; as for a transfer else: SESSION_ENDED,
  // BUFFER_UNKNOWN, BUFFER_IN_USE.
  absl::Status CheckTransfer(const SessionBuffer& buffer) const;
  // One step of moving a buffer's memory to where a client can map it; short, and not while a run
  // uses it. Returns whether all has been moved. For one thread at a time. Errors: as
  // CheckTransfer; CHIP_MEMORY_EXHAUSTED.
  absl::StatusOr<bool> ShareSome(SessionBuffer& buffer,
                                 const std::shared_ptr<engine::SharingBudget>& budget);

  // ---- kernels
  // The built-in ones, and those that its client has uploaded.
  SessionKernels& kernels() { return *kernels_; }
  // What its graphs are compiled for.
  const engine::GraphTarget& target() const { return target_; }

  // ---- domains
  DomainTable& domains() { return domains_; }
  // As DomainTable::Remove, and no graph keeps its memory any more.
  std::shared_ptr<Domain> RemoveDomain(absl::string_view id);

  // ---- graphs
  // The graph of that id when there is one with the same digest, nullptr when there is none;
  // ID_CONFLICT when it is another, GRAPH_LIMIT when there is no room for one more.
  absl::StatusOr<std::shared_ptr<RegisteredGraph>> FindForRegister(absl::string_view id,
                                                                   const Digest& digest) const;
  absl::StatusOr<std::shared_ptr<RegisteredGraph>> AddGraph(
      absl::string_view id, const Digest& digest, std::shared_ptr<const engine::GraphImage> image);
  absl::StatusOr<std::shared_ptr<RegisteredGraph>> FindGraph(absl::string_view id) const;
  bool RemoveGraph(absl::string_view id);

  // ---- runs
  // Starts a run, or returns the one that the same request started before. Services call Admission,
  // which calls this; so with StartOpenRun.
  //
  // A run that has ended in here has done the first step of CompletionStep. The caller drains
  // `completions` for the others, and may answer its client before.
  absl::StatusOr<std::shared_ptr<RunEntry>> StartRun(RunRequest request,
                                                     engine::Completions& completions);
  absl::StatusOr<std::shared_ptr<RunEntry>> StartRun(RunRequest request) {
    engine::Completions completions;
    return StartRun(std::move(request), completions);
  }
  // The run that the same request started before, or nullptr; ID_CONFLICT or RUN_ID_USED when
  // the id is taken.
  absl::StatusOr<std::shared_ptr<RunEntry>> FindForStart(absl::string_view id,
                                                         const Digest& digest) const;
  absl::StatusOr<std::shared_ptr<RunEntry>> FindRun(absl::string_view id) const;
  // Newest first, those older than number `before` (0: from the newest).
  std::vector<std::shared_ptr<RunEntry>> ListRuns(uint64_t before, size_t limit,
                                                  bool active_only) const;
  // Stops all active runs.
  void StopRuns(engine::RunState as, const absl::Status& error);
  // Has all active runs tell the log what is new.
  void DrainRuns();
  bool has_active_runs() const { return active_runs_.load(std::memory_order_acquire) > 0; }
  void ReleaseRun() override;
  void OnRunEnded(RunEntry& entry, bool leave) override;
  void LeaveTurn(RunEntry& entry) override;
  void OnPassedLate(RunTurn& turn) override;

  // ---- open runs
  // Begins a run that has no tasks yet, under an id that was never used: RUN_ID_USED.
  absl::StatusOr<std::shared_ptr<StreamedRun>> StartOpenRun(RunTerms terms);
  absl::StatusOr<std::shared_ptr<const BoundSlots>> EnterSegment(
      const engine::GraphImage& image, const std::shared_ptr<SegmentTurn>& turn,
      const std::shared_ptr<Stoppable>& run) override;
  void LeaveSegment(SegmentTurn& turn) override;

  // ---- chips
  absl::StatusOr<ChipLeases::Claim> ClaimChips(const engine::GraphImage& image) const override;
  absl::Status CheckChips(const engine::GraphImage& image) const override {
    if (options_.leases == nullptr) return absl::OkStatus();
    return options_.leases->Check(image.chips(), chip_user());
  }
  absl::Status CheckHealth(const engine::GraphImage& image) const override {
    if (options_.leases == nullptr) return absl::OkStatus();
    return options_.leases->CheckHealth(image.chips());
  }

 private:
  ChipLeases::User chip_user() const { return {options_.id, options_.lease, options_.owner}; }
  absl::Status CheckAlive() const;
  absl::StatusOr<std::shared_ptr<RegisteredGraph>> FindForRegisterLocked(absl::string_view id,
                                                                         const Digest& digest) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<std::shared_ptr<RunEntry>> FindForStartLocked(absl::string_view id,
                                                               const Digest& digest) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Binds the slots, and charges what that takes. MEMORY_BUDGET, and as BindSlots.
  absl::StatusOr<std::shared_ptr<const BoundSlots>> Bind(
      const engine::GraphImage& image, absl::Span<const SlotBinding> bindings,
      absl::Span<const engine::DomainUser> users) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<std::shared_ptr<const BoundSlots>> FindSlots(const RunRequest& request) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // That the session may have one more run: NODE_DRAINING, RUN_LIMIT.
  absl::Status CheckAccepting() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Writes the last event, once, when the session has ended and no run is left.
  void TellEnd();
  engine::DeviceMemory& MemoryOf(const BufferRequest& request) const;
  absl::StatusOr<std::vector<std::shared_ptr<SessionBuffer>>> TryCreateBuffers(
      absl::Span<const BufferRequest> requests);
  // Takes what those of the buffers need that are not there yet: BUFFER_LIMIT, QUOTA_MEMORY,
  // MEMORY_BUDGET.
  absl::StatusOr<MemoryCharge> ChargeBuffers(absl::Span<const BufferRequest> requests)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Moves all memory to files, and shows it to the session's kernel host. Waits a while for runs
  // that use it: BUFFER_IN_USE.
  absl::Status MoveMemory(const std::function<bool()>& give_up);
  // One step of moving a window, as ShareSome.
  absl::StatusOr<bool> ShareWindow(Domain& domain, uint32_t rank,
                                   const std::shared_ptr<engine::SharingBudget>& budget);
  // Registered graphs keep no buffer alive that the session has given up.
  void ForgetOwnSlots() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The image for slots that overlap like this, or nullptr when it is not known: it is not kept
  // and `found` is another.
  std::shared_ptr<const engine::GraphImage> FindImage(const RunRequest& request,
                                                      const engine::SlotPlaces& aliases,
                                                      const AliasedImage& found) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void KeepAliased(RegisteredGraph& graph, AliasedImage found) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // About what a run of the image takes until it has ended; 0 for a small launch.
  static uint64_t RunBytes(const RunRequest& request, const engine::GraphImage& image);
  // Adds a run that has not begun, or returns the one that the same request started before. When
  // it needs an image that is not known, it returns nullptr and says in `found` for which places.
  absl::StatusOr<std::shared_ptr<RunEntry>> AddRun(RunRequest& request, AliasedImage* found,
                                                   std::shared_ptr<ImageRun>* is_new);
  // Id, labels and the like.
  RunEntry::Options DescribeRun(RunTerms& terms) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What a run that is not accepted gives back. Without the lock, as that calls who waits for room.
  struct Charges {
    QuotaCharge run;
    QuotaCharge tasks;
    HostCharge memory;
  };
  // The last that can fail: takes the quotas, then has the journal remember the run. QUOTA_RUNS,
  // QUOTA_TASKS, JOURNAL_UNWRITABLE.
  absl::Status ChargeRun(RunEntry::Options* options, Charges* charges)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // From now on the run can be found and counts for the limit.
  void AddEntry(std::shared_ptr<RunEntry> entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The run is about to be accepted: it is remembered, or JOURNAL_UNWRITABLE.
  absl::Status JournalRun(RunEntry::Options* options) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::shared_ptr<ImageRun> MakeRun(RunRequest& request, RunEntry::Options&& options,
                                    std::shared_ptr<const engine::GraphImage> image,
                                    std::shared_ptr<const BoundSlots> slots)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  const std::shared_ptr<const std::string> name_;
  const std::shared_ptr<const std::string> owner_name_;
  const std::shared_ptr<engine::Account> account_;  // its share of the chips
  const std::shared_ptr<TaskBudget> open_tasks_;
  const absl::Time create_time_;
  EventLog log_;
  std::atomic<int64_t> expire_ns_{0};
  std::atomic<int32_t> holds_{0};
  std::atomic<bool> ended_{false};
  std::atomic<uint64_t> active_runs_{0};   // whose end has not been told
  std::atomic<uint64_t> limited_runs_{0};  // which have not ended: those that count for the limit

  const std::shared_ptr<SessionMemory> device_memory_;
  const std::unique_ptr<SessionKernels> kernels_;
  engine::GraphTarget target_;
  DomainTable domains_;

  mutable Mutex mutex_;
  BufferMap buffers_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, std::shared_ptr<RegisteredGraph>> graphs_
      ABSL_GUARDED_BY(mutex_);
  // Runs that have ended before their turn came.
  uint64_t late_turns_ ABSL_GUARDED_BY(mutex_) = 0;
  RunTable runs_ ABSL_GUARDED_BY(mutex_);
  std::string why_ended_ ABSL_GUARDED_BY(mutex_);
  bool end_told_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace pto::daemon
