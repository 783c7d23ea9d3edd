#include "runtime/engine/signal/word_poller.h"

#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <system_error>

#include "runtime/base/log.h"

namespace pto::engine {

void WordPoller::Wake() {
  MutexLock lock(mutex_);
  if (stop_) return;
  awake_ = true;
  changed_.NotifyAll();
  if (thread_.joinable()) return;
  try {
    thread_ = std::thread([this] { Loop(); });
  } catch (const std::system_error& error) {
    // The waits end at their deadlines, unless a later one gets the thread.
    PTO_LOG(kError, "no thread looks at words of kernel hosts", {{"error", error.what()}});
  }
}

void WordPoller::Stop() {
  std::thread thread;
  {
    MutexLock lock(mutex_);
    stop_ = true;
    changed_.NotifyAll();
    thread.swap(thread_);
  }
  if (thread.joinable()) thread.join();
}

int64_t WordPoller::Look() {
  const int64_t start_ns = clock_.NowNanos();
  const size_t left = look_();
  const int64_t took_ns = clock_.NowNanos() - start_ns;
  // Who waits now has perhaps to wait for more that comes soon.
  pause_ns_ = left == left_ ? std::min(kMostNs, pause_ns_ + pause_ns_ / 8) : kLeastNs;
  left_ = left;
  return left == 0 ? 0 : std::max(pause_ns_, took_ns * (kShare - 1));
}

void WordPoller::Loop() {
  // Otherwise every sleep takes 50 us more.
  prctl(PR_SET_TIMERSLACK, 1);
  while (true) {
    {
      MutexLock lock(mutex_);
      while (!awake_ && !stop_) changed_.Wait(mutex_);
      if (stop_) return;
      // Before the look: a wait that comes after it wakes again.
      awake_ = false;
    }
    while (const int64_t pause_ns = Look()) {
      MutexLock lock(mutex_);
      if (stop_) return;
      changed_.WaitFor(mutex_, std::chrono::nanoseconds(pause_ns));
      if (stop_) return;
    }
  }
}

}  // namespace pto::engine
