#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "daemon/rpc/tag.h"
#include "daemon/rpc/thread_probe.h"
#include "runtime/base/mutex.h"

namespace pto::rpc {

// Threads of which exactly one, the leader, waits in TagSource::Next and runs what comes out.
//
// One polling thread is by far the fastest way to use a gRPC completion queue: with two, each
// wake-up goes to the one that slept longer. But a handler that runs long would then stop every
// other call. So when the leader has been inside one handler for `stuck_after`, an understudy
// takes the lead, and the old leader joins the understudies when its handler returns.
//
// A leader that merely waits for a CPU on a busy machine keeps the lead for a while: another
// thread would not get a CPU sooner, and changing threads costs more than it gains.
//
// One understudy is on watch while there is traffic; it looks every `stuck_after`. After
// `quiet_after` without traffic it sleeps until the leader wakes it for the next tag, so an idle
// server has no wake-ups at all.
//
// When all others are stuck, whoever takes the lead hires one more thread for the watch: whatever
// handlers wait for, calls that do not need it are served.
//
// Thread-safe. The source outlives the team.
class PollTeam {
 public:
  struct Options {
    // Threads beside the leader to begin with.
    int understudies = 4;
    // All threads, once that many handlers are stuck at the same time; then the queue stands still.
    int most_threads = 512;
    std::chrono::nanoseconds stuck_after = std::chrono::milliseconds(2);
    std::chrono::nanoseconds quiet_after = std::chrono::milliseconds(100);
  };

  PollTeam(TagSource& source, const Options& options);
  // The source must have been shut down; waits for the threads.
  ~PollTeam();
  PollTeam(const PollTeam&) = delete;
  PollTeam& operator=(const PollTeam&) = delete;

  void Start();
  // Returns when the source is shut down and empty and every handler has returned.
  void Join();

  // How often the lead has changed, for tests and diagnosis.
  uint64_t takeovers() const { return takeovers_.load(std::memory_order_relaxed); }

 private:
  // What the leader does now, in one word, so that both "I am done with the handler" and "you
  // are stuck, I take over" are one compare-and-swap: sequence number of the tag, a bit for
  // "inside a handler", and the leader's number.
  using Word = uint64_t;
  static constexpr Word kSequenceStep = 1 << 11;
  static constexpr Word kBusy = 1 << 10;
  static constexpr Word kLeaderMask = kBusy - 1;

  // One more thread, unless there are as many as there may be. Says whether there is one more.
  bool Hire() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Run(int self);
  // Polls until another thread has the lead or the source has ended.
  void Lead();
  // Returns true when this thread has taken the lead, false when the team stops.
  bool Watch(int self) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Zero when the leader is not in a handler.
  std::chrono::nanoseconds CpuTimeOfLeader(Word word) const;
  bool TakeLead(int self, Word seen);
  void WakeWatch();

  TagSource& source_;
  const Options options_;
  const int quiet_rounds_;

  std::atomic<Word> word_{0};
  // Whether the understudy on watch looks at word_ from time to time. When it does not, the
  // leader must wake it before it enters a handler.
  std::atomic<bool> watching_{false};
  std::atomic<uint64_t> takeovers_{0};

  Mutex mutex_;
  CondVar watch_changed_;
  CondVar rest_changed_;
  bool watch_taken_ ABSL_GUARDED_BY(mutex_) = false;
  int resting_ ABSL_GUARDED_BY(mutex_) = 0;  // threads that wait for the watch
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // By thread. Each writes its own before it can lead, and the others read the leader's only.
  std::vector<ThreadProbe> probes_;
  int hired_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mutex_);  // those that nobody has joined
};

}  // namespace pto::rpc
