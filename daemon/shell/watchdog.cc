#include "daemon/shell/watchdog.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <utility>

#include "absl/strings/numbers.h"
#include "runtime/base/log.h"

namespace pto::daemon {

absl::optional<absl::Duration> Watchdog::PeriodFromEnvironment() {
  const char* const period = std::getenv("WATCHDOG_USEC");  // NOLINT: nothing sets variables
  const char* const pid = std::getenv("WATCHDOG_PID");      // NOLINT: nothing sets variables
  int64_t microseconds = 0;
  if (period == nullptr || !absl::SimpleAtoi(period, &microseconds) || microseconds <= 0) {
    return absl::nullopt;
  }
  // It may be meant for a process that has started this one.
  int64_t whose = 0;
  if (pid != nullptr && (!absl::SimpleAtoi(pid, &whose) || whose != getpid())) {
    return absl::nullopt;
  }
  return absl::Microseconds(microseconds);
}

Watchdog::Watchdog(Options options) : options_(std::move(options)) {
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "watchdog");
    Run();
  });
}

Watchdog::~Watchdog() {
  {
    MutexLock lock(mutex_);
    stop_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

void Watchdog::Run() {
  constexpr int kBeatsPerPeriod = 3;
  const absl::Duration interval = options_.period / kBeatsPerPeriod;
  // Of the steady clock: somebody may set the other one.
  auto next = std::chrono::steady_clock::now();
  bool ever_answered = false;
  bool complained = false;
  while (true) {
    const absl::Status status = options_.ask(interval);
    ever_answered = ever_answered || status.ok();
    if (status.ok() || !ever_answered) options_.beat();
    if (!status.ok() && !complained) {
      PTO_LOG(kError,
              ever_answered ? "the daemon does not answer itself: the watchdog is not fed"
                            : "the watchdog cannot ask the daemon: it is fed without asking",
              {{"error", status.ToString()}});
    } else if (status.ok() && complained) {
      PTO_LOG(kWarning, "the daemon answers the watchdog");
    }
    complained = !status.ok();

    // An interval begins when the last one did, not with its answer.
    const auto now = std::chrono::steady_clock::now();
    next = std::max(next + absl::ToChronoNanoseconds(interval), now);
    MutexLock lock(mutex_);
    while (!stop_ && std::chrono::steady_clock::now() < next) {
      changed_.WaitFor(mutex_, next - std::chrono::steady_clock::now());
    }
    if (stop_) return;
  }
}

}  // namespace pto::daemon
