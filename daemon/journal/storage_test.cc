#include "daemon/journal/storage.h"

#include <fstream>
#include <string>

#include "daemon/journal/testing/memory_storage.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"
#include "tests/harness/directory.h"

namespace pto::daemon {
namespace {

using ::pto::testing::HasReason;
using ::pto::testing::IsOk;
using ::testing::Contains;
using ::testing::Not;

// What both kinds do.
void Check(Storage& storage) {
  auto file = storage.Create("a", 1 << 16);
  ASSERT_THAT(file, IsOk());
  ASSERT_THAT((*file)->WriteAt(0, "hello"), IsOk());
  ASSERT_THAT((*file)->WriteAt(5, " world"), IsOk());
  ASSERT_THAT((*file)->Truncate(7), IsOk());
  ASSERT_THAT((*file)->Sync(), IsOk());
  ASSERT_THAT(storage.SyncNames(), IsOk());
  EXPECT_EQ(storage.Read("a").value(), "hello w");
  ASSERT_THAT(storage.Create("b", 0), IsOk());
  ASSERT_THAT(storage.Rename("a", "b"), IsOk());
  EXPECT_EQ(storage.Read("b").value(), "hello w");
  EXPECT_THAT(storage.Read("a"), HasReason(reason::kPathUnusable));
  EXPECT_THAT(storage.List().value(), Contains("b"));
  // Replaces it.
  ASSERT_THAT(storage.Create("b", 0), IsOk());
  EXPECT_EQ(storage.Read("b").value(), "");
  ASSERT_THAT(storage.Remove("b"), IsOk());
  EXPECT_THAT(storage.List().value(), Not(Contains("b")));
  EXPECT_THAT(storage.Rename("none", "b"), HasReason(reason::kPathUnusable));
}

TEST(StorageTest, ADirectory) {
  const pto::testing::Directory directory;
  Check(*OpenDirectory(directory.path()));
  EXPECT_EQ(OpenDirectory("/x")->Path("y"), "/x/y");
  EXPECT_THAT(OpenDirectory("/nonexistent")->List(), HasReason(reason::kPathUnusable));
  EXPECT_THAT(OpenDirectory("/nonexistent")->Create("a", 0), HasReason(reason::kPathUnusable));
}

TEST(StorageTest, AMemory) {
  testing::MemoryStorage storage;
  Check(storage);
}

// ---- what the one for tests simulates

TEST(MemoryStorageTest, APowerCutLosesWhatWasNotSynced) {
  testing::MemoryStorage storage;
  const auto file = storage.Create("a", 0).value();
  ASSERT_THAT(file->WriteAt(0, std::string(8192, 'x')), IsOk());
  ASSERT_THAT(file->Sync(), IsOk());
  ASSERT_THAT(storage.SyncNames(), IsOk());
  ASSERT_THAT(file->WriteAt(8192, std::string(4096, 'y')), IsOk());
  ASSERT_THAT(storage.Create("b", 0), IsOk());
  EXPECT_EQ(storage.AfterKill()->Get("a").size(), 12'288u);
  bool lost = false, kept = false, named = false, unnamed = false;
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const auto after = storage.AfterPowerCut(seed);
    const std::string bytes = after->Get("a");
    EXPECT_EQ(bytes.substr(0, 8192), std::string(8192, 'x'));
    (bytes.size() == 8192 ? lost : kept) = true;
    (after->List().value().size() == 1 ? unnamed : named) = true;
  }
  EXPECT_TRUE(lost && kept && named && unnamed);
}

TEST(MemoryStorageTest, ASyncThatFailsLosesBlocksForEver) {
  testing::MemoryStorage storage;
  const auto file = storage.Create("a", 0).value();
  ASSERT_THAT(storage.SyncNames(), IsOk());
  ASSERT_THAT(file->WriteAt(0, "first"), IsOk());
  storage.FailSyncs(100);
  EXPECT_THAT(file->Sync(), HasReason(reason::kPathUnusable));
  storage.FailSyncs(0);
  EXPECT_THAT(file->Sync(), IsOk());
  for (uint32_t seed = 0; seed < 20; ++seed) {
    EXPECT_EQ(storage.AfterPowerCut(seed)->Get("a"), std::string(5, '\0'));
  }
}

}  // namespace
}  // namespace pto::daemon
