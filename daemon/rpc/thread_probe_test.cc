#include "daemon/rpc/thread_probe.h"

#include <atomic>
#include <chrono>
#include <latch>
#include <thread>

#include "gtest/gtest.h"

namespace pto::daemon::rpc {
namespace {

TEST(ThreadProbeTest, SeesAThreadThatComputes) {
  std::atomic<bool> stop = false;
  ThreadProbe probe;
  std::latch ready(1);
  std::thread thread([&] {
    probe = ThreadProbe::Self();
    ready.count_down();
    while (!stop) {
    }
  });
  ready.wait();
  const std::chrono::nanoseconds before = probe.CpuTime();
  while (probe.CpuTime() < before + std::chrono::milliseconds(2)) {
  }
  EXPECT_TRUE(probe.IsRunnable());
  stop = true;
  thread.join();
}

TEST(ThreadProbeTest, SeesAThreadThatIsBlocked) {
  std::latch release(1);
  ThreadProbe probe;
  std::latch ready(1);
  std::thread thread([&] {
    probe = ThreadProbe::Self();
    ready.count_down();
    release.wait();
  });
  ready.wait();
  // It may take a moment until it sleeps, and it can be blocked for another reason before.
  std::chrono::nanoseconds before;
  do {
    before = probe.CpuTime();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  } while (probe.IsRunnable() || probe.CpuTime() != before);
  release.count_down();
  thread.join();
}

}  // namespace
}  // namespace pto::daemon::rpc
