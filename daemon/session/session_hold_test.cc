#include "daemon/session/session_hold.h"

#include <memory>
#include <thread>
#include <utility>

#include "absl/synchronization/notification.h"
#include "daemon/session/testing/session_testing.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"

namespace pto::daemon {
namespace {

using ::pto::daemon::testing::SessionTest;

constexpr absl::Duration kTtl = absl::Seconds(10);

class SessionHoldTest : public SessionTest {
 protected:
  SessionHoldTest() : session_(Create("a", kTtl)) {}

  void Pass(absl::Duration time) {
    clock_.Advance(time);
    timers_.RunDue();
  }
  absl::Duration Left() const {
    return absl::Nanoseconds(session_->expire_ns() - clock_.NowNanos());
  }

  const std::shared_ptr<Session> session_;
};

TEST_F(SessionHoldTest, ASessionDoesNotExpireWhileItIsHeld) {
  SessionHold hold(session_);
  for (int i = 0; i < 10; ++i) {
    Pass(absl::Seconds(7));
    ASSERT_FALSE(session_->ended());
    EXPECT_EQ(Left(), kTtl);
  }
}

TEST_F(SessionHoldTest, TheWholeTimeToLiveCountsFromTheEndOfTheLastHold) {
  SessionHold first(session_);
  SessionHold second(session_);
  Pass(absl::Seconds(25));
  first.Drop();
  Pass(absl::Seconds(25));
  EXPECT_TRUE(session_->held());
  second = SessionHold();
  EXPECT_FALSE(session_->held());
  EXPECT_EQ(Left(), kTtl);
  Pass(kTtl - absl::Nanoseconds(1));
  EXPECT_FALSE(session_->ended());
  Pass(absl::Nanoseconds(1));
  EXPECT_TRUE(session_->ended());
}

TEST_F(SessionHoldTest, AHoldThatIsMovedIsOneHold) {
  SessionHold hold(session_);
  SessionHold moved(std::move(hold));
  EXPECT_EQ(moved.session(), session_);
  hold.Drop();  // NOLINT: it has none
  EXPECT_TRUE(session_->held());
  hold = std::move(moved);
  EXPECT_TRUE(session_->held());
  // A new one for the same session leaves no gap.
  hold = SessionHold(session_);
  EXPECT_TRUE(session_->held());
  hold.Drop();
  hold.Drop();
  EXPECT_FALSE(session_->held());
}

// The finding: a lease that ran out was looked at, and the session ended later; a call between the
// two was answered, and its session ended nevertheless.
TEST_F(SessionHoldTest, ACallFindsASessionThatLivesOrNone) {
  absl::Notification answered;
  absl::Status used;
  std::thread caller;
  on_expiry_ = [&] {
    if (caller.joinable()) return;
    caller = std::thread([&] {
      used = sessions_->Use(auth::Daemon(), "a").status();
      answered.Notify();
    });
    // It is not answered before the session has ended; if it were, it would be now.
    EXPECT_FALSE(answered.WaitForNotificationWithTimeout(absl::Milliseconds(50)));
  };
  Pass(kTtl);
  ASSERT_TRUE(caller.joinable());
  caller.join();
  EXPECT_TRUE(session_->ended());
  EXPECT_FALSE(used.ok());
}

TEST_F(SessionHoldTest, AHoldDoesNotKeepASessionFromBeingDeleted) {
  const SessionHold hold(session_);
  ASSERT_TRUE(sessions_->Delete(auth::Daemon(), "a", "a test").ok());
  EXPECT_TRUE(session_->ended());
  Pass(absl::Seconds(100));
}

TEST_F(SessionHoldTest, AHoldOfNothingDoesNothing) {
  SessionHold hold(nullptr);
  hold.Drop();
  EXPECT_EQ(hold.session(), nullptr);
}

TEST_F(SessionHoldTest, WhoCreatesTheSessionAgainExtendsIt) {
  Pass(absl::Seconds(9));
  EXPECT_EQ(Create("a", kTtl), session_);
  EXPECT_EQ(Left(), kTtl);
}

}  // namespace
}  // namespace pto::daemon
