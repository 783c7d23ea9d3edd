#include "runtime/engine/exec/blocking_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace pto::engine {
namespace {

// Jobs that can end only when all of them run at once.
TEST(BlockingPoolTest, HasAThreadForEveryJob) {
  BlockingPool pool;
  for (int round = 1; round <= 3; ++round) {
    constexpr int kJobs = 30;
    std::atomic<int> here{0};
    std::atomic<int> gone{0};
    for (int i = 0; i < kJobs; ++i) {
      pool.Run([&] {
        ++here;
        while (here < kJobs) std::this_thread::yield();
        ++gone;
      });
    }
    while (gone < kJobs) std::this_thread::yield();
  }
}

TEST(BlockingPoolTest, JobsEndBeforeThePool) {
  std::atomic<int> done{0};
  {
    BlockingPool pool;
    for (int i = 0; i < 10; ++i) pool.Run([&] { ++done; });
  }
  EXPECT_EQ(done, 10);
}

}  // namespace
}  // namespace pto::engine
