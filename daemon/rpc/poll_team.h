#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "daemon/rpc/tag.h"
#include "daemon/rpc/thread_probe.h"
#include "runtime/base/mutex.h"

namespace pto::daemon::rpc {

// A team of threads. Exactly one, the leader, waits in TagSource::Next and runs the tags.
//
// One polling thread is by far the fastest way to use a gRPC completion queue: with two, each
// wake-up goes to the one that slept longer. But a handler that runs long would then stop every
// other call. So when the leader has been inside one handler for `stuck_after`, an understudy
// takes the lead, and the old leader joins the understudies when its handler returns.
//
// A leader that merely waits for a CPU on a busy machine keeps the lead for a while: another
// thread would not get a CPU sooner, and changing threads costs more than it gains.
//
// One understudy is on watch while there is traffic and checks the leader every `stuck_after`.
// After `quiet_after` without traffic it sleeps until the leader wakes it for the next tag, so an
// idle server has no wake-ups.
//
// The watch also sees when the leader computes inside of TagSource::Next and does not return. No
// understudy can help then, so it tells the owner of the source.
//
// If all others are stuck, the thread that takes the lead hires one more thread for the watch. So
// calls that do not depend on the stuck handlers are still served.
//
// Thread-safe. The source must outlive the team.
class PollTeam {
 public:
  struct Options {
    // The initial number of threads besides the leader.
    int understudies = 4;
    // The maximum number of threads. If this many handlers are stuck, no more calls are served.
    int most_threads = 512;
    std::chrono::nanoseconds stuck_after = std::chrono::milliseconds(2);
    std::chrono::nanoseconds quiet_after = std::chrono::milliseconds(100);
    // The leader has computed in Next for about `quiet_after` since the last call, or since it
    // began to. Called again and again while it goes on, on the thread that is on watch.
    std::function<void()> on_stall = nullptr;
    // It has returned from Next after on_stall.
    std::function<void()> on_stall_end = nullptr;
    // The watch sleeps until the next tag, or until Look. Or it does not any more.
    std::function<void(bool sleeps)> on_sleep = nullptr;
  };

  PollTeam(TagSource& source, const Options& options);
  // Waits for the threads. The source must have been shut down.
  ~PollTeam();
  PollTeam(const PollTeam&) = delete;
  PollTeam& operator=(const PollTeam&) = delete;

  void Start();
  // Returns when the source is shut down and empty and every handler has returned.
  void Join();

  // Has the watch look at the leader, which may be inside of Next, if it sleeps. Thread-safe.
  void Look();

  // How many times the lead has changed, for tests and diagnosis.
  uint64_t takeovers() const { return takeovers_.load(std::memory_order_relaxed); }

 private:
  // The state of the leader in one word, so that both "the handler has returned" and "the leader is
  // stuck, take over" are one compare-and-swap: the sequence number of the tag, a bit for "inside a
  // handler", and the leader's number.
  using Word = uint64_t;
  static constexpr Word kSequenceStep = 1 << 11;
  static constexpr Word kBusy = 1 << 10;
  static constexpr Word kLeaderMask = kBusy - 1;

  // Starts one more thread unless the maximum is reached. Returns whether it did.
  bool Hire() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Run(int self);
  // Polls until another thread has the lead or the source has ended.
  void Lead();
  // Returns true if this thread has taken the lead, false if the team stops.
  bool Watch(int self) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Zero if nobody leads yet.
  std::chrono::nanoseconds CpuTimeOfLeader(Word word) const;
  // Sleeps until there is something to watch, unless the word has changed meanwhile.
  void SleepOnWatch(Word seen) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Calls a function of the options, without the lock.
  template <typename Function, typename... Arguments>
  void Tell(const Function& function, Arguments... arguments) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool TakeLead(int self, Word seen);
  void WakeWatch();

  TagSource& source_;
  const Options options_;
  const int quiet_rounds_;

  // Zero until the first leader has begun.
  std::atomic<Word> word_{0};
  // Whether the understudy on watch checks word_ periodically. If not, the leader must wake it
  // before it enters a handler.
  std::atomic<bool> watching_{false};
  std::atomic<uint64_t> takeovers_{0};

  Mutex mutex_;
  CondVar watch_changed_;
  CondVar rest_changed_;
  bool watch_taken_ ABSL_GUARDED_BY(mutex_) = false;
  int resting_ ABSL_GUARDED_BY(mutex_) = 0;  // threads that wait for the watch
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // By thread. Each thread writes its own before it can lead; others read only the leader's.
  std::vector<ThreadProbe> probes_;
  int hired_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mutex_);  // not joined yet
};

}  // namespace pto::daemon::rpc
