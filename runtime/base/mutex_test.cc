#include "runtime/base/mutex.h"

#include <mutex>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace pto {
namespace {

using std::chrono::nanoseconds;

struct Counter {
  Mutex mutex;
  CondVar changed;
  int value ABSL_GUARDED_BY(mutex) = 0;
};

TEST(MutexTest, Excludes) {
  Counter counter;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) {
        MutexLock lock(counter.mutex);
        ++counter.value;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  MutexLock lock(counter.mutex);
  EXPECT_EQ(counter.value, 4000);
}

// Whether another thread could take it now.
bool IsFree(Mutex& mutex) {
  bool taken = false;
  std::thread([&mutex, &taken] {
    if (mutex.TryLock()) {
      taken = true;
      mutex.Unlock();
    }
  }).join();
  return taken;
}

TEST(MutexTest, TryLockFailsWhileAnotherThreadHoldsIt) {
  Mutex mutex;
  {
    MutexLock lock(mutex);
    EXPECT_FALSE(IsFree(mutex));
  }
  EXPECT_TRUE(IsFree(mutex));
}

TEST(MutexTest, WorksWithTheStandardLibrarysLocks) {
  Mutex a;
  Mutex b;
  {
    const std::scoped_lock both(a, b);
    EXPECT_FALSE(IsFree(a));
    EXPECT_FALSE(IsFree(b));
  }
  EXPECT_TRUE(IsFree(a));
  EXPECT_TRUE(IsFree(b));
}

TEST(CondVarTest, PassesTurnsBetweenThreads) {
  Counter counter;
  std::thread other([&counter] {
    for (int i = 0; i < 100; ++i) {
      MutexLock lock(counter.mutex);
      while (counter.value % 2 == 0) counter.changed.Wait(counter.mutex);
      ++counter.value;
      counter.changed.NotifyOne();
    }
  });
  for (int i = 0; i < 100; ++i) {
    MutexLock lock(counter.mutex);
    while (counter.value % 2 == 1) counter.changed.Wait(counter.mutex);
    ++counter.value;
    counter.changed.NotifyOne();
  }
  other.join();
  MutexLock lock(counter.mutex);
  EXPECT_EQ(counter.value, 200);
}

TEST(CondVarTest, WaitForEndsWhenTheTimeIsUp) {
  Counter counter;
  MutexLock lock(counter.mutex);
  while (counter.changed.WaitFor(counter.mutex, nanoseconds(1))) {
  }
  while (counter.changed.WaitFor(counter.mutex, nanoseconds::min())) {
  }
}

// A timeout beyond the range of the clock used to return at once.
TEST(CondVarTest, WaitForTakesTheLongestTimeoutThereIs) {
  Counter counter;
  std::thread other;
  {
    MutexLock lock(counter.mutex);
    other = std::thread([&counter] {
      MutexLock inner(counter.mutex);
      counter.value = 1;
      counter.changed.NotifyAll();
    });
    while (counter.value == 0) {
      EXPECT_TRUE(counter.changed.WaitFor(counter.mutex, nanoseconds::max()));
    }
  }
  other.join();
}

}  // namespace
}  // namespace pto
