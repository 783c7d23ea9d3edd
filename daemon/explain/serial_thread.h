#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <string>
#include <thread>

#include "runtime/base/mutex.h"

namespace pto::daemon {

// A thread that executes posted work sequentially, and a tick function at times that this function
// chooses. Thread-safe.
class SerialThread {
 public:
  using Work = std::function<void()>;
  // Returns the delay until its next call.
  using Tick = std::function<std::chrono::nanoseconds()>;

  // `name` is the system's name of the thread: at most 15 characters. `tick` may be empty; it is
  // first called immediately.
  explicit SerialThread(const std::string& name, Tick tick = {});
  ~SerialThread() { Stop(); }
  SerialThread(const SerialThread&) = delete;
  SerialThread& operator=(const SerialThread&) = delete;

  // Returns false if the thread has stopped; the work is then dropped.
  bool Post(Work work);
  // Makes the tick run immediately, once for all calls before it.
  void Wake();
  // Completes the work posted so far. Called by the owner only.
  void Stop();

 private:
  void Run();

  const Tick tick_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<Work> work_ ABSL_GUARDED_BY(mutex_);
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace pto::daemon
