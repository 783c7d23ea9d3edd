#include "daemon/core/session.h"

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "daemon/core/domain_uses.h"
#include "daemon/graph/names.h"
#include "daemon/graph/window_name.h"
#include "daemon/journal/journal.h"
#include "daemon/journal/run_codec.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"
#include "runtime/graph/realias.h"
#include "runtime/graph/task_input.h"

namespace pto {
namespace {

// A graph whose last run took no longer than this is run by the thread that launches it, which
// costs less than waking another. No longer than twice that, should it turn out slower.
constexpr int64_t kShortRunNs = 50'000;

}  // namespace

Session::Session(Options options)
    : options_(std::move(options)),
      name_(std::make_shared<const std::string>(names::Session(options_.id))),
      account_(std::make_shared<Account>(*name_, options_.weight)),
      open_tasks_(std::make_shared<TaskBudget>(options_.limits->max_session_live_tasks)),
      create_time_(options_.clock->WallTime()),
      log_(options_.limits->event_log_bytes),
      domains_(*name_, options_.limits->max_buffer_bytes, *options_.engine, options_.quota),
      runs_(options_.limits->max_session_finished_runs) {
  if (options_.former != nullptr) {
    MutexLock lock(mutex_);
    runs_.StartAfter(options_.former->last_number(), options_.former->last_own_number());
  }
  Touch();
}

Session::Usage Session::usage() const {
  MutexLock lock(mutex_);
  Usage usage;
  usage.buffers = buffers_.size();
  for (const auto& [id, buffer] : buffers_) usage.device_bytes += buffer->memory->bytes();
  usage.device_bytes += domains_.device_bytes();
  usage.graphs = graphs_.size();
  usage.active_runs = active_runs_.load(std::memory_order_relaxed);
  usage.finished_runs = runs_.ended();
  usage.windows = options_.quota->used(Resource::kWindows);
  usage.tasks = options_.quota->used(Resource::kTasks);
  return usage;
}

void Session::Touch() {
  expire_ns_.store(options_.clock->NowNanos() + absl::ToInt64Nanoseconds(options_.ttl),
                   std::memory_order_release);
}

void Session::DropHold() {
  Touch();
  holds_.fetch_sub(1, std::memory_order_acq_rel);
}

void Session::End(absl::string_view why) {
  BufferMap buffers;
  absl::flat_hash_map<std::string, std::shared_ptr<RegisteredGraph>> graphs;
  std::vector<std::shared_ptr<RunEntry>> runs;
  {
    MutexLock lock(mutex_);
    if (ended_.exchange(true, std::memory_order_acq_rel)) return;
    why_ended_ = std::string(why);
    ForgetOwnSlots();
    buffers.swap(buffers_);
    graphs.swap(graphs_);
    runs = runs_.Active();
  }
  for (const auto& [id, buffer] : buffers) buffer->removed.store(true, std::memory_order_release);
  domains_.Close();
  const absl::Status error =
      Error(reason::kRunCancelled, absl::StrCat("session ", name(), " ", why))
          .With("session", name())
          .With("by", "session end");
  for (const std::shared_ptr<RunEntry>& entry : runs) entry->Stop(RunState::kCancelled, error);
  TellEnd();
}

void Session::TellEnd() {
  std::string why;
  {
    MutexLock lock(mutex_);
    if (!ended() || end_told_ || active_runs_.load(std::memory_order_acquire) > 0) return;
    end_told_ = true;
    why = why_ended_;
  }
  log_.AppendSessionEnded(std::move(why), options_.clock->WallTime());
}

absl::Status Session::CheckAlive() const {
  if (!ended()) return absl::OkStatus();
  return Error(reason::kSessionEnded, absl::StrCat("session ", name(), " has ended"))
      .With("session", name());
}

// ---- buffers

absl::StatusOr<std::vector<std::shared_ptr<SessionBuffer>>> Session::CreateBuffers(
    absl::Span<const BufferRequest> requests) {
  MutexLock lock(mutex_);
  PTO_RETURN_IF_ERROR(CheckAlive());
  std::vector<std::shared_ptr<SessionBuffer>> result;
  std::vector<std::string> made;
  // Undone unless everything goes well.
  absl::Cleanup undo = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    for (const std::string& id : made) buffers_.erase(id);
  };
  for (size_t i = 0; i < requests.size(); ++i) {
    const BufferRequest& request = requests[i];
    auto it = buffers_.find(request.id);
    if (it != buffers_.end()) {
      const MemoryBlock& memory = *it->second->memory;
      if (memory.chip() != request.chip || memory.bytes() != request.bytes) {
        return Error(reason::kIdConflict,
                     absl::StrCat("buffer '", request.id, "' exists with ", memory.bytes(),
                                  " bytes on ", names::Chip(memory.chip())))
            .At(absl::StrCat("buffers[", i, "].buffer_id"))
            .With("buffer", request.id);
      }
      result.push_back(it->second);
      continue;
    }
    if (buffers_.size() >= options_.limits->max_session_buffers) {
      return Error(reason::kBufferLimit,
                   absl::StrCat("a session has at most ", options_.limits->max_session_buffers,
                                " buffers"))
          .Limit("max_session_buffers", options_.limits->max_session_buffers, buffers_.size(), 1);
    }
    absl::StatusOr<std::shared_ptr<MemoryBlock>> memory = AllocateCharged(
        *options_.engine->chips()[request.chip].memory, request.bytes, options_.quota);
    if (!memory.ok()) {
      return PrefixField(memory.status(), absl::StrCat("buffers[", i, "].bytes"));
    }
    auto buffer = std::make_shared<SessionBuffer>();
    buffer->id = request.id;
    buffer->memory = *std::move(memory);
    buffers_.emplace(request.id, buffer);
    made.push_back(request.id);
    result.push_back(std::move(buffer));
  }
  std::move(undo).Cancel();
  return result;
}

