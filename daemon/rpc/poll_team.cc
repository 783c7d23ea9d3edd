#include "daemon/rpc/poll_team.h"

#include <pthread.h>

#include <algorithm>
#include <cstdio>
#include <system_error>
#include <utility>

#include "runtime/base/log.h"

namespace pto::daemon::rpc {
namespace {
// The number of rounds for which a leader may wait for a CPU.
constexpr int kPatientRounds = 20;
}  // namespace

PollTeam::PollTeam(TagSource& source, const Options& options)
    : source_(source),
      options_(options),
      quiet_rounds_(
          static_cast<int>(std::max<int64_t>(1, options.quiet_after / options.stuck_after))),
      probes_(static_cast<size_t>(options.most_threads)) {
  PTO_CHECK(options.understudies >= 0 && options.understudies < options.most_threads &&
                options.most_threads <= static_cast<int>(kLeaderMask),
            "the leader's number must fit its bits");
}

PollTeam::~PollTeam() { Join(); }

void PollTeam::Start() {
  MutexLock lock(mutex_);
  for (int i = 0; i <= options_.understudies; ++i) {
    PTO_CHECK(Hire(), "a server needs its threads");
  }
}

bool PollTeam::Hire() {
  if (hired_ == options_.most_threads) return false;
  const int number = hired_;
  try {
    threads_.emplace_back([this, number] { Run(number); });
  } catch (const std::system_error& error) {
    PTO_LOG(kWarning, "no thread for the server", {{"error", error.what()}});
    return false;
  }
  ++hired_;
  char name[16];
  std::snprintf(name, sizeof name, "rpc-%d", number);
  pthread_setname_np(threads_.back().native_handle(), name);
  return true;
}

void PollTeam::Join() {
  while (true) {
    // Threads may hire others until they end.
    std::vector<std::thread> threads;
    {
      MutexLock lock(mutex_);
      threads.swap(threads_);
    }
    if (threads.empty()) return;
    for (std::thread& thread : threads) thread.join();
  }
}

void PollTeam::Run(int self) {
  probes_[self] = ThreadProbe::Self();
  // Thread 0 leads first. From here on its probe can be used.
  if (self == 0) {
    word_.store(kSequenceStep, std::memory_order_seq_cst);
    Lead();
  }
  while (true) {
    {
      MutexLock lock(mutex_);
      ++resting_;
      while (watch_taken_ && !stopping_) rest_changed_.Wait(mutex_);
      --resting_;
      if (stopping_) return;
      watch_taken_ = true;
      const bool leads = Watch(self);
      watch_taken_ = false;
      // The watch is free: a resting thread takes it, also if this thread gets stuck as leader.
      if (leads && resting_ == 0) Hire();
      rest_changed_.NotifyOne();
      if (!leads) return;
    }
    Lead();
  }
}

void PollTeam::Lead() {
  Word word = word_.load(std::memory_order_relaxed);
  while (true) {
    Tag* tag = nullptr;
    bool ok = false;
    if (!source_.Next(&tag, &ok)) {
      MutexLock lock(mutex_);
      stopping_ = true;
      watch_changed_.NotifyAll();
      rest_changed_.NotifyAll();
      return;
    }
    word = (word + kSequenceStep) | kBusy;
    // Sequentially consistent, as the mirror image in Watch: either the watch sees this word
    // before it goes to sleep, or we see that it sleeps.
    word_.store(word, std::memory_order_seq_cst);
    if (!watching_.load(std::memory_order_seq_cst)) WakeWatch();
    tag->Proceed(ok);
    const Word idle = word & ~kBusy;
    if (!word_.compare_exchange_strong(word, idle, std::memory_order_acq_rel)) return;
    word = idle;
  }
}

bool PollTeam::Watch(int self) {
  watching_.store(true, std::memory_order_seq_cst);
  Word seen = word_.load(std::memory_order_seq_cst);
  // The leader's CPU time when `seen` was first read.
  std::chrono::nanoseconds cpu_time = CpuTimeOfLeader(seen);
  int rounds = 0;
  bool stalled = false;
  while (!stopping_) {
    const bool woken = watch_changed_.WaitFor(mutex_, options_.stuck_after);
    const Word now = word_.load(std::memory_order_seq_cst);
    // An early wake-up does not show how long the leader has been busy.
    if (now != seen || woken) {
      if (stalled && now != seen) {
        stalled = false;
        Tell(options_.on_stall_end);
      }
      seen = now;
      cpu_time = CpuTimeOfLeader(seen);
      rounds = 0;
      continue;
    }
    ++rounds;
    if ((seen & kBusy) != 0) {
      const ThreadProbe& leader = probes_[seen & kLeaderMask];
      const bool computes = leader.CpuTime() - cpu_time >= options_.stuck_after / 2;
      if ((computes || rounds >= kPatientRounds || !leader.IsRunnable()) && TakeLead(self, seen)) {
        return true;
      }
      continue;
    }
    if (rounds < quiet_rounds_) continue;
    rounds = 0;
    const std::chrono::nanoseconds computed = CpuTimeOfLeader(seen) - cpu_time;
    cpu_time += computed;
    // A leader that waits uses next to nothing. One that computes may have to share its CPU.
    if (computed >= options_.quiet_after / 5) {
      stalled = true;
      Tell(options_.on_stall);
    } else if (computed < options_.quiet_after / 20) {
      if (stalled) Tell(options_.on_stall_end);
      stalled = false;
      SleepOnWatch(seen);
      seen = word_.load(std::memory_order_seq_cst);
      cpu_time = CpuTimeOfLeader(seen);
    }
  }
  return false;
}

void PollTeam::SleepOnWatch(Word seen) {
  // Before the last look at the word, so that whoever reads without a tag sees that we sleep.
  Tell(options_.on_sleep, true);
  watching_.store(false, std::memory_order_seq_cst);
  if (word_.load(std::memory_order_seq_cst) != seen) {
    watching_.store(true, std::memory_order_seq_cst);
  }
  while (!stopping_ && !watching_.load(std::memory_order_relaxed)) watch_changed_.Wait(mutex_);
  Tell(options_.on_sleep, false);
}

template <typename Function, typename... Arguments>
void PollTeam::Tell(const Function& function, Arguments... arguments) {
  if (!function) return;
  mutex_.Unlock();
  function(arguments...);
  mutex_.Lock();
}

void PollTeam::Look() {
  if (!watching_.load(std::memory_order_seq_cst)) WakeWatch();
}

std::chrono::nanoseconds PollTeam::CpuTimeOfLeader(Word word) const {
  return word == 0 ? std::chrono::nanoseconds(0) : probes_[word & kLeaderMask].CpuTime();
}

bool PollTeam::TakeLead(int self, Word seen) {
  const Word mine = ((seen & ~kBusy & ~kLeaderMask) + kSequenceStep) | static_cast<Word>(self);
  if (!word_.compare_exchange_strong(seen, mine, std::memory_order_acq_rel)) return false;
  takeovers_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void PollTeam::WakeWatch() {
  MutexLock lock(mutex_);
  // No thread is on watch until a newly hired one has started, or if all threads are stuck and no
  // more are allowed; then the first one that returns takes the watch.
  if (!watch_taken_) return;
  watching_.store(true, std::memory_order_relaxed);
  watch_changed_.NotifyOne();
}

}  // namespace pto::daemon::rpc
