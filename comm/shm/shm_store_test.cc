#include "comm/shm/shm_store.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "comm/segment_store.h"
#include "comm/shm/process_identity.h"

namespace pto::comm {
namespace {

class ShmStoreTest : public testing::Test {
 protected:
  ShmStoreTest() : store_(""), name_(absl::StrCat("store-test-", getpid())) {}
  ~ShmStoreTest() override { unlink(Path().c_str()); }

  std::string Path() const {
    return absl::StrCat("/dev/shm/ptod@", geteuid(), "@", PidNamespace(), "@", name_);
  }
  bool Exists() const { return access(Path().c_str(), F_OK) == 0; }
  // A window's segment that was made by this identity.
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
  EXPECT_TRUE(absl::IsNotFound(store_.Open(name_).status()));
  auto made = store_.Publish(name_, 8192, [&](std::byte* data) {
    EXPECT_FALSE(Exists());
    EXPECT_EQ(data[8191], std::byte{0});
    data[8191] = std::byte{42};
  });
  ASSERT_TRUE(made.ok()) << made.status();
  auto opened = store_.Open(name_);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ((*opened)->size(), 8192u);
  EXPECT_EQ((*opened)->data()[8191], std::byte{42});
  (*opened)->data()[0] = std::byte{1};
  EXPECT_EQ((*made)->data()[0], std::byte{1});
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
  // As if made by one that had this pid before.
  reinterpret_cast<SegmentPrefix*>((*segment)->data())->creator ^= 1;
  store_.Sweep();
  EXPECT_FALSE(Exists());
}

TEST_F(ShmStoreTest, LeavesAloneWhatItDoesNotKnow) {
  const int fd = open(Path().c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  ASSERT_GE(fd, 0);
  EXPECT_FALSE(store_.Open(name_).ok());  // empty
  ASSERT_EQ(ftruncate(fd, 4096), 0);
  close(fd);
  store_.Sweep();
  EXPECT_TRUE(Exists());
  auto segment = store_.Open(name_);
  ASSERT_TRUE(segment.ok());
  EXPECT_FALSE(CheckPrefix(name_, **segment, SegmentPrefix::kJob, 64).ok());
}

TEST_F(ShmStoreTest, ALinkIsNotFollowed) {
  ASSERT_EQ(symlink("/etc/passwd", Path().c_str()), 0);
  EXPECT_FALSE(store_.Open(name_).ok());
  EXPECT_TRUE(absl::IsAlreadyExists(Publish(1).status()));
}

}  // namespace
}  // namespace pto::comm