absl::StatusOr<std::shared_ptr<SessionBuffer>> Session::FindBuffer(absl::string_view id) const {
  MutexLock lock(mutex_);
  PTO_RETURN_IF_ERROR(CheckAlive());
  if (names::IsWindow(id)) {
    PTO_ASSIGN_OR_RETURN(const names::Window window, names::ParseWindow(id, "name"));
    PTO_ASSIGN_OR_RETURN(const std::shared_ptr<Domain> domain, domains_.Find(window.domain));
    return domain->Find(window);
  }
  auto it = buffers_.find(std::string(id));
  if (it == buffers_.end()) {
    return Error(reason::kBufferUnknown, absl::StrCat("there is no buffer '", id, "' in ", name()))
        .With("buffer", id)
        .With("session", name());
  }
  return it->second;
}

std::vector<std::shared_ptr<SessionBuffer>> Session::ListBuffers(absl::string_view after,
                                                                 size_t limit) const {
  MutexLock lock(mutex_);
  std::vector<std::shared_ptr<SessionBuffer>> result;
  for (auto it = buffers_.upper_bound(std::string(after));
       it != buffers_.end() && result.size() < limit; ++it) {
    result.push_back(it->second);
  }
  return result;
}

std::shared_ptr<SessionBuffer> Session::RemoveBuffer(absl::string_view id) {
  MutexLock lock(mutex_);
  auto it = buffers_.find(std::string(id));
  if (it == buffers_.end()) return nullptr;
  std::shared_ptr<SessionBuffer> removed = std::move(it->second);
  buffers_.erase(it);
  removed->removed.store(true, std::memory_order_release);
  ForgetOwnSlots();
  return removed;
}

std::shared_ptr<Domain> Session::RemoveDomain(absl::string_view id) {
  MutexLock lock(mutex_);
  ForgetOwnSlots();
  return domains_.Remove(id);
}

// ---- graphs

absl::StatusOr<std::shared_ptr<RegisteredGraph>> Session::FindForRegister(
    absl::string_view id, const Digest& digest) const {
  MutexLock lock(mutex_);
  return FindForRegisterLocked(id, digest);
}

absl::StatusOr<std::shared_ptr<RegisteredGraph>> Session::FindForRegisterLocked(
    absl::string_view id, const Digest& digest) const {
  PTO_RETURN_IF_ERROR(CheckAlive());
  auto it = graphs_.find(std::string(id));
  if (it == graphs_.end()) {
    if (graphs_.size() < options_.limits->max_session_graphs) return nullptr;
    return Error(reason::kGraphLimit, absl::StrCat("a session has at most ",
                                                   options_.limits->max_session_graphs, " graphs"))
        .Limit("max_session_graphs", options_.limits->max_session_graphs, graphs_.size(), 1);
  }
  if (it->second->digest != digest) {
    return Error(reason::kIdConflict, absl::StrCat("graph '", id, "' exists with other contents"))
        .At("graph_id")
        .With("graph", id);
  }
  return it->second;
}

absl::StatusOr<std::shared_ptr<RegisteredGraph>> Session::AddGraph(
    absl::string_view id, const Digest& digest, std::shared_ptr<const GraphImage> image) {
  auto graph = std::make_shared<RegisteredGraph>();
  graph->id = std::string(id);
  graph->name = std::make_shared<const std::string>(names::ChildName(options_.id, "graphs", id));
  graph->digest = digest;
  graph->image = std::move(image);
  graph->create_time = options_.clock->WallTime();
  MutexLock lock(mutex_);
  // The same request may have come twice and been compiled twice; the first one stays.
  PTO_ASSIGN_OR_RETURN(std::shared_ptr<RegisteredGraph> existing,
                       FindForRegisterLocked(id, digest));
  if (existing != nullptr) return existing;
  graphs_.emplace(graph->id, graph);
  return graph;
}

