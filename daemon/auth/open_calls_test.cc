#include "daemon/auth/open_calls.h"

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace pto::daemon::auth {
namespace {

constexpr std::chrono::nanoseconds kNever{0};

// A call that can be refused.
struct Caller {
  std::atomic<bool> admitted{true};
  std::atomic<int> ended{0};

  OpenCalls::Call Call() {
    return {[this] { return admitted.load(); }, [this] { ++ended; }};
  }
};

TEST(OpenCallsTest, EndsThoseThatWouldBeRefusedOnce) {
  OpenCalls calls(kNever);
  Caller stays;
  Caller goes;
  const OpenCalls::Stay first(calls, stays.Call());
  const OpenCalls::Stay second(calls, goes.Call());
  calls.AskAll();
  EXPECT_EQ(goes.ended, 0);
  goes.admitted = false;
  calls.AskAll();
  calls.AskAll();
  EXPECT_EQ(goes.ended, 1);
  EXPECT_EQ(stays.ended, 0);
}

TEST(OpenCallsTest, DoesNotAskThoseThatAreOver) {
  OpenCalls calls(kNever);
  Caller caller;
  caller.admitted = false;
  std::make_unique<OpenCalls::Stay>(calls, caller.Call()).reset();
  calls.AskAll();
  EXPECT_EQ(caller.ended, 0);
}

TEST(OpenCallsTest, AsksByItself) {
  OpenCalls calls(std::chrono::milliseconds(1));
  // Twice, as it sleeps in between.
  for (int i = 0; i < 2; ++i) {
    Caller caller;
    const OpenCalls::Stay stay(calls, caller.Call());
    caller.admitted = false;
    while (caller.ended == 0) std::this_thread::yield();
  }
}

TEST(OpenCallsTest, CallsComeAndGoWhileItAsks) {
  OpenCalls calls(std::chrono::nanoseconds(1));
  std::atomic<int> asked{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) {
        // What the call refers to may go right after its Stay.
        const auto admitted = std::make_unique<bool>(i % 2 == 0);
        const OpenCalls::Stay stay(calls, {[&] {
                                             ++asked;
                                             return *admitted;
                                           },
                                           [] {}});
        if (i % 16 == 0) calls.AskAll();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(asked, 0);
}

}  // namespace
}  // namespace pto::daemon::auth
