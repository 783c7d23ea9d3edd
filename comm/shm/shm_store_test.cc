#include "comm/shm/shm_store.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "comm/job.h"
#include "comm/job_layout.h"
#include "comm/segment_store.h"
#include "comm/shm/process_identity.h"
#include "comm/waiting.h"
#include "comm/window_layout.h"

namespace pto::comm {
namespace {

using testing::HasSubstr;

class ShmStoreTest : public testing::Test {
 protected:
  ShmStoreTest() : store_(""), name_(absl::StrCat("store-test-", getpid())) {}
  ~ShmStoreTest() override { unlink(Path().c_str()); }

  std::string Path() const {
    return absl::StrCat("/dev/shm/ptod@", geteuid(), "@", PidNamespace(), "@", name_);
  }
  static int64_t Soon() { return NowNanos() + 10'000'000'000; }
  // A job of one rank.
  JoinSpec JobSpec() const {
    JoinSpec spec;
    spec.name = name_;
    spec.deadline = Soon();
    return spec;
  }
  bool IsMapped() const {
    std::ifstream file("/proc/self/maps");
    const std::string maps(std::istreambuf_iterator<char>(file), {});
    return absl::StrContains(maps, name_);
  }
  bool Exists() const { return access(Path().c_str(), F_OK) == 0; }
  // Opens the segment if it is as long as it says.
  absl::StatusOr<std::unique_ptr<Segment>> Open() {
    SegmentPrefix prefix;
    return store_.Open(name_, BytesOf(prefix),
                       [&](size_t size) { return CheckAnyPrefix(name_, prefix, size); });
  }
  // Publishes a window segment of this creator.
  absl::StatusOr<std::unique_ptr<Segment>> Publish(uint64_t creator) {
    return store_.Publish(name_, 8192, [&](std::byte* data) {
      auto* prefix = reinterpret_cast<SegmentPrefix*>(data);
      *prefix = {SegmentPrefix::kMagic, SegmentPrefix::kVersion, SegmentPrefix::kWindow, 8192,
                 creator};
    });
  }

  ShmStore store_;
  const std::string name_;
};

TEST_F(ShmStoreTest, WhatIsPublishedCanBeOpenedOnceComplete) {
  EXPECT_TRUE(absl::IsNotFound(Open().status()));
  auto made = store_.Publish(name_, 8192, [&](std::byte* data) {
    EXPECT_FALSE(Exists());
    *reinterpret_cast<SegmentPrefix*>(data) = {SegmentPrefix::kMagic, SegmentPrefix::kVersion,
                                               SegmentPrefix::kWindow, 8192, 1};
    EXPECT_EQ(data[8191], std::byte{0});
    data[8191] = std::byte{42};
  });
  ASSERT_TRUE(made.ok()) << made.status();
  auto opened = Open();
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ((*opened)->size(), 8192u);
  EXPECT_EQ((*opened)->data()[8191], std::byte{42});
  (*opened)->data()[8190] = std::byte{1};
  EXPECT_EQ((*made)->data()[8190], std::byte{1});
  EXPECT_TRUE(absl::IsAlreadyExists(Publish(1).status()));
  struct stat file;
  ASSERT_EQ(stat(Path().c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777, 0600u);
}

TEST_F(ShmStoreTest, OnlyTheSegmentItselfLosesItsName) {
  auto first = Publish(1);
  ASSERT_TRUE(first.ok());
  store_.Remove(name_, **first);
  EXPECT_FALSE(Exists());
  auto second = Publish(1);
  ASSERT_TRUE(second.ok());
  store_.Remove(name_, **first);
  EXPECT_TRUE(Exists());
}

TEST_F(ShmStoreTest, SweepsWhatTheDeadHaveLeft) {
  auto segment = Publish(OwnIdentity());
  ASSERT_TRUE(segment.ok());
  store_.Sweep();
  EXPECT_TRUE(Exists());
  // As if created by an earlier process with this pid.
  reinterpret_cast<SegmentPrefix*>((*segment)->data())->creator ^= 1;
  store_.Sweep();
  EXPECT_FALSE(Exists());
}

TEST_F(ShmStoreTest, LeavesAloneWhatItDoesNotKnow) {
  const int fd = open(Path().c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  ASSERT_GE(fd, 0);
  EXPECT_FALSE(Open().ok());  // empty
  ASSERT_EQ(ftruncate(fd, 4096), 0);
  close(fd);
  store_.Sweep();
  EXPECT_TRUE(Exists());
  EXPECT_FALSE(Open().ok());
}

TEST_F(ShmStoreTest, ALinkIsNotFollowed) {
  ASSERT_EQ(symlink("/etc/passwd", Path().c_str()), 0);
  EXPECT_FALSE(Open().ok());
  EXPECT_TRUE(absl::IsAlreadyExists(Publish(1).status()));
}

// If it is shorter or longer than created, it is not mapped.
TEST_F(ShmStoreTest, ASegmentOfTheWrongSizeIsNotOpened) {
  ASSERT_TRUE(Publish(OwnIdentity()).ok());
  EXPECT_TRUE(Open().ok());
  for (const int size : {4096, 12288}) {
    ASSERT_EQ(truncate(Path().c_str(), size), 0);
    EXPECT_THAT(std::string(Open().status().message()),
                HasSubstr(absl::StrCat(name_, "' has ", size, " bytes; it was made with 8192")));
  }
  ASSERT_EQ(truncate(Path().c_str(), 8), 0);
  EXPECT_THAT(std::string(Open().status().message()),
              HasSubstr("has 8 bytes, fewer than the 32 of its head"));
}

TEST_F(ShmStoreTest, IsCheckedBeforeItIsMapped) {
  ASSERT_TRUE(Publish(OwnIdentity()).ok());
  SegmentPrefix prefix;
  bool checked = false;
  auto opened = store_.Open(name_, BytesOf(prefix), [&](size_t size) {
    EXPECT_EQ(size, 8192u);
    EXPECT_EQ(prefix.bytes, 8192u);
    EXPECT_FALSE(IsMapped());
    checked = true;
    return absl::OkStatus();
  });
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_TRUE(checked);
  EXPECT_TRUE(IsMapped());
}

TEST_F(ShmStoreTest, AJobOfTheWrongSizeIsNotJoined) {
  const JoinSpec spec = JobSpec();
  for (const size_t size : {sizeof(JobLayout) - 64, sizeof(JobLayout) + 64}) {
    auto other = store_.Publish(name_, size, [&](std::byte* data) {
      *reinterpret_cast<SegmentPrefix*>(data) = {SegmentPrefix::kMagic, SegmentPrefix::kVersion,
                                                 SegmentPrefix::kJob, size, OwnIdentity()};
    });
    ASSERT_TRUE(other.ok()) << other.status();
    EXPECT_THAT(std::string(JoinShm(spec).status().message()),
                HasSubstr(absl::StrCat("has ", size, " bytes; expected ", sizeof(JobLayout))));
    store_.Remove(name_, **other);
  }
}

TEST_F(ShmStoreTest, AWindowOfTheWrongSizeIsNotMade) {
  auto store = std::make_shared<ShmStore>("");
  auto joined = Job::Join(store, JobSpec());
  ASSERT_TRUE(joined.ok()) << joined.status();
  Job& job = static_cast<Job&>(**joined);
  WindowSpec spec;
  spec.ranks = {0};
  spec.bytes = 4096;
  spec.scratch_bytes = WindowLayout::kLeastScratch;
  for (const int64_t more : {-4096, 4096}) {
    ++spec.id;
    WindowFacts facts{};
    facts.id = spec.id;
    facts.bytes = spec.bytes;
    facts.scratch_bytes = spec.scratch_bytes;
    facts.rank_count = 1;
    const size_t expected = WindowLayout::For(facts).total;
    const size_t size = expected + static_cast<size_t>(more);
    facts.prefix = {SegmentPrefix::kMagic, SegmentPrefix::kVersion, SegmentPrefix::kWindow, size,
                    OwnIdentity()};
    const std::string name = job.WindowName(spec.id);
    auto other = store->Publish(name, size,
                                [&](std::byte* data) { std::memcpy(data, &facts, sizeof(facts)); });
    ASSERT_TRUE(other.ok()) << other.status();
    EXPECT_THAT(std::string(job.CreateWindow(spec, Soon()).status().message()),
                HasSubstr(absl::StrCat("has ", size, " bytes; expected ", expected)));
    store->Remove(name, **other);
  }
}

}  // namespace
}  // namespace pto::comm
