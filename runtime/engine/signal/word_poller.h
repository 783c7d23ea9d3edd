#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <thread>
#include <utility>

#include "runtime/base/clock.h"
#include "runtime/base/mutex.h"

namespace pto::engine {

// Looks at foreign words, which code of other processes changes without telling, as long as
// somebody waits for them: see WaitTable::LookAtForeign.
//
// A thread looks and sleeps in turn: it sleeps a few microseconds after something was new, more and
// more after that, but never so long that a change would be noticed late. It uses at most a small
// part of a processor, however many words there are, and none at all while nobody waits. It is
// started when it is first needed. Thread-safe.
class WordPoller {
 public:
  // Looks at all words once, and returns how many waits are left.
  using LookAtWords = std::function<size_t()>;

  // Between two looks. A look may take this part of the time: 1 / kShare.
  static constexpr int64_t kLeastNs = 4'000;
  static constexpr int64_t kMostNs = 24'000;
  static constexpr int64_t kShare = 12;

  explicit WordPoller(LookAtWords look, const Clock& clock = Clock::Real())
      : look_(std::move(look)), clock_(clock) {}
  // Nothing waits any more, or nobody cares.
  ~WordPoller() { Stop(); }
  WordPoller(const WordPoller&) = delete;
  WordPoller& operator=(const WordPoller&) = delete;

  // There is something to wait for, and was nothing before. Returns at once.
  void Wake();
  // Looks no more.
  void Stop();

  // Looks once. Returns the time until the next look; 0: nobody waits. For the thread, and for
  // tests.
  int64_t Look();

 private:
  void Loop();

  const LookAtWords look_;
  const Clock& clock_;
  // Of the thread.
  int64_t pause_ns_ = kLeastNs;
  size_t left_ = 0;

  Mutex mutex_;
  CondVar changed_;
  bool awake_ ABSL_GUARDED_BY(mutex_) = false;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace pto::engine
