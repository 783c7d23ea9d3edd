#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <thread>

#include "runtime/base/mutex.h"

namespace pto::daemon::auth {

// Calls that stay open, such as streams. A caller can lose the right to a call while it is open: a
// token expires or is taken out of its file, a certificate is revoked, the policy changes. So each
// of them is asked again from time to time, and ended if it would be refused now. Thread-safe.
class OpenCalls {
 public:
  struct Call {
    // Whether the call would be admitted now.
    std::function<bool()> admitted;
    // Ends it. Called at most once, and must not destroy its Stay.
    std::function<void()> end;
  };

  // The call is open as long as this exists.
  class Stay {
   public:
    Stay(OpenCalls& owner, Call call);
    // Waits while the call is being asked.
    ~Stay();
    Stay(const Stay&) = delete;
    Stay& operator=(const Stay&) = delete;

   private:
    friend class OpenCalls;
    struct State {
      Mutex mutex;
      Call call ABSL_GUARDED_BY(mutex);  // empty: the call is over, or was ended
    };

    OpenCalls& owner_;
    uint64_t id_ = 0;
    const std::shared_ptr<State> state_;
  };

  // Asks all of them at this interval. Never if it is 0.
  explicit OpenCalls(std::chrono::nanoseconds interval);
  ~OpenCalls();
  OpenCalls(const OpenCalls&) = delete;
  OpenCalls& operator=(const OpenCalls&) = delete;

  // Asks all of them now.
  void AskAll();

 private:
  void Loop();

  const std::chrono::nanoseconds interval_;
  Mutex mutex_;
  CondVar changed_;
  bool stops_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t next_id_ ABSL_GUARDED_BY(mutex_) = 1;
  std::map<uint64_t, std::shared_ptr<Stay::State>> open_ ABSL_GUARDED_BY(mutex_);
  // The thread does nothing until the next call, or does not exist yet.
  bool asleep_ ABSL_GUARDED_BY(mutex_);
  // Of its own, because asking may read files.
  std::thread thread_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace pto::daemon::auth