absl::StatusOr<std::shared_ptr<RegisteredGraph>> Session::FindGraph(absl::string_view id) const {
  MutexLock lock(mutex_);
  PTO_RETURN_IF_ERROR(CheckAlive());
  auto it = graphs_.find(std::string(id));
  if (it == graphs_.end()) {
    return Error(reason::kGraphUnknown, absl::StrCat("there is no graph '", id, "' in ", name()))
        .With("graph", id)
        .With("session", name());
  }
  return it->second;
}

bool Session::RemoveGraph(absl::string_view id) {
  MutexLock lock(mutex_);
  auto it = graphs_.find(std::string(id));
  if (it == graphs_.end()) return false;
  it->second->removed.store(true, std::memory_order_release);
  it->second->own_slots.reset();
  graphs_.erase(it);
  return true;
}

void Session::ForgetOwnSlots() {
  for (const auto& [id, graph] : graphs_) graph->own_slots.reset();
}

// ---- runs

absl::StatusOr<std::shared_ptr<RunEntry>> Session::FindForStartLocked(absl::string_view id,
                                                                      const Digest& digest) const {
  if (std::shared_ptr<RunEntry> entry = runs_.Find(id)) {
    if (entry->digest() == digest) return entry;
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

absl::StatusOr<std::shared_ptr<const BoundSlots>> Session::FindSlots(
    const RunRequest& request) const {
  // Buffers keep their ids, so what was found once stays right until one is removed.
  const bool own = request.graph != nullptr && request.bindings.empty();
  if (own && request.graph->own_slots != nullptr) return request.graph->own_slots;
  PTO_ASSIGN_OR_RETURN(std::shared_ptr<const BoundSlots> slots,
                       BindSlots(*request.image, request.bindings, buffers_, name(), &domains_));
  if (own && !request.graph->removed.load(std::memory_order_relaxed)) {
    request.graph->own_slots = slots;
  }
  return slots;
}

std::shared_ptr<const GraphImage> Session::FindImage(const RunRequest& request,
                                                     const SlotPlaces& aliases,
                                                     const AliasedImage& found) {
  if (aliases.empty()) return request.image;
  if (request.graph != nullptr) {
    if (std::shared_ptr<const GraphImage> known = request.graph->aliased.Find(aliases)) {
      return known;
    }
  }
  if (found.image == nullptr || found.places != aliases) return nullptr;
  if (request.graph != nullptr) request.graph->aliased.Add(found);
  return found.image;
}

absl::Status Session::CheckRunLimit() const {
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
  MutexLock lock(mutex_);
  PTO_RETURN_IF_ERROR(CheckAlive());
  if (!request.id.empty()) {
    PTO_ASSIGN_OR_RETURN(std::shared_ptr<RunEntry> before,
                         FindForStartLocked(request.id, request.digest));
    if (before != nullptr) return before;
  }
  PTO_RETURN_IF_ERROR(CheckRunLimit());
  PTO_ASSIGN_OR_RETURN(std::shared_ptr<const BoundSlots> slots, FindSlots(request));
  if (slots->domains != nullptr) PTO_RETURN_IF_ERROR(slots->domains->CheckUsable());
  std::shared_ptr<const GraphImage> image = FindImage(request, slots->aliases, *found);
  if (image == nullptr) {
    *found = {slots->aliases, nullptr};
    return nullptr;
  }
  PTO_RETURN_IF_ERROR(CheckLeases(*image));
  RunEntry::Options options = DescribeRun(request);
  if (request.graph != nullptr) options.record.graph = request.graph->name;
  options.record.tasks_total = image->task_count();
  options.digest = request.digest;
  PTO_ASSIGN_OR_RETURN(QuotaCharge run_charge,
                       QuotaCharge::Take(options_.quota, Resource::kRuns, 1));
  PTO_ASSIGN_OR_RETURN(QuotaCharge task_charge, QuotaCharge::Take(options_.quota, Resource::kTasks,
                                                                  options.record.tasks_total));
  PTO_RETURN_IF_ERROR(JournalRun(&options));
  options.run_charge = std::move(run_charge);
  options.task_charge = std::move(task_charge);
  std::shared_ptr<const RunAccesses> accesses = slots->accesses;
  *is_new = MakeRun(request, std::move(options), std::move(image), std::move(slots));
  RunTurn::Enter(*is_new, std::move(accesses));
  runs_.Add(*is_new);
  active_runs_.fetch_add(1, std::memory_order_acq_rel);
  limited_runs_.fetch_add(1, std::memory_order_acq_rel);
  return *is_new;
}

absl::StatusOr<std::shared_ptr<RunEntry>> Session::StartRun(RunRequest request) {
  std::shared_ptr<ImageRun> entry;
  AliasedImage found;
  while (true) {
    PTO_ASSIGN_OR_RETURN(std::shared_ptr<RunEntry> any, AddRun(request, &found, &entry));
    if (entry != nullptr) break;
    if (any != nullptr) return any;
    // Without the lock, as it can take as long as compiling the graph did.
    PTO_ASSIGN_OR_RETURN(found.image,
                         Realias(*request.image, found.places, GraphTarget().max_dependencies));
  }
  const std::shared_ptr<Run> run = entry->run();
  int64_t help_ns = 0;
  if (request.graph != nullptr) {
    request.graph->launch_count.fetch_add(1, std::memory_order_relaxed);
    const int64_t last = request.graph->last_run_ns.load(std::memory_order_relaxed);
    if (request.help && last != 0 && last <= kShortRunNs) help_ns = 2 * kShortRunNs;
  }
  options_.engine->Accept(run);
  // One that waits for others is begun by whoever ends the last of them.
  const bool has_turn = entry->Arrive();
  if (help_ns > 0 && has_turn) {
    entry->HoldNews();
  } else {
    entry->Tell();
  }
  if (has_turn) {
    entry->BeginUse();
    options_.engine->Begin(run, help_ns);
    entry->Begun();
  }
  if (!request.holds_news || !entry->ended()) entry->ReleaseNews();
  // The session may have ended between the registration of the run and its start.
  if (ended()) options_.engine->Stop(*run, RunState::kCancelled, EndedError());
  // The same for its domains.
  if (const absl::Status revoked = entry->CheckDomains(); !revoked.ok()) {
    options_.engine->Stop(*run, RunState::kFailed, revoked);
  }
  // A lease that was asked for meanwhile may not have seen the run.
  if (const absl::Status leased = CheckLeases(run->image()); !leased.ok()) {
    options_.engine->Stop(*run, RunState::kFailed, leased);
  }
  return entry;
}

absl::Status Session::EndedError() const {
  return Error(reason::kRunCancelled, absl::StrCat("session ", name(), " ended"));
}

RunEntry::Options Session::DescribeRun(RunTerms& terms) {
  RunEntry::Options options;
  options.session = weak_from_this();
  options.number = runs_.NextNumber();
  options.record.session = name_;
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

absl::Status Session::JournalRun(RunEntry::Options* options) {
  if (options_.journal == nullptr) return absl::OkStatus();
  PTO_ASSIGN_OR_RETURN(options->journal_number,
                       options_.journal->AddRun(ToJournal(options->record, options->number,
                                                          options->own_number, options->digest)));
  options->journal = options_.journal;
  return absl::OkStatus();
}

std::shared_ptr<ImageRun> Session::MakeRun(RunRequest& request, RunEntry::Options options,
                                           std::shared_ptr<const GraphImage> image,
                                           std::shared_ptr<const BoundSlots> slots) {
  for (const std::shared_ptr<SessionBuffer>& buffer : slots->buffers) {
    buffer->in_use.fetch_add(1, std::memory_order_acq_rel);
  }

  RunSpec spec;
  spec.image = std::move(image);
  spec.slots = {slots, &slots->slots};
  spec.named_scalars = std::move(request.named_scalars);
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
  const std::shared_ptr<Run> run = options_.engine->Prepare(std::move(spec));
  if (domains != nullptr) domains->Enter(entry.get(), run);
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

void Session::DrainRuns() {
  if (!has_active_runs()) return;
  std::vector<std::shared_ptr<RunEntry>> active;
  {
    MutexLock lock(mutex_);
    active = runs_.Active();
  }
  for (const std::shared_ptr<RunEntry>& entry : active) entry->Tell();
}

void Session::ReleaseRun() { limited_runs_.fetch_sub(1, std::memory_order_acq_rel); }

void Session::OnRunEnded(RunEntry& entry) {
  std::vector<std::unique_ptr<KeptGraph>> dropped;  // destroyed without the lock
  {
    MutexLock lock(mutex_);
    active_runs_.fetch_sub(1, std::memory_order_acq_rel);
    if (!entry.Leave()) ++late_turns_;
    dropped = runs_.OnEnded(entry);
  }
  if (ended()) TellEnd();
}

void Session::OnPassedLate(RunTurn& turn) {
  MutexLock lock(mutex_);
  --late_turns_;
  turn.Leave();
}

}  // namespace pto
