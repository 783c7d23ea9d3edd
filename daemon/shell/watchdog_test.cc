#include "daemon/shell/watchdog.h"

#include <stdlib.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "runtime/base/mutex.h"

namespace pto::daemon {
namespace {

// Counts questions and beats. What it answers can be changed.
class FakeDaemon {
 public:
  Watchdog::Options Options() {
    Watchdog::Options options;
    options.period = absl::Milliseconds(3);
    options.ask = [this](absl::Duration timeout) {
      EXPECT_EQ(timeout, absl::Milliseconds(1));
      MutexLock lock(mutex_);
      ++asked_;
      changed_.NotifyAll();
      return answer_;
    };
    options.beat = [this] {
      MutexLock lock(mutex_);
      ++beats_;
    };
    return options;
  }
  void SetAnswer(const absl::Status& answer) {
    MutexLock lock(mutex_);
    answer_ = answer;
  }
  // Waits until the questions that come after now have been dealt with. Returns the beats so far.
  int BeatsAfterQuestions(int count) {
    MutexLock lock(mutex_);
    // One more, because a beat comes after the answer.
    const int until = asked_ + count + 1;
    while (asked_ < until) changed_.Wait(mutex_);
    return beats_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  absl::Status answer_;
  int asked_ = 0;
  int beats_ = 0;
};

TEST(WatchdogTest, ReportsOnlyAfterAnswers) {
  FakeDaemon daemon;
  const Watchdog watchdog(daemon.Options());
  EXPECT_GE(daemon.BeatsAfterQuestions(3), 3);
  daemon.SetAnswer(absl::DeadlineExceededError("stuck"));
  const int stuck = daemon.BeatsAfterQuestions(1);
  EXPECT_EQ(daemon.BeatsAfterQuestions(5), stuck);
  daemon.SetAnswer(absl::OkStatus());
  EXPECT_GE(daemon.BeatsAfterQuestions(3), stuck + 2);
}

TEST(WatchdogTest, ReportsWithoutAnswersUntilTheFirstOne) {
  FakeDaemon daemon;
  daemon.SetAnswer(absl::UnavailableError("needs a certificate"));
  const Watchdog watchdog(daemon.Options());
  EXPECT_GE(daemon.BeatsAfterQuestions(3), 3);
  daemon.SetAnswer(absl::OkStatus());
  daemon.BeatsAfterQuestions(2);
  daemon.SetAnswer(absl::UnavailableError("stuck"));
  const int stuck = daemon.BeatsAfterQuestions(1);
  EXPECT_EQ(daemon.BeatsAfterQuestions(3), stuck);
}

TEST(WatchdogTest, EndsThoughItsIntervalIsLong) {
  FakeDaemon daemon;
  Watchdog::Options options = daemon.Options();
  options.period = absl::Hours(30);
  options.ask = [](absl::Duration) { return absl::OkStatus(); };
  const Watchdog watchdog(std::move(options));
}

TEST(WatchdogTest, SystemdSaysHowOften) {
  unsetenv("WATCHDOG_PID");
  unsetenv("WATCHDOG_USEC");
  EXPECT_EQ(Watchdog::PeriodFromEnvironment(), absl::nullopt);
  setenv("WATCHDOG_USEC", "30000000", 1);
  EXPECT_EQ(Watchdog::PeriodFromEnvironment(), absl::optional<absl::Duration>(absl::Seconds(30)));
  setenv("WATCHDOG_PID", absl::StrCat(getpid()).c_str(), 1);
  EXPECT_EQ(Watchdog::PeriodFromEnvironment(), absl::optional<absl::Duration>(absl::Seconds(30)));
  setenv("WATCHDOG_PID", absl::StrCat(getppid()).c_str(), 1);
  EXPECT_EQ(Watchdog::PeriodFromEnvironment(), absl::nullopt) << "meant for another process";
  unsetenv("WATCHDOG_PID");
  for (const char* const wrong : {"", "0", "-5", "soon"}) {
    setenv("WATCHDOG_USEC", wrong, 1);
    EXPECT_EQ(Watchdog::PeriodFromEnvironment(), absl::nullopt) << wrong;
  }
  unsetenv("WATCHDOG_USEC");
}

}  // namespace
}  // namespace pto::daemon
