#include "daemon/session/session.h"

#include "absl/cleanup/cleanup.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "daemon/kernels/session_kernels.h"
#include "daemon/names/names.h"
#include "daemon/names/window_name.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::daemon {
namespace {

// Lives as long as the counter that it is a part of.
std::shared_ptr<CoreTime> CoreTimeOf(const std::shared_ptr<UsageCounter>& usage) {
  if (usage == nullptr) return nullptr;
  return {usage, &usage->core_time()};
}

}  // namespace

Session::Session(Options options)
    : options_(std::move(options)),
      name_(std::make_shared<const std::string>(names::Session(options_.id))),
      owner_name_(std::make_shared<const std::string>(options_.owner)),
      account_(std::make_shared<engine::Account>(*name_, options_.weight, options_.owner,
                                                 options_.quota->memory(),
                                                 CoreTimeOf(options_.usage))),
      open_tasks_(
          std::make_shared<TaskBudget>(options_.limits->max_session_live_tasks, options_.quota)),
      create_time_(options_.clock->WallTime()),
      log_(options_.limits->event_log_bytes, options_.quota->memory()),
      device_memory_(std::make_shared<SessionMemory>()),
      kernels_(std::make_unique<SessionKernels>(SessionKernels::Options{
          .session = options_.id,
          .name = *name_,
          .client = options_.owner,
          .hosts = options_.hosts,
          .engine = options_.engine,
          .clock = options_.clock,
          .built_in = options_.target == nullptr ? nullptr : options_.target->kernels,
          .charge =
              [this](const KernelFile& file) {
                return WithRoom([&] {
                  return options_.hosts->store().ChargeLoaded(options_.owner, memory(), file);
                });
              },
          .memory = device_memory_,
          .move_memory =
              [this](const std::function<bool()>& give_up) { return MoveMemory(give_up); }})),
      domains_(*name_, options_.limits->max_buffer_bytes, *options_.engine, options_.quota,
               device_memory_),
      runs_(options_.id, options_.run_ids, options_.limits->max_session_finished_runs) {
  // Nobody else knows the session yet, and the session manager holds its own lock, which comes
  // after the session's.
  runs_.ChargeTo(options_.quota->memory());
  if (options_.former != nullptr) {
    runs_.StartAfter(options_.former->last_number(), options_.former->last_own_number());
  }
  if (options_.target != nullptr) {
    target_ = *options_.target;
    target_.kernels = kernels_.get();
  }
  Touch();
}

Session::~Session() {
  kernels_->Close();
  kernels_->EndHost();
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
  usage.open_tasks = open_tasks_->taken();
  return usage;
}

void Session::Touch() {
  expire_ns_.store(options_.clock->NowNanos() + absl::ToInt64Nanoseconds(options_.ttl),
                   std::memory_order_release);
}

int64_t Session::expire_ns() const {
  // In this order: who drops a hold extends the lease first.
  if (held()) return options_.clock->NowNanos() + absl::ToInt64Nanoseconds(options_.ttl);
  return expire_ns_.load(std::memory_order_acquire);
}

void Session::DropHold() {
  Touch();
  holds_.fetch_sub(1, std::memory_order_acq_rel);
}

void Session::End(absl::string_view why) {
  BufferMap buffers;
  absl::flat_hash_map<std::string, std::shared_ptr<RegisteredGraph>> graphs;
  {
    MutexLock lock(mutex_);
    if (ended_.exchange(true, std::memory_order_acq_rel)) return;
    why_ended_ = std::string(why);
    // The session's own id may be used again one day.
    runs_.RememberIds();
    ForgetOwnSlots();
    buffers.swap(buffers_);
    graphs.swap(graphs_);
  }
  for (const auto& [id, buffer] : buffers) buffer->removed.store(true, std::memory_order_release);
  domains_.Close();
  kernels_->Close();
  const absl::Status error =
      Error(reason::kRunCancelled, absl::StrCat("session ", name(), " ", why))
          .With("session", name())
          .With("by", "session end");
  // No run is added any more. One that has not been accepted yet can be stopped, too.
  StopRuns(engine::RunState::kCancelled, error);
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
  kernels_->EndHost();
  log_.AppendSessionEnded(std::move(why), options_.clock->WallTime());
}

absl::Status Session::CheckAlive() const {
  if (!ended()) return absl::OkStatus();
  return Error(reason::kSessionEnded, absl::StrCat("session ", name(), " has ended"))
      .With("session", name());
}

