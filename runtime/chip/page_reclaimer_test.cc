#include "runtime/chip/page_reclaimer.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "runtime/base/mutex.h"

namespace pto::engine {
namespace {

constexpr std::chrono::minutes kLong(1);

// Files of this size hang until they are released.
constexpr uint64_t kHangs = 1;
constexpr uint64_t kQuick = 2;

class PageReclaimerTest : public ::testing::Test {
 protected:
  ~PageReclaimerTest() override {
    LetGo();
    if (reclaimer_ != nullptr) {
      EXPECT_TRUE(reclaimer_->AwaitNone(kLong));
    }
  }

  void Make(PageReclaimer::Options options = {}) {
    options.punch = [this](int, uint64_t bytes) { Punch(bytes); };
    reclaimer_ = std::make_unique<PageReclaimer>(std::move(options));
  }
  void Reclaim(uint64_t bytes) {
    reclaimer_->Reclaim(FileDescriptor(), bytes, [this] {
      MutexLock lock(mutex_);
      ++done_;
      changed_.NotifyAll();
    });
  }
  void Await(const int& count, int value) {
    MutexLock lock(mutex_);
    while (count != value) changed_.Wait(mutex_);
  }
  void AwaitHanging(int count) { Await(hanging_, count); }
  void AwaitDone(int count) { Await(done_, count); }
  void LetGo() {
    MutexLock lock(mutex_);
    let_go_ = true;
    changed_.NotifyAll();
  }
  // The number of threads that have done work.
  size_t Helpers() {
    MutexLock lock(mutex_);
    return helpers_.size();
  }

  std::unique_ptr<PageReclaimer> reclaimer_;

 private:
  void Punch(uint64_t bytes) {
    MutexLock lock(mutex_);
    helpers_.insert(std::this_thread::get_id());
    if (bytes != kHangs) return;
    ++hanging_;
    changed_.NotifyAll();
    while (!let_go_) changed_.Wait(mutex_);
    --hanging_;
  }

  Mutex mutex_;
  CondVar changed_;
  bool let_go_ = false;
  int hanging_ = 0;
  int done_ = 0;
  std::set<std::thread::id> helpers_;
};

// As seen by a client that keeps its mapping.
TEST(PagesTest, TheyAreFreeAndTheFileIsClosed) {
  constexpr uint64_t kBytes = 1 << 20;
  PageReclaimer reclaimer({});
  FileDescriptor file(memfd_create("test", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(file.get(), kBytes), 0);
  const FileDescriptor kept(dup(file.get()));
  void* const data = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, kept.get(), 0);
  ASSERT_NE(data, MAP_FAILED);
  *static_cast<char*>(data) = 1;
  const int number = file.get();
  std::atomic<bool> closed{false};
  reclaimer.Reclaim(std::move(file), kBytes, [&] { closed = fcntl(number, F_GETFD) == -1; });
  ASSERT_TRUE(reclaimer.AwaitNone(kLong));
  EXPECT_TRUE(closed);
  struct stat found = {};
  ASSERT_EQ(fstat(kept.get(), &found), 0);
  EXPECT_EQ(found.st_blocks, 0);
  EXPECT_EQ(*static_cast<char*>(data), 0);
  munmap(data, kBytes);
}

TEST_F(PageReclaimerTest, AFileThatHangsHoldsUpNobody) {
  Make();
  EXPECT_EQ(reclaimer_->threads(), 0u);
  for (int i = 1; i <= 3; ++i) {
    Reclaim(kHangs);
    AwaitHanging(i);
    Reclaim(kQuick);
    AwaitDone(i);
  }
  // The hanging files stay pending. The last of the others may still be counted.
  while (reclaimer_->pending() > 3) std::this_thread::yield();
  EXPECT_EQ(reclaimer_->pending(), 3u);
  EXPECT_FALSE(reclaimer_->AwaitNone(std::chrono::nanoseconds(0)));
  LetGo();
  AwaitDone(6);
  EXPECT_TRUE(reclaimer_->AwaitNone(kLong));
}

TEST_F(PageReclaimerTest, AlsoWhenAllComeAtOnce) {
  Make();
  for (const uint64_t bytes : {kHangs, kHangs, kQuick, kHangs, kQuick}) Reclaim(bytes);
  AwaitDone(2);
  AwaitHanging(3);
}

TEST_F(PageReclaimerTest, OneThreadIsEnoughForFilesThatDoNotHang) {
  PageReclaimer::Options options;
  options.patience = std::chrono::hours(1);
  Make(options);
  Reclaim(kHangs);
  AwaitHanging(1);
  for (int i = 0; i < 100; ++i) Reclaim(kQuick);
  // One more thread, which watches.
  EXPECT_EQ(reclaimer_->threads(), 2u);
  LetGo();
  AwaitDone(101);
  EXPECT_EQ(Helpers(), 1u);
}

TEST_F(PageReclaimerTest, ThreadsAreBounded) {
  PageReclaimer::Options options;
  options.patience = std::chrono::nanoseconds(0);
  options.max_threads = 2;
  Make(options);
  for (int i = 0; i < 5; ++i) Reclaim(kHangs);
  AwaitHanging(2);
  EXPECT_EQ(reclaimer_->threads(), 2u);
  LetGo();
  AwaitDone(5);
  EXPECT_EQ(Helpers(), 2u);
}

TEST_F(PageReclaimerTest, ThreadsLeaveAndComeAgain) {
  PageReclaimer::Options options;
  options.idle = std::chrono::nanoseconds(0);
  Make(options);
  for (int i = 1; i <= 3; ++i) {
    Reclaim(kQuick);
    AwaitDone(i);
    while (reclaimer_->threads() > 0) std::this_thread::yield();
  }
}

TEST_F(PageReclaimerTest, ItsEndWaitsForNobodyAndLeavesNothingUndone) {
  PageReclaimer::Options options;
  options.patience = std::chrono::hours(1);
  Make(options);
  Reclaim(kHangs);
  AwaitHanging(1);
  Reclaim(kQuick);
  reclaimer_.reset();
  LetGo();
  AwaitDone(2);
}

// The budget is such an owner: the last file destroys it.
TEST(PagesTest, TheLastFileMayTakeItsOwnerAlong) {
  std::atomic<bool> gone{false};
  struct Owner {
    explicit Owner(std::atomic<bool>& gone) : gone(gone) {}
    ~Owner() { gone = true; }
    std::atomic<bool>& gone;
    PageReclaimer reclaimer{PageReclaimer::Options()};
  };
  auto owner = std::make_shared<Owner>(gone);
  PageReclaimer& reclaimer = owner->reclaimer;
  reclaimer.Reclaim(FileDescriptor(), 0, [owner = std::move(owner)] {});
  while (!gone) std::this_thread::yield();
}

TEST_F(PageReclaimerTest, ManyAtOnce) {
  PageReclaimer::Options options;
  options.patience = std::chrono::microseconds(1);
  options.idle = std::chrono::microseconds(1);
  Make(options);
  constexpr int kThreads = 4;
  constexpr int kFiles = 200;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([this] {
      for (int k = 0; k < kFiles; ++k) Reclaim(kQuick);
    });
  }
  for (std::thread& thread : threads) thread.join();
  AwaitDone(kThreads * kFiles);
}

}  // namespace
}  // namespace pto::engine
