#include "daemon/domain/domain.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/optional.h"
#include "daemon/names/names.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/base/status_macros.h"

namespace pto::daemon {
namespace {

std::shared_ptr<SessionBuffer> MakePart(const names::Window& name,
                                        const std::shared_ptr<engine::Allocation>& window,
                                        const engine::ByteRange& range) {
  auto buffer = std::make_shared<SessionBuffer>();
  buffer->id = name.relative();
  buffer->memory = engine::Allocation::Part(window, range.begin, range.end - range.begin);
  buffer->signals = name.signals();
  return buffer;
}

absl::Status RevokedError(absl::string_view name, absl::string_view why) {
  return Error(reason::kDomainRevoked,
               absl::StrCat(name, " was revoked", why.empty() ? "" : ": ", why))
      .With("domain", name)
      .With("why", why);
}

uint64_t NextNumber() {
  static std::atomic<uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

// What a failure began with, and whose it was.
struct Cause {
  std::string reason;
  std::string run;
};

Cause CauseOf(const std::vector<absl::Status>& errors, absl::string_view run) {
  Cause cause{"", std::string(run)};
  if (errors.empty()) return cause;
  const absl::optional<ErrorDetail> first = GetErrorDetail(errors[0]);
  if (!first.has_value()) return cause;
  cause.reason = first->reason;
  // The run may have been a victim itself.
  for (const auto& [key, value] : first->metadata) {
    if (key == "cause") cause.reason = value;
    if (key == "cause_run") cause.run = value;
  }
  return cause;
}

}  // namespace

Domain::Domain(std::string name, DomainSpec spec, engine::Engine& engine)
    : name_(std::move(name)), number_(NextNumber()), spec_(std::move(spec)), engine_(engine) {
  for (size_t i = 0; i < spec_.buffers.size(); ++i) buffer_by_name_[spec_.buffers[i].name] = i;
}

absl::string_view Domain::id() const {
  return absl::string_view(name_).substr(name_.rfind('/') + 1);
}

absl::StatusOr<std::shared_ptr<Domain>> Domain::Create(std::string name, DomainSpec spec,
                                                       const WindowLayout& layout,
                                                       engine::Engine& engine,
                                                       const std::shared_ptr<SessionQuota>& quota,
                                                       SessionMemory* memory) {
  for (size_t i = 0; i < spec.chips.size(); ++i) {
    if (engine.chips()[spec.chips[i]]->spec().host_visible) continue;
    // Also without signals: what tasks do with the windows, the host does.
    return Error(reason::kNotAvailable,
                 absl::StrCat("the memory of ", names::Chip(spec.chips[i]),
                              " is not visible to the host, which the windows of a domain must be"))
        .At(absl::StrCat("chips[", i, "]"))
        .With("chip", names::Chip(spec.chips[i]));
  }
  spec.window_bytes = layout.bytes;
  std::shared_ptr<Domain> domain(new Domain(std::move(name), std::move(spec), engine));
  std::vector<Rank> ranks;
  const uint64_t rank_count = domain->spec_.chips.size();
  uint64_t host_bytes = 0;
  for (const uint32_t chip : domain->spec_.chips) {
    host_bytes += HostBytes(engine.chips()[chip]->memory(), layout.bytes);
  }
  absl::StatusOr<MemoryCharge> charge =
      MemoryCharge::Take(quota, rank_count * layout.bytes, rank_count, host_bytes);
  if (!charge.ok()) return PrefixField(charge.status(), "chips");
  for (uint32_t i = 0; i < rank_count; ++i) {
    engine::DeviceMemory& chip = engine.chips()[domain->spec_.chips[i]]->memory();
    absl::StatusOr<std::shared_ptr<engine::Allocation>> window = AllocateCharged(
        chip, layout.bytes, charge->Part(layout.bytes, 1, HostBytes(chip, layout.bytes)));
    if (window.ok() && memory != nullptr) window = memory->Add(*std::move(window));
    if (!window.ok()) return PrefixField(window.status(), absl::StrCat("chips[", i, "]"));
    names::Window part;
    part.domain = std::string(domain->id());
    part.rank = i;
    Rank& rank = ranks.emplace_back();
    rank.window = *window;
    if (domain->spec_.signal_count > 0) {
      rank.signals = MakePart(part, *window, layout.signals);
      // The host waits for signals and changes them.
      absl::StatusOr<std::shared_ptr<engine::HostAllocation>> words =
          engine::Allocation::ToHost(rank.signals->memory);
      if (!words.ok()) return PrefixField(words.status(), absl::StrCat("chips[", i, "]"));
      rank.words = *std::move(words);
    }
    for (size_t b = 0; b < layout.buffers.size(); ++b) {
      part.buffer = domain->spec_.buffers[b].name;
      rank.buffers.push_back(MakePart(part, *window, layout.buffers[b]));
    }
  }
  SharedDomain shared;
  shared.number = domain->number_;
  for (const Rank& rank : ranks) {
    const engine::HostAllocation* const host = rank.window->AsHost();
    shared.windows.push_back(
        {rank.window->chip(), host == nullptr ? nullptr : host->data(), layout.bytes});
  }
  MutexLock lock(domain->mutex_);
  domain->ranks_ = std::move(ranks);
  if (memory != nullptr) domain->shared_ = memory->AddDomain(std::move(shared));
  return domain;
}

std::vector<std::shared_ptr<engine::Allocation>> Domain::windows() const {
  std::vector<std::shared_ptr<engine::Allocation>> windows;
  MutexLock lock(mutex_);
  for (const Rank& rank : ranks_) windows.push_back(rank.window);
  return windows;
}

std::vector<std::shared_ptr<SessionBuffer>> Domain::parts() const {
  std::vector<std::shared_ptr<SessionBuffer>> parts;
  MutexLock lock(mutex_);
  for (const Rank& rank : ranks_) {
    parts.insert(parts.end(), rank.buffers.begin(), rank.buffers.end());
    if (rank.signals != nullptr) parts.push_back(rank.signals);
  }
  return parts;
}

std::vector<std::shared_ptr<SessionBuffer>> Domain::zero_parts() const {
  std::vector<std::shared_ptr<SessionBuffer>> parts;
  MutexLock lock(mutex_);
  for (const Rank& rank : ranks_) {
    for (size_t i = 0; i < rank.buffers.size(); ++i) {
      if (spec_.buffers[i].zero_before_run) parts.push_back(rank.buffers[i]);
    }
  }
  return parts;
}

int Domain::RankOf(uint32_t chip) const {
  const auto found = std::find(spec_.chips.begin(), spec_.chips.end(), chip);
  return found == spec_.chips.end() ? -1 : static_cast<int>(found - spec_.chips.begin());
}

bool Domain::BeginsZero(const names::Window& window) const {
  if (window.signals()) return true;
  const auto found = buffer_by_name_.find(window.buffer);
  return found != buffer_by_name_.end() && spec_.buffers[found->second].zero_before_run;
}

absl::Status Domain::error() const {
  MutexLock lock(mutex_);
  return error_;
}

uint64_t Domain::epoch() const {
  MutexLock lock(mutex_);
  return epoch_;
}

absl::Status Domain::CheckRank(uint32_t rank) const {
  if (rank < spec_.chips.size()) return absl::OkStatus();
  return Error(reason::kRangeOutOfBounds,
               absl::StrCat(name_, " has no rank ", rank, "; its ranks are 0 to ",
                            spec_.chips.size() - 1))
      .At("rank")
      .With("domain", name_)
      .With("rank", rank)
      .With("ranks", spec_.chips.size());
}

absl::StatusOr<std::shared_ptr<SessionBuffer>> Domain::Find(const names::Window& window) const {
  const auto unknown = [&](absl::string_view text) {
    return Error(reason::kBufferUnknown, absl::StrCat(name_, " has no ", text))
        .With("domain", name_)
        .With("buffer", window.relative());
  };
  if (window.rank >= spec_.chips.size()) {
    return unknown(
               absl::StrCat("rank ", window.rank, "; its ranks are 0 to ", spec_.chips.size() - 1))
        .With("rank", window.rank)
        .With("ranks", spec_.chips.size())
        .Hint("only the domain's own ranks have a window in it");
  }
  size_t index = 0;
  if (window.signals()) {
    if (spec_.signal_count == 0) return unknown("signals").Hint("create it with a signal_count");
  } else {
    const auto found = buffer_by_name_.find(window.buffer);
    if (found == buffer_by_name_.end()) {
      constexpr size_t kMaxShown = 8;
      std::vector<std::string> known;
      for (size_t i = 0; i < spec_.buffers.size() && i < kMaxShown; ++i) {
        known.push_back(absl::StrCat("'", spec_.buffers[i].name, "'"));
      }
      if (spec_.buffers.size() > kMaxShown) known.push_back("…");
      return unknown(absl::StrCat("buffer '", window.buffer, "' on rank ", window.rank,
                                  known.empty() ? "; it has none" : "; it has ",
                                  absl::StrJoin(known, ", ")));
    }
    index = found->second;
  }
  MutexLock lock(mutex_);
  if (ranks_.empty()) return unknown("memory any more; it was deleted");
  const Rank& rank = ranks_[window.rank];
  return window.signals() ? rank.signals : rank.buffers[index];
}

// ---- runs

void Domain::Enter(const RunTurn* user, std::weak_ptr<Stoppable> run, bool uses_signals) {
  MutexLock lock(mutex_);
  uses_[user] = {std::move(run), uses_signals};
}

void Domain::Forget(const RunTurn* user) {
  MutexLock lock(mutex_);
  uses_.erase(user);
  ReleaseUnused();
}

void Domain::ReleaseUnused() {
  if (!closed_ || !uses_.empty()) return;
  shared_.reset();
  ranks_.clear();
}

void Domain::Refresh() {
  if (!used_) return;
  used_ = false;
  ++epoch_;
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    for (uint32_t i = 0; i < spec_.signal_count; ++i) Word(rank, i).Change(PTO_SET, 0);
  }
}

void Domain::BeginUse(const RunTurn* user,
                      absl::Span<const std::shared_ptr<SessionBuffer>> zeroed) {
  {
    MutexLock lock(mutex_);
    const auto found = uses_.find(user);
    if (found == uses_.end() || !found->second.uses_signals) return;
    found->second.has_begun = true;
    Refresh();
  }
  // Without the lock, as it may take long. No other run has the turn, and clients wait.
  for (const std::shared_ptr<SessionBuffer>& buffer : zeroed) {
    MutexLock contents(buffer->contents);
    absl::Status done = buffer->memory->Fill(0, buffer->memory->bytes(), std::byte{0});
    if (!done.ok()) {
      PTO_LOG(kError, "a window buffer cannot be set to zero",
              {{"buffer", buffer->id}, {"error", std::string(done.message())}});
    }
  }
}

Domain::Revoked Domain::Leave(const RunTurn* user, const engine::Run& run,
                              absl::string_view run_name) {
  const bool succeeded = run.state() == engine::RunState::kSucceeded;
  // Before the lock, which is the last that anybody takes.
  const std::vector<absl::Status> errors = succeeded ? std::vector<absl::Status>() : run.errors();
  MutexLock lock(mutex_);
  const auto found = uses_.find(user);
  if (found == uses_.end()) return {};
  const bool used = found->second.has_begun;
  uses_.erase(found);
  if (used) used_ = true;
  Revoked revoked;
  // Nobody knows what a lost host has written of a window, and what it has not.
  const bool lost = !errors.empty() && ReasonOf(errors[0]) == reason::kHostLost.name;
  if ((used || lost) && !succeeded) {
    const Cause cause = CauseOf(errors, run_name);
    revoked = RevokeLocked(
        Error(reason::kDomainRevoked,
              absl::StrCat(name_, " was revoked: ", run_name, " used its ",
                           used ? "signals" : "windows", " and ended as ",
                           run.state() == engine::RunState::kCancelled ? "CANCELLED" : "FAILED",
                           errors.empty() ? "" : ": ",
                           errors.empty() ? "" : errors[0].message().substr(0, 512)))
            .With("domain", name_)
            .With("run", run_name)
            .With("cause", cause.reason)
            .With("cause_run", cause.run));
  }
  ReleaseUnused();
  return revoked;
}

Domain::Revoked Domain::RevokeLocked(absl::Status error) {
  if (!error_.ok()) return {};
  error_ = std::move(error);
  Revoked revoked;
  revoked.error = error_;
  for (const auto& [user, use] : uses_) {
    if (std::shared_ptr<Stoppable> run = use.run.lock()) revoked.runs.push_back(std::move(run));
  }
  return revoked;
}

void Domain::Stop(const Revoked& revoked, engine::Completions& completions) {
  for (const std::shared_ptr<Stoppable>& run : revoked.runs) {
    run->Stop(engine::RunState::kFailed, revoked.error, completions);
  }
}

// ---- clients

void Domain::Revoke(absl::string_view why) {
  engine::Completions completions;
  Revoked revoked;
  {
    MutexLock lock(mutex_);
    revoked = RevokeLocked(RevokedError(name_, why));
  }
  Stop(revoked, completions);
}

engine::SignalWord Domain::Word(uint32_t rank, uint32_t signal) const {
  return {ranks_[rank].words->data() + signal * sizeof(int64_t), PTO_I64};
}

absl::StatusOr<uint64_t> Domain::Notify(uint32_t rank, uint32_t signal, pto_notify_op op,
                                        int64_t value) {
  PTO_RETURN_IF_ERROR(CheckRank(rank));
  if (signal >= spec_.signal_count) {
    return Error(reason::kRangeOutOfBounds, absl::StrCat(name_, " has no signal ", signal,
                                                         "; each rank has ", spec_.signal_count))
        .At("signal")
        .With("domain", name_)
        .With("signal", signal)
        .With("signals", spec_.signal_count);
  }
  engine::SignalWord word;
  std::shared_ptr<engine::Allocation> memory;
  {
    MutexLock lock(mutex_);
    PTO_RETURN_IF_ERROR(error_);
    if (ranks_.empty()) return Error(reason::kDomainUnknown, absl::StrCat(name_, " was deleted"));
    Refresh();
    word = Word(rank, signal);
    memory = ranks_[rank].signals->memory;
    ++notifying_;
  }
  // Without the lock, which no waiter needs: the change wakes the blocks that wait for the signal.
  const absl::Status notified = engine_.Notify(word.address, PTO_I64, op, value);
  {
    MutexLock lock(mutex_);
    --notifying_;
  }
  PTO_RETURN_IF_ERROR(notified);
  return static_cast<uint64_t>(word.Load());
}

absl::StatusOr<std::vector<uint64_t>> Domain::ReadSignals(uint32_t rank, uint32_t first,
                                                          uint32_t count) const {
  PTO_RETURN_IF_ERROR(CheckRank(rank));
  const uint32_t have = spec_.signal_count;
  if (first > have || count > have - first) {
    return Error(reason::kRangeOutOfBounds,
                 absl::StrCat("signals ", first, " to ", uint64_t{first} + count, " reach beyond ",
                              name_, ", where each rank has ", have))
        .At(first > have ? "first" : "count")
        .With("domain", name_)
        .With("first", first)
        .With("count", count)
        .With("signals", have);
  }
  MutexLock lock(mutex_);
  if (ranks_.empty()) return Error(reason::kDomainUnknown, absl::StrCat(name_, " was deleted"));
  std::vector<uint64_t> values(count == 0 ? have - first : count);
  for (uint32_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<uint64_t>(Word(rank, first + i).Load());
  }
  return values;
}

// ---- the session's kernel host

std::shared_ptr<engine::Allocation> Domain::WindowOf(uint32_t rank) const {
  MutexLock lock(mutex_);
  return rank < ranks_.size() ? ranks_[rank].window : nullptr;
}

absl::Status Domain::PrepareShare(uint32_t rank,
                                  const std::shared_ptr<engine::SharingBudget>& budget) {
  const std::shared_ptr<engine::Allocation> window = WindowOf(rank);
  engine::HostAllocation* const host = window == nullptr ? nullptr : window->AsHost();
  if (host == nullptr || !host->can_share() || host->shared_descriptor() >= 0) {
    return absl::OkStatus();
  }
  return host->PrepareShare(budget);
}

absl::StatusOr<bool> Domain::ShareSome(uint32_t rank) {
  std::vector<std::shared_ptr<SessionBuffer>> parts;
  {
    MutexLock lock(mutex_);
    if (rank >= ranks_.size()) return true;
    parts = ranks_[rank].buffers;
    if (ranks_[rank].signals != nullptr) parts.push_back(ranks_[rank].signals);
  }
  bool idle = signal_queue_->idle() && whole_queue_->idle();
  for (const std::shared_ptr<SessionBuffer>& part : parts) {
    idle = idle && part->queue->idle() && part->in_use.load(std::memory_order_acquire) == 0;
  }
  const auto in_use = [&] {
    return Error(reason::kBufferInUse, absl::StrCat("a run or a notification uses the window of "
                                                    "rank ",
                                                    rank, " of ", name_))
        .With("domain", name_)
        .With("rank", rank);
  };
  if (!idle) return in_use();
  // Nobody else locks several at once.
  for (const std::shared_ptr<SessionBuffer>& part : parts) part->contents.Lock();
  const absl::Cleanup unlock = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    for (const std::shared_ptr<SessionBuffer>& part : parts) part->contents.Unlock();
  };
  MutexLock lock(mutex_);
  if (rank >= ranks_.size()) return true;
  if (notifying_ > 0) return in_use();
  engine::HostAllocation* const host = ranks_[rank].window->AsHost();
  if (host == nullptr || !host->can_share() || host->shared_descriptor() >= 0) return true;
  return host->ShareSome();
}

void Domain::Close() {
  MutexLock lock(mutex_);
  closed_ = true;
  for (const Rank& rank : ranks_) {
    for (const auto& buffer : rank.buffers) buffer->removed.store(true, std::memory_order_release);
    if (rank.signals != nullptr) rank.signals->removed.store(true, std::memory_order_release);
  }
  ReleaseUnused();
}

}  // namespace pto::daemon