// ---- buffers

absl::StatusOr<MemoryCharge> Session::ChargeBuffers(absl::Span<const BufferRequest> requests) {
  absl::flat_hash_set<absl::string_view> wanted;
  uint64_t bytes = 0;
  uint64_t host_bytes = 0;
  size_t last = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    if (buffers_.contains(requests[i].id) || !wanted.insert(requests[i].id).second) continue;
    bytes += requests[i].bytes;
    host_bytes += HostBytes(MemoryOf(requests[i]), requests[i].bytes);
    last = i;
  }
  const uint64_t limit = options_.limits->max_session_buffers;
  if (!wanted.empty() && buffers_.size() + wanted.size() > limit) {
    return Error(reason::kBufferLimit, absl::StrCat("a session has at most ", limit, " buffers"))
        .Limit("max_session_buffers", limit, buffers_.size(), wanted.size());
  }
  absl::StatusOr<MemoryCharge> charge =
      MemoryCharge::Take(options_.quota, bytes, /*windows=*/0, host_bytes);
  if (charge.ok()) return charge;
  return PrefixField(charge.status(),
                     wanted.size() == 1 ? absl::StrCat("buffers[", last, "].bytes") : "buffers");
}

engine::DeviceMemory& Session::MemoryOf(const BufferRequest& request) const {
  return options_.engine->chips()[request.chip]->memory();
}

absl::StatusOr<std::vector<std::shared_ptr<SessionBuffer>>> Session::CreateBuffers(
    absl::Span<const BufferRequest> requests) {
  return options_.quota->WithRoom([&] { return TryCreateBuffers(requests); });
}

absl::StatusOr<std::vector<std::shared_ptr<SessionBuffer>>> Session::TryCreateBuffers(
    absl::Span<const BufferRequest> requests) {
  MutexLock lock(mutex_);
  PTO_RETURN_IF_ERROR(CheckAlive());
  PTO_ASSIGN_OR_RETURN(MemoryCharge charge, ChargeBuffers(requests));
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
      const engine::Allocation& memory = *it->second->memory;
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
    absl::StatusOr<std::shared_ptr<engine::Allocation>> memory = AllocateCharged(
        MemoryOf(request), request.bytes,
        charge.Part(request.bytes, /*windows=*/0, HostBytes(MemoryOf(request), request.bytes)));
    if (!memory.ok()) {
      return PrefixField(memory.status(), absl::StrCat("buffers[", i, "].bytes"));
    }
    memory = device_memory_->Add(*std::move(memory));
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
  if (const std::shared_ptr<const UsedKernels> used =
          kernels_->UsedBy(it->second->image->shared_kernels());
      used != nullptr) {
    const std::string changed = kernels_->FindChanged(*used);
    if (changed.empty()) return it->second;
    return Error(reason::kIdConflict,
                 absl::StrCat("graph '", id, "' exists and uses another kernel '", changed,
                              "' than the one of this name now"))
        .At("graph_id")
        .With("graph", id)
        .With("kernel", changed)
        .Hint("delete the graph first, or register it under another id");
  }
  return it->second;
}

absl::StatusOr<std::shared_ptr<RegisteredGraph>> Session::AddGraph(
    absl::string_view id, const Digest& digest, std::shared_ptr<const engine::GraphImage> image) {
  PTO_ASSIGN_OR_RETURN(HostCharge charge, options_.quota->WithRoom([&] {
    return HostCharge::Take(options_.quota->memory(), ImageBytes(*image), "a graph");
  }));
  auto graph = std::make_shared<RegisteredGraph>();
  graph->charge = std::move(charge);
  graph->id = std::string(id);
  graph->name = std::make_shared<const std::string>(names::ChildName(options_.id, "graphs", id));
  graph->digest = digest;
  graph->domain_users = engine::FindDomainUsers(*image);
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

// ---- memory

uint64_t Session::Shed(uint64_t bytes) {
  std::vector<std::unique_ptr<KeptGraph>> dropped;  // destroyed without the lock
  uint64_t shed = 0;
  {
    MutexLock lock(mutex_);
    dropped = runs_.DropKept(bytes);
  }
  for (std::unique_ptr<KeptGraph>& kept : dropped) {
    if (kept == nullptr) continue;
    shed += kept->bytes();
    kept.reset();
  }
  return shed >= bytes ? shed : shed + log_.Shed(bytes - shed);
}

}  // namespace pto::daemon
