#pragma once

#include <sys/types.h>
#include <time.h>

#include <chrono>

namespace pto::daemon::rpc {

// Observes another thread. Valid as long as that thread lives. A value type.
class ThreadProbe {
 public:
  // For the calling thread.
  static ThreadProbe Self();

  // The CPU time that the thread has used.
  std::chrono::nanoseconds CpuTime() const;
  // Whether the thread runs or waits for a CPU; false if it is blocked. Costs some microseconds.
  bool IsRunnable() const;

 private:
  clockid_t clock_ = 0;
  pid_t id_ = 0;
};

}  // namespace pto::daemon::rpc
