#pragma once

#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "runtime/base/mutex.h"

namespace pto::daemon {

// Feeds a supervisor's watchdog as long as the daemon serves: asks it three times per period, as a
// client would, and reports only after an answer. So a daemon whose process lives but which does
// not answer is restarted.
//
// Until the first answer it reports in any case, and a line in the log says so: if it cannot ask at
// all, for example because the only address needs a certificate, restarts would not help and never
// end.
class Watchdog {
 public:
  struct Options {
    // The supervisor gives up when it has heard nothing for so long.
    absl::Duration period;
    // Asks the daemon. Called by the watchdog's thread; returns within about the given time.
    std::function<absl::Status(absl::Duration timeout)> ask;
    // Tells the supervisor. By the same thread.
    std::function<void()> beat;
  };

  // The period that systemd asks for, in WATCHDOG_USEC and WATCHDOG_PID; nullopt if it does not.
  static absl::optional<absl::Duration> PeriodFromEnvironment();

  explicit Watchdog(Options options);
  // Waits for a question that is open.
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  void Run();

  const Options options_;
  Mutex mutex_;
  CondVar changed_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace pto::daemon
