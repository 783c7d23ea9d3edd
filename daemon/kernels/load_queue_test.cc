#include "daemon/kernels/load_queue.h"

#include <algorithm>
#include <cerrno>
#include <functional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/mutex.h"

namespace pto::daemon {
namespace {

// Jobs that say when they begin, and end when they are told to.
class Jobs {
 public:
  std::function<void()> Make(const std::string& name) {
    return [this, name] {
      MutexLock lock(mutex_);
      begun_.push_back(name);
      changed_.NotifyAll();
      while (!ended_.contains(name)) changed_.Wait(mutex_);
      done_.push_back(name);
      changed_.NotifyAll();
    };
  }
  void End(const std::string& name) {
    MutexLock lock(mutex_);
    ended_.insert(name);
    changed_.NotifyAll();
    while (std::find(done_.begin(), done_.end(), name) == done_.end()) changed_.Wait(mutex_);
  }
  std::vector<std::string> AwaitBegun(size_t count) {
    MutexLock lock(mutex_);
    while (begun_.size() < count) changed_.Wait(mutex_);
    return begun_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::vector<std::string> begun_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> done_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_set<std::string> ended_ ABSL_GUARDED_BY(mutex_);
};

using ::testing::UnorderedElementsAre;

const int kSessions[4] = {};

TEST(LoadQueueTest, JobsOfASessionFollowEachOther) {
  Jobs jobs;
  LoadQueue queue;
  queue.Add(&kSessions[0], "c", jobs.Make("a"));
  queue.Add(&kSessions[0], "c", jobs.Make("b"));
  queue.Add(&kSessions[1], "c", jobs.Make("other"));
  EXPECT_THAT(jobs.AwaitBegun(2), UnorderedElementsAre("a", "other"));
  jobs.End("a");
  EXPECT_THAT(jobs.AwaitBegun(3), ::testing::Contains("b"));
  jobs.End("b");
  jobs.End("other");
}

TEST(LoadQueueTest, AClientThatWaitsForLongLeavesThreadsToOthers) {
  Jobs jobs;
  LoadQueue queue({.threads = 3, .threads_of_client = 2});
  for (int i = 0; i < 3; ++i) queue.Add(&kSessions[i], "slow", jobs.Make(std::to_string(i)));
  EXPECT_THAT(jobs.AwaitBegun(2), UnorderedElementsAre("0", "1"));
  queue.Add(&kSessions[3], "quick", jobs.Make("quick"));
  EXPECT_THAT(jobs.AwaitBegun(3), ::testing::Contains("quick"));
  jobs.End("quick");
  jobs.End("0");
  EXPECT_THAT(jobs.AwaitBegun(4), ::testing::Contains("2"));
  jobs.End("1");
  jobs.End("2");
}

TEST(LoadQueueTest, ThreadsThatAreMissingHarmNobody) {
  Jobs jobs;
  int left = 0;
  LoadQueue queue({.threads = 3, .threads_of_client = 3, .start = [&](std::function<void()> run) {
                     if (left-- <= 0) {
                       throw std::system_error(EAGAIN, std::generic_category(), "a test");
                     }
                     return std::thread(std::move(run));
                   }});
  EXPECT_FALSE(queue.Add(&kSessions[0], "c", [] { FAIL() << "it was refused"; }));
  left = 1;
  EXPECT_TRUE(queue.Add(&kSessions[0], "c", jobs.Make("a")));
  EXPECT_THAT(jobs.AwaitBegun(1), UnorderedElementsAre("a"));
  // The only thread does it when it can.
  EXPECT_TRUE(queue.Add(&kSessions[1], "c", jobs.Make("b")));
  jobs.End("a");
  EXPECT_THAT(jobs.AwaitBegun(2), UnorderedElementsAre("a", "b"));
  jobs.End("b");
}

}  // namespace
}  // namespace pto::daemon
