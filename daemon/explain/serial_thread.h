#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <string>
#include <thread>

#include "runtime/base/mutex.h"

namespace pto {

// A thread that does what it is given, one thing after the other, and something of its own now and
// then. Thread-safe.
class SerialThread {
 public:
  using Work = std::function<void()>;
  // Returns when it is to be called next.
  using Tick = std::function<std::chrono::nanoseconds()>;

  // The name is that of the thread in the system: at most 15 characters. `tick` may be empty; its
  // first call comes at once.
  explicit SerialThread(const std::string& name, Tick tick = {});
  ~SerialThread() { Stop(); }
  SerialThread(const SerialThread&) = delete;
  SerialThread& operator=(const SerialThread&) = delete;

  // Returns false when it has stopped: then nothing comes of it.
  bool Post(Work work);
  // Has the tick come at once, once for all calls before it.
  void Wake();
  // Does what it was given so far, and no more. Only by its owner.
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

}  // namespace pto
