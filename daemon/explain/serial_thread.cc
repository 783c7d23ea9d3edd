#include "daemon/explain/serial_thread.h"

#include <pthread.h>

#include <utility>

namespace pto::daemon {

SerialThread::SerialThread(const std::string& name, Tick tick) : tick_(std::move(tick)) {
  thread_ = std::thread([this, name] {
    pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
    Run();
  });
}

bool SerialThread::Post(Work work) {
  MutexLock lock(mutex_);
  if (stopping_) return false;
  work_.push_back(std::move(work));
  changed_.NotifyOne();
  return true;
}

void SerialThread::Wake() {
  MutexLock lock(mutex_);
  woken_ = true;
  changed_.NotifyOne();
}

void SerialThread::Stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyOne();
  }
  if (thread_.joinable()) thread_.join();
}

void SerialThread::Run() {
  using Clock = std::chrono::steady_clock;
  Clock::time_point next = Clock::now();
  while (true) {
    Work work;
    {
      MutexLock lock(mutex_);
      const auto due = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return tick_ && (woken_ || Clock::now() >= next);
      };
      while (work_.empty() && !stopping_ && !due()) {
        if (tick_) {
          changed_.WaitFor(mutex_, next - Clock::now());
        } else {
          changed_.Wait(mutex_);
        }
      }
      if (work_.empty() && stopping_) return;
      // A due tick goes first, because there may always be work.
      if (!work_.empty() && (stopping_ || !due())) {
        work = std::move(work_.front());
        work_.pop_front();
      } else {
        woken_ = false;
      }
    }
    if (work) {
      work();
    } else {
      next = Clock::now() + tick_();
    }
  }
}

}  // namespace pto::daemon
