// The part of a session that starts, finds and ends runs of compiled graphs.

#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/domain/domain_uses.h"
#include "daemon/journal/journal.h"
#include "daemon/journal/run_codec.h"
#include "daemon/kernels/session_kernels.h"
#include "daemon/session/session.h"
#include "daemon/session/session_hold.h"
#include "runtime/base/error.h"
#include "runtime/base/failpoint.h"
#include "runtime/base/status_macros.h"
#include "runtime/graph/overlap_check.h"
#include "runtime/graph/realias.h"
#include "runtime/graph/task_input.h"

namespace pto::daemon {
namespace {

// A graph whose last run took no longer than this is run by the thread that launches it, which
// costs less than waking another. No longer than twice that, should it turn out slower.
constexpr int64_t kShortRunNs = 50'000;

}  // namespace

absl::StatusOr<std::shared_ptr<RunEntry>> Session::FindForStartLocked(absl::string_view id,
                                                                      const Digest& digest) const {
  if (std::shared_ptr<RunEntry> entry = runs_.Find(id)) {
    const UsedKernels* const used = entry->kernels();
    const std::string changed = used == nullptr ? "" : kernels_->FindChanged(*used);
    if (entry->digest() == digest && changed.empty()) return entry;
    if (!changed.empty()) {
      return Error(reason::kIdConflict,
                   absl::StrCat("run '", id, "' exists and used another kernel '", changed,
                                "' than the one of this name now"))
          .At("run_id")
          .With("run", id)
          .With("kernel", changed);
    }
    return Error(reason::kIdConflict, absl::StrCat("run '", id, "' exists with other contents"))
        .At("run_id")
        .With("run", id);
  }
  if (options_.former != nullptr) {
    PTO_ASSIGN_OR_RETURN(std::shared_ptr<RunEntry> former,
                         options_.former->FindForStart(id, digest));
    if (former != nullptr) return former;
  }
  if (runs_.IsForgotten(id)) {
    return Error(reason::kRunIdUsed, absl::StrCat("a run '", id, "' has been executed already"))
        .At("run_id")
        .With("run", id);
  }
  return nullptr;
}

absl::StatusOr<std::shared_ptr<RunEntry>> Session::FindForStart(absl::string_view id,
                                                                const Digest& digest) const {
  MutexLock lock(mutex_);
  PTO_RETURN_IF_ERROR(CheckAlive());
  return FindForStartLocked(id, digest);
}

absl::StatusOr<std::shared_ptr<const BoundSlots>> Session::Bind(
    const engine::GraphImage& image, absl::Span<const SlotBinding> bindings,
    absl::Span<const engine::DomainUser> users) const {
  PTO_ASSIGN_OR_RETURN(std::shared_ptr<BoundSlots> slots,
                       BindSlots(image, bindings, buffers_, name(), &domains_, users));
  // Whoever names a domain has all of its parts, and a small graph may name many.
  constexpr uint64_t kSmall = 16 << 10;
  if (const uint64_t bytes = slots->bytes(); bytes > kSmall) {
    PTO_ASSIGN_OR_RETURN(slots->charge, HostCharge::Take(memory(), bytes, "the buffers of a run"));
  }
  return slots;
}

absl::StatusOr<std::shared_ptr<const BoundSlots>> Session::FindSlots(
    const RunRequest& request) const {
  // Buffers keep their ids, so what was found once stays right until one is removed.
  const bool own = request.graph != nullptr && request.bindings.empty();
  if (own && request.graph->own_slots != nullptr) return request.graph->own_slots;
  PTO_ASSIGN_OR_RETURN(
      std::shared_ptr<const BoundSlots> slots,
      Bind(*request.image, request.bindings,
           request.graph != nullptr ? request.graph->domain_users : request.domain_users));
  if (own && !request.graph->removed.load(std::memory_order_relaxed)) {
    request.graph->own_slots = slots;
  }
  return slots;
}

std::shared_ptr<const engine::GraphImage> Session::FindImage(const RunRequest& request,
                                                             const engine::SlotPlaces& aliases,
                                                             const AliasedImage& found) const {
  if (aliases.empty()) return request.image;
  if (request.graph != nullptr) {
    if (std::shared_ptr<const engine::GraphImage> known = request.graph->aliased.Find(aliases)) {
      return known;
    }
  }
  if (found.image == nullptr || found.places != aliases) return nullptr;
  if (request.graph != nullptr) KeepAliased(*request.graph, found);
  return found.image;
}

void Session::KeepAliased(RegisteredGraph& graph, AliasedImage found) const {
  if (found.image != graph.image) {
    HostCharge charge(memory());
    // Without room it is made again next time.
    if (!charge.TryResize(ImageBytes(*found.image))) return;
    found.charge = std::make_shared<const HostCharge>(std::move(charge));
  }
  graph.aliased.Add(std::move(found));
}

uint64_t Session::RunBytes(const RunRequest& request, const engine::GraphImage& image) {
  // Counters of a task, its place in queues, and its record until that is in the log.
  constexpr uint64_t kTask = 64;
  // Small ones are bounded by their number.
  constexpr uint64_t kSmall = 4096;
  const uint64_t tasks = kTask * image.task_count();
  const bool registered = request.graph != nullptr && request.graph->image.get() == &image;
  if (registered) return tasks <= kSmall ? 0 : tasks;
  return tasks + ImageBytes(image);
}

absl::Status Session::CheckAccepting() const {
  if (options_.gate != nullptr) PTO_RETURN_IF_ERROR(options_.gate->Check());
  // Runs that were stopped while they waited for others keep their place, and so count.
  const uint64_t active = limited_runs_.load(std::memory_order_acquire) + late_turns_;
  if (active < options_.limits->max_session_active_runs) return absl::OkStatus();
  return Error(reason::kRunLimit,
               absl::StrCat("a session has at most ", options_.limits->max_session_active_runs,
                            " runs at once"))
      .Limit("max_session_active_runs", options_.limits->max_session_active_runs, active, 1);
}

absl::StatusOr<std::shared_ptr<RunEntry>> Session::AddRun(RunRequest& request, AliasedImage* found,
                                                          std::shared_ptr<ImageRun>* is_new) {
  Charges charges;  // destroyed without the lock
  MutexLock lock(mutex_);
  PTO_RETURN_IF_ERROR(CheckAlive());
  if (!request.id.empty()) {
    PTO_ASSIGN_OR_RETURN(std::shared_ptr<RunEntry> before,
                         FindForStartLocked(request.id, request.digest));
    if (before != nullptr) return before;
  }
  PTO_RETURN_IF_ERROR(CheckAccepting());
  PTO_ASSIGN_OR_RETURN(std::shared_ptr<const BoundSlots> slots, FindSlots(request));
  if (slots->domains != nullptr) PTO_RETURN_IF_ERROR(slots->domains->CheckUsable());
  std::shared_ptr<const engine::GraphImage> image = FindImage(request, slots->aliases, *found);
  if (image == nullptr) {
    *found = {slots->aliases, nullptr};
    return nullptr;
  }
  PTO_RETURN_IF_ERROR(CheckChips(*image));
  if (const uint64_t bytes = RunBytes(request, *image); bytes > 0) {
    PTO_ASSIGN_OR_RETURN(charges.memory, HostCharge::Take(memory(), bytes, "a run"));
  }
  RunEntry::Options options = DescribeRun(request);
  if (request.graph != nullptr) options.record.graph = request.graph->name;
  options.record.aliased = image != request.image;
  options.record.tasks_total = image->task_count();
  options.digest = request.digest;
  if (!request.id.empty() && request.graph == nullptr) {
    options.kernels = kernels_->UsedBy(image->shared_kernels());
  }
  PTO_RETURN_IF_ERROR(ChargeRun(&options, &charges));
  std::shared_ptr<const RunAccesses> accesses = slots->accesses;
  *is_new = MakeRun(request, std::move(options), std::move(image), std::move(slots));
  RunTurn::Enter(*is_new, std::move(accesses));
  AddEntry(*is_new);
  return *is_new;
}

absl::StatusOr<std::shared_ptr<RunEntry>> Session::StartRun(RunRequest request,
                                                            engine::Completions& completions) {
  std::shared_ptr<ImageRun> entry;
  AliasedImage found;
  // Once, and without the lock.
  if (request.graph == nullptr) request.domain_users = engine::FindDomainUsers(*request.image);
  while (true) {
    PTO_ASSIGN_OR_RETURN(std::shared_ptr<RunEntry> any,
                         options_.quota->WithRoom([&] { return AddRun(request, &found, &entry); }));
    if (entry != nullptr) break;
    if (any != nullptr) return any;
    // Without the lock, as it can take as long as compiling the graph did. The lease does not end
    // meanwhile.
    const SessionHold hold(shared_from_this());
    PTO_RETURN_IF_ERROR(engine::CheckOverlaps(*request.image, found.places, request.cancelled));
    if (!request.image->finds_dependencies()) {
      found.image = request.image;
      continue;
    }
    PTO_ASSIGN_OR_RETURN(
        found.image, engine::Realias(*request.image, found.places,
                                     engine::GraphTarget().max_dependencies, request.cancelled));
  }
  const std::shared_ptr<engine::Run> run = entry->run();
  int64_t help_ns = 0;
  if (request.graph != nullptr) {
    request.graph->launch_count.fetch_add(1, std::memory_order_relaxed);
    const int64_t last = request.graph->last_run_ns.load(std::memory_order_relaxed);
    if (request.help && last != 0 && last <= kShortRunNs) help_ns = 2 * kShortRunNs;
  }
  (void)PTO_FAILPOINT("run.accept");
  options_.engine->Accept(run, completions);
  // Leases, faults of chips and revocations that come from now on see the run and wait for it or
  // stop it. Those that came since the run was added are seen here, before anything begins.
  absl::Status usable = CheckChips(run->image());
  if (usable.ok()) usable = entry->CheckDomains();
  if (!usable.ok()) {
    options_.engine->Stop(*run, engine::RunState::kFailed, std::move(usable), completions);
  }
  // A run that waits for others is begun by the thread that ends the last of them.
  const bool has_turn = entry->Arrive();
  const bool quiet = help_ns > 0 && has_turn;
  if (quiet) {
    entry->SetQuiet(true);
  } else {
    entry->Tell();
  }
  if (has_turn) {
    if (entry->begins_long()) {
      entry->BeginLater();
    } else {
      // A run that was stopped before does not use its domains: its end must not revoke them.
      if (!run->stop_requested()) entry->BeginUse();
      options_.engine->Begin(run, completions, help_ns);
    }
    entry->Begun(completions);
  }
  completions.Drain(engine::CompletionStep::kJournal);
  if (quiet) entry->SetQuiet(false);
  return entry;
}

RunEntry::Options Session::DescribeRun(RunTerms& terms) {
  RunEntry::Options options;
  options.owner = weak_from_this();
  options.number = runs_.NextNumber();
  options.record.session = name_;
  options.record.owner = owner_name_;
  if (terms.id.empty()) {
    RunTable::OwnId own = runs_.NextOwnId();
    // A client may have chosen an id of this form in a former boot.
    while (options_.former != nullptr && options_.former->Find(own.id) != nullptr) {
      own = runs_.NextOwnId();
    }
    options.own_number = own.number;
    options.record.id = std::move(own.id);
  } else {
    options.record.id = terms.id;
  }
  options.record.labels = std::move(terms.labels);
  options.record.create_time = options_.clock->WallTime();
  return options;
}

absl::Status Session::ChargeRun(RunEntry::Options* options, Charges* charges) {
  PTO_ASSIGN_OR_RETURN(charges->run, QuotaCharge::Take(options_.quota, Resource::kRuns, 1));
  // Tasks of an open run are held back by its budget instead, which counts them for the client.
  if (!options->record.open) {
    PTO_ASSIGN_OR_RETURN(charges->tasks, QuotaCharge::Take(options_.quota, Resource::kTasks,
                                                           options->record.tasks_total));
  }
  PTO_RETURN_IF_ERROR(JournalRun(options));
  options->run_charge = std::move(charges->run);
  options->task_charge = std::move(charges->tasks);
  options->memory_charge = std::move(charges->memory);
  options->memory = memory();
  return absl::OkStatus();
}

void Session::AddEntry(std::shared_ptr<RunEntry> entry) {
  if (options_.usage != nullptr) options_.usage->CountRun();
  runs_.Add(std::move(entry));
  active_runs_.fetch_add(1, std::memory_order_acq_rel);
  limited_runs_.fetch_add(1, std::memory_order_acq_rel);
}

absl::Status Session::JournalRun(RunEntry::Options* options) {
  if (options_.journal == nullptr) return absl::OkStatus();
  PTO_ASSIGN_OR_RETURN(options->journal_number,
                       options_.journal->AddRun(ToJournal(options->record, options->number,
                                                          options->own_number, options->digest)));
  options->journal = options_.journal;
  return absl::OkStatus();
}

std::shared_ptr<ImageRun> Session::MakeRun(RunRequest& request, RunEntry::Options&& options,
                                           std::shared_ptr<const engine::GraphImage> image,
                                           std::shared_ptr<const BoundSlots> slots) {
  for (const std::shared_ptr<SessionBuffer>& buffer : slots->buffers) {
    buffer->in_use.fetch_add(1, std::memory_order_acq_rel);
  }

  engine::RunSpec spec;
  spec.image = std::move(image);
  spec.slots = {slots, &slots->slots};
  spec.named_scalars = slots->NamedScalars(*spec.image, std::move(request.named_scalars));
  spec.record_level = request.record_level;
  spec.timeout_ns = request.timeout_ns;
  spec.queue_timeout_ns = request.queue_timeout_ns;
  spec.task_timeout_ns = request.task_timeout_ns;
  spec.wait_timeout_ns = request.wait_timeout_ns;
  spec.priority = request.priority;
  spec.account = account_;
  const std::shared_ptr<const DomainUses> domains = slots->domains;
  auto entry = std::make_shared<ImageRun>(
      std::move(options),
      ImageRun::Parts{request.graph, std::move(slots), domains, options_.engine});
  spec.observer = entry;
  const std::shared_ptr<engine::Run> run = options_.engine->Prepare(std::move(spec));
  if (domains != nullptr) domains->Enter(entry.get(), entry);
  entry->Attach(run);
  return entry;
}

absl::StatusOr<std::shared_ptr<RunEntry>> Session::FindRun(absl::string_view id) const {
  MutexLock lock(mutex_);
  PTO_RETURN_IF_ERROR(CheckAlive());
  if (std::shared_ptr<RunEntry> entry = runs_.Find(id)) return entry;
  if (options_.former != nullptr) {
    if (std::shared_ptr<RunEntry> entry = options_.former->Find(id)) return entry;
  }
  if (runs_.IsForgotten(id)) {
    return Error(reason::kRunExpired,
                 absl::StrCat("run '", id, "' ended and is no longer kept; the newest ",
                              options_.limits->max_session_finished_runs, " are"))
        .With("run", id)
        .With("session", name());
  }
  return Error(reason::kRunUnknown, absl::StrCat("there is no run '", id, "' in ", name()))
      .With("run", id)
      .With("session", name());
}

std::vector<std::shared_ptr<RunEntry>> Session::ListRuns(uint64_t before, size_t limit,
                                                         bool active_only) const {
  std::vector<std::shared_ptr<RunEntry>> runs;
  {
    MutexLock lock(mutex_);
    runs = runs_.List(before, limit, active_only);
  }
  if (options_.former != nullptr && !active_only) options_.former->List(before, limit, &runs);
  return runs;
}

void Session::StopRuns(engine::RunState as, const absl::Status& error) {
  std::vector<std::shared_ptr<RunEntry>> active;
  {
    MutexLock lock(mutex_);
    active = runs_.Active();
  }
  for (const std::shared_ptr<RunEntry>& entry : active) entry->Stop(as, error);
}

void Session::DrainRuns() {
  if (!has_active_runs()) return;
  std::vector<std::shared_ptr<RunEntry>> active;
  {
    MutexLock lock(mutex_);
    active = runs_.Active();
  }
  for (const std::shared_ptr<RunEntry>& entry : active) entry->Tell();
}

uint64_t Session::CountActiveRuns() const {
  MutexLock lock(mutex_);
  return active_runs_.load(std::memory_order_acquire);
}

void Session::ReleaseRun() { limited_runs_.fetch_sub(1, std::memory_order_acq_rel); }

void Session::OnRunEnded(RunEntry& entry, bool leave) {
  std::vector<std::unique_ptr<KeptGraph>> dropped;  // destroyed without the lock
  {
    MutexLock lock(mutex_);
    active_runs_.fetch_sub(1, std::memory_order_acq_rel);
    if (leave && !entry.Leave()) ++late_turns_;
    dropped = runs_.OnEnded(entry);
  }
  if (options_.failed != nullptr && entry.end_state() == engine::RunState::kFailed) {
    options_.failed->Add(entry.shared_from_this());
  }
  if (ended()) TellEnd();
}

void Session::LeaveTurn(RunEntry& entry) {
  MutexLock lock(mutex_);
  if (!entry.Leave()) ++late_turns_;
}

void Session::OnPassedLate(RunTurn& turn) {
  MutexLock lock(mutex_);
  --late_turns_;
  turn.Leave();
}

}  // namespace pto::daemon
