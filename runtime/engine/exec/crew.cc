#include "runtime/engine/exec/crew.h"

#include <pthread.h>

#include <algorithm>
#include <limits>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "runtime/base/log.h"

namespace pto::engine {

Crew::Crew(Services& services, TimerQueue* timers, Options options)
    : services_(services),
      options_(std::move(options)),
      access_(services.scheduler().chip_count()),
      alarm_(options_.patience_ns > 0 ? timers : nullptr, [this] { return Look(); }) {
  for (std::atomic<Access>& access : access_) access.store(Access::kAll);
  for (uint32_t i = 0; i < options_.executors; ++i) members_.push_back(std::make_unique<Member>());
}

void Crew::Start() {
  for (uint32_t i = 0; i < options_.executors; ++i) {
    members_[i]->thread = std::thread([this, i] {
      pthread_setname_np(pthread_self(), absl::StrCat("executor-", i).substr(0, 15).c_str());
      Loop(*members_[i], i, /*spare=*/false);
    });
  }
}

Crew::~Crew() { Stop(); }

void Crew::Stop() {
  stopping_.store(true, std::memory_order_release);
  // After this no look hires another one.
  std::vector<std::unique_ptr<Member>> spares;
  {
    MutexLock lock(look_mutex_);
    spares.swap(spares_);
  }
  services_.scheduler().parking().Wake(std::numeric_limits<uint64_t>::max());
  for (auto* const threads : {&members_, &spares}) {
    for (const std::unique_ptr<Member>& member : *threads) {
      if (member->thread.joinable()) member->thread.join();
    }
  }
}

Crew::Use Crew::use() const {
  Use use;
  use.executors = executors();
  use.spares = spare_count_.load(std::memory_order_relaxed);
  use.held = held_count_.load(std::memory_order_relaxed);
  use.stopped = stopped_count_.load(std::memory_order_relaxed);
  return use;
}

void Crew::Loop(Member& self, uint32_t number, bool spare) {
  Parking& parking = services_.scheduler().parking();
  self.fibers = std::make_unique<FiberPool>(parking);
  FiberPool& fibers = *self.fibers;
  self.shown_fibers.store(&fibers, std::memory_order_release);
  Completions completions;
  Worker worker(services_, &completions, &fibers, number, &self.pulse, spare ? this : nullptr,
                this);
  bool resting = true;
  while (true) {
    const uint64_t ticket = parking.Ticket();
    if (resting) {
      self.pulse.Rise();
      Watch();
      resting = false;
    }
    // Blocks that wait here can only go on here.
    if (spare && fibers.busy() == 0 && MayLeave(self)) return;
    if (worker.RunAny() || worker.PollLane(ticket)) continue;
    if (stopping_.load(std::memory_order_acquire)) return;
    self.pulse.Rest();
    resting = true;
    parking.Park(ticket);
  }
}

FiberBlock* Crew::TakeStray(FiberPool& to) {
  for (const std::unique_ptr<Member>& member : members_) {
    FiberPool* const from = member->shown_fibers.load(std::memory_order_acquire);
    if (from == nullptr || from == &to || !IsHeld(*member)) continue;
    if (FiberBlock* const block = to.TakeOver(*from)) return block;
  }
  return nullptr;
}

void Crew::FindStrays() {
  const bool any = std::any_of(members_.begin(), members_.end(), [](const auto& member) {
    const FiberPool* const fibers = member->shown_fibers.load(std::memory_order_acquire);
    return fibers != nullptr && fibers->runnable() > 0 && IsHeld(*member);
  });
  any_.store(any, std::memory_order_relaxed);
  if (any) services_.scheduler().parking().Wake(std::numeric_limits<uint64_t>::max());
}

bool Crew::MayLeave(Member& self) {
  int32_t left = leaving_.load(std::memory_order_relaxed);
  while (left > 0) {
    if (!leaving_.compare_exchange_weak(left, left - 1, std::memory_order_acq_rel)) continue;
    self.pulse.Rest();
    self.left.store(true, std::memory_order_release);
    // The wake-up that this thread used may have been for a task.
    services_.scheduler().parking().Wake(services_.scheduler().ready());
    return true;
  }
  return false;
}

bool Crew::IsOpen(uint32_t chip) const {
  const Access access = access_[chip].load(std::memory_order_relaxed);
  if (access == Access::kAll) return true;
  // An executor that is free again sleeps when it finds nothing, and relies on it that any thread
  // that is woken takes the next task.
  if (std::any_of(members_.begin(), members_.end(), [](const auto& member) {
        return !member->pulse.busy() ||
               member->pulse.beats() != member->seen.load(std::memory_order_relaxed);
      })) {
    return true;
  }
  if (access == Access::kNone) return false;
  MutexLock lock(accounts_mutex_);
  return services_.scheduler().queue(chip).OthersWaitThan(accounts_, /*patient=*/true);
}

bool Crew::Note(Member& member, int64_t passed_ns) {
  const uint64_t beats = member.pulse.beats();
  const bool busy = member.pulse.busy();
  if (busy && beats == member.seen.load(std::memory_order_relaxed)) {
    member.held_ns += passed_ns;
  } else {
    member.held_ns = 0;
    member.told = false;
  }
  member.was_held.store(member.held(), std::memory_order_relaxed);
  member.seen.store(beats, std::memory_order_relaxed);
  return busy;
}

void Crew::JoinThoseWhoLeft() {
  const auto gone = std::partition(spares_.begin(), spares_.end(), [](const auto& spare) {
    return !spare->left.load(std::memory_order_acquire);
  });
  for (auto it = gone; it != spares_.end(); ++it) (*it)->thread.join();
  spares_.erase(gone, spares_.end());
}

int64_t Crew::Look() {
  MutexLock lock(look_mutex_);
  return stopping_.load(std::memory_order_acquire) ? 0 : LookLocked();
}

int64_t Crew::LookLocked() {
  const int64_t now = services_.clock().NowNanos();
  // A process that was stopped for a while was not held by its kernels.
  const int64_t passed = std::clamp<int64_t>(now - last_look_ns_, 1, 2 * options_.patience_ns);
  last_look_ns_ = now;
  JoinThoseWhoLeft();
  bool busy = Note(helper_, passed);
  bool all_held = !members_.empty();
  uint32_t held = 0;
  for (auto* const threads : {&members_, &spares_}) {
    for (const std::unique_ptr<Member>& member : *threads) {
      busy |= Note(*member, passed);
      all_held &= member->held();
      held += member->held() ? 1 : 0;
    }
  }
  // Most looks end here.
  if (held == 0 && spares_.empty() && !helper_.held() && !stuck()) {
    any_.store(false, std::memory_order_relaxed);
    quiet_looks_ = busy ? 0 : quiet_looks_ + 1;
    spare_count_.store(0, std::memory_order_relaxed);
    held_count_.store(0, std::memory_order_relaxed);
    stopped_count_.store(0, std::memory_order_relaxed);
    return quiet_looks_ < kQuietLooks ? now + options_.patience_ns : 0;
  }
  const std::vector<Holder> holders = FindHolders();
  DecideAccess(holders);
  FindStrays();
  const bool hired = all_held && Hire();
  LetGo(held);
  Tell(all_held, hired, holders);
  EndLongCalls(holders);
  quiet_looks_ = busy ? 0 : quiet_looks_ + 1;
  return quiet_looks_ < kQuietLooks ? now + options_.patience_ns : 0;
}

std::vector<Crew::Holder> Crew::FindHolders() {
  std::vector<Holder> holders;
  const auto add = [&](Member& member) {
    if (!member.held()) return;
    Holder holder;
    holder.member = &member;
    const uint64_t place = member.pulse.place();
    if (place != Pulse::kNowhere) {
      holder.chip = Pulse::ChipOf(place);
      const CoreView& view =
          services_.scheduler().queue(holder.chip).own_view(Pulse::CoreOf(place));
      holder.seen = view.run.load(std::memory_order_acquire);
      holder.task = view.task.load(std::memory_order_relaxed);
    }
    holders.push_back(std::move(holder));
  };
  add(helper_);
  for (auto* const threads : {&members_, &spares_}) {
    for (const std::unique_ptr<Member>& member : *threads) add(*member);
  }
  std::vector<const Run*> wanted;
  for (const Holder& holder : holders) {
    if (holder.seen != nullptr) wanted.push_back(holder.seen);
  }
  if (wanted.empty()) return holders;
  const std::vector<std::shared_ptr<Run>> runs = options_.find_runs(wanted);
  for (Holder& holder : holders) {
    // What the core shows belongs to the call only if that still goes on. Then the run has not
    // ended meanwhile, so there is no other one at its address.
    if (holder.member->pulse.beats() != holder.member->seen.load(std::memory_order_relaxed)) {
      continue;
    }
    const auto found = std::find_if(runs.begin(), runs.end(), [&](const std::shared_ptr<Run>& run) {
      return run.get() == holder.seen;
    });
    if (found != runs.end()) holder.run = *found;
  }
  return holders;
}

void Crew::EndLongCalls(absl::Span<const Holder> holders) {
  if (options_.call_limit_ns <= 0) return;
  for (const Holder& holder : holders) {
    Member& member = *holder.member;
    if (member.told || member.held_ns < options_.call_limit_ns || holder.run == nullptr) continue;
    member.told = true;
    Run& run = *holder.run;
    if (holder.task >= run.image().task_count() || run.stop_requested()) continue;
    const ImageDetail* const detail = run.image().detail(holder.task);
    if (run.task_timeout_ns() > 0 || (detail != nullptr && detail->timeout_ns > 0)) continue;
    options_.end_call(run, holder.task);
  }
}

void Crew::DecideAccess(absl::Span<const Holder> holders) {
  Scheduler& scheduler = services_.scheduler();
  std::vector<uint32_t> held(access_.size());
  std::vector<const Account*> accounts;
  uint32_t stopped = 0;
  for (const Holder& holder : holders) {
    if (holder.run == nullptr || holder.member == &helper_) continue;
    ++held[holder.chip];
    accounts.push_back(holder.run->account().get());
    if (holder.run->stop_requested()) ++stopped;
  }
  stopped_count_.store(stopped, std::memory_order_relaxed);
  {
    MutexLock lock(accounts_mutex_);
    accounts_ = std::move(accounts);
  }
  // One chip must not use up all spares.
  const auto chips = std::max<uint32_t>(scheduler.chip_count(), 1);
  const uint32_t most = executors() + std::max(options_.max_spares / chips, 1u);
  bool changed = false;
  for (uint32_t chip = 0; chip < access_.size(); ++chip) {
    const Access access = held[chip] == 0     ? Access::kAll
                          : held[chip] < most ? Access::kOthers
                                              : Access::kNone;
    changed |= access_[chip].exchange(access, std::memory_order_relaxed) != access;
  }
  if (changed && !spares_.empty()) scheduler.parking().Wake(scheduler.ready());
}

bool Crew::TasksWait() {
  if (services_.has_errands() || any()) return true;
  MutexLock lock(accounts_mutex_);
  for (uint32_t chip = 0; chip < access_.size(); ++chip) {
    ReadyQueue& queue = services_.scheduler().queue(chip);
    const Access access = access_[chip].load(std::memory_order_relaxed);
    if (access == Access::kNone || queue.ready() == 0 || queue.busy_cores() >= queue.core_count()) {
      continue;
    }
    if (access == Access::kAll || queue.OthersWaitThan(accounts_, /*patient=*/false)) return true;
  }
  return false;
}

bool Crew::Hire() {
  if (spares_.size() >= options_.max_spares) return false;
  auto spare = std::make_unique<Member>();
  const uint32_t number = executors() + spares_ever_++;
  try {
    spare->thread = std::thread([this, self = spare.get(), number] {
      pthread_setname_np(pthread_self(), absl::StrCat("spare-", number).substr(0, 15).c_str());
      Loop(*self, number, /*spare=*/true);
    });
  } catch (const std::system_error&) {
    return false;  // The machine has no more.
  }
  spares_.push_back(std::move(spare));
  return true;
}

void Crew::LetGo(uint32_t held) {
  const auto spares = static_cast<uint32_t>(spares_.size());
  const auto resting = static_cast<uint32_t>(std::count_if(
      spares_.begin(), spares_.end(), [](const auto& spare) { return !spare->pulse.busy(); }));
  // As many threads are free as there are executors, and one of them without work is enough.
  const uint32_t too_many =
      std::max(spares - std::min(spares, held), resting - std::min(resting, 1u));
  leaving_.store(static_cast<int32_t>(too_many), std::memory_order_relaxed);
  if (too_many > 0) services_.scheduler().parking().Wake(std::numeric_limits<uint64_t>::max());
  spare_count_.store(spares, std::memory_order_relaxed);
  held_count_.store(held, std::memory_order_relaxed);
}

void Crew::Tell(bool all_held, bool hired, absl::Span<const Holder> holders) {
  if (!all_held || hired) {
    lacking_looks_ = 0;
    if (!stuck()) return;
    stuck_.store(false, std::memory_order_release);
    PTO_LOG(kWarning, "a thread is free to run tasks again", {{"spares", spares_.size()}});
    if (options_.on_stuck != nullptr) options_.on_stuck(false);
    return;
  }
  if (stuck()) return;
  // Being busy is no reason to refuse runs, if that was configured.
  const bool lacks =
      (options_.max_spares > 0 && TasksWait()) ||
      stopped_count_.load(std::memory_order_relaxed) == held_count_.load(std::memory_order_relaxed);
  lacking_looks_ = lacks ? lacking_looks_ + 1 : 0;
  if (lacking_looks_ < 2) return;
  stuck_.store(true, std::memory_order_release);
  PTO_LOG(kError, "no thread is left to run tasks: kernels hold all of them",
          {{"executors", executors()},
           {"spares", spares_.size()},
           {"held_by_stopped_runs", stopped_count_.load(std::memory_order_relaxed)}});
  for (const Holder& holder : holders) {
    if (holder.run == nullptr) continue;
    PTO_LOG(kWarning, "a kernel holds a thread",
            {{"account", holder.run->account() == nullptr ? "" : holder.run->account()->name()},
             {"task", holder.task},
             {"chip", holder.chip},
             {"stopped", holder.run->stop_requested()}});
  }
  if (options_.on_stuck != nullptr) options_.on_stuck(true);
}

}  // namespace pto::engine
