#include "daemon/rpc/thread_probe.h"

#include <atomic>
#include <latch>
#include <thread>

#include "gtest/gtest.h"

namespace pto::rpc {
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
  // It may take a moment until it sleeps.
  while (probe.IsRunnable()) std::this_thread::yield();
  const std::chrono::nanoseconds before = probe.CpuTime();
  EXPECT_FALSE(probe.IsRunnable());
  EXPECT_EQ(probe.CpuTime(), before);
  release.count_down();
  thread.join();
}

}  // namespace
}  // namespace pto::rpc
