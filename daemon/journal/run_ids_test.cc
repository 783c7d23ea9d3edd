#include "daemon/journal/run_ids.h"

#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace pto::daemon {
namespace {

class RunIdsTest : public ::testing::Test {
 protected:
  RunIds::Options Options(size_t max_ids = 10'000) {
    RunIds::Options options;
    options.max_ids = max_ids;
    options.max_age = absl::Hours(168);
    options.clock = &clock_;
    return options;
  }
  static uint64_t Hash(int number) { return HashOfRunId("s", absl::StrCat("run-", number)); }

  ManualClock clock_;
};

// Journals have them: this must never change.
TEST_F(RunIdsTest, AHashIsForEver) {
  EXPECT_EQ(HashOfRunId("s", "r"), 2819651811191500256u);
  EXPECT_NE(HashOfRunId("s", "r"), HashOfRunId("r", "s"));
  EXPECT_NE(HashOfRunId("ab", "c"), HashOfRunId("a", "bc"));
}

TEST_F(RunIdsTest, HashesDiffer) {
  std::set<uint64_t> hashes;
  for (int i = 0; i < 100'000; ++i) hashes.insert(Hash(i));
  EXPECT_EQ(hashes.size(), 100'000u);
}

TEST_F(RunIdsTest, KnowsWhatWasAdded) {
  RunIds ids(Options());
  for (int i = 0; i < 5000; ++i) ids.Add(Hash(i));
  for (int i = 0; i < 5000; ++i) ids.Add(Hash(i));
  EXPECT_EQ(ids.size(), 5000u);
  for (int i = 0; i < 10'000; ++i) EXPECT_EQ(ids.Contains(Hash(i)), i < 5000) << i;
}

TEST_F(RunIdsTest, ForgetsTheOldestWhenThereAreTooMany) {
  RunIds ids(Options(10'000));
  constexpr int kAdded = 100'000;  // more than a number of a generation lasts
  for (int i = 0; i < kAdded; ++i) {
    ids.Add(Hash(i));
    ASSERT_LE(ids.size(), 10'000u);
  }
  EXPECT_GE(ids.size(), 10'000u - 10'000 / 64);
  for (int i = 0; i < kAdded; ++i) {
    if (i >= kAdded - 9800) {
      ASSERT_TRUE(ids.Contains(Hash(i))) << i;
    } else if (i < kAdded - 10'000) {
      ASSERT_FALSE(ids.Contains(Hash(i))) << i;
    }
  }
}

TEST_F(RunIdsTest, KeepsThemForTheirTime) {
  RunIds ids(Options());
  for (int hour = 0; hour < 1000; ++hour) {
    ids.Add(Hash(hour));
    for (int age = 0; age <= 168 && age <= hour; ++age) {
      ASSERT_TRUE(ids.Contains(Hash(hour - age))) << age;
    }
    // Some are kept a little longer.
    if (hour >= 172) {
      ASSERT_FALSE(ids.Contains(Hash(hour - 172))) << hour;
    }
    clock_.Advance(absl::Hours(1));
  }
}

TEST_F(RunIdsTest, ThoseOfFormerBootsAreOld) {
  RunIds ids(Options());
  ids.Add(Hash(1), absl::Hours(200));
  ids.Add(Hash(2), absl::Hours(100));
  EXPECT_FALSE(ids.Contains(Hash(1)));
  EXPECT_TRUE(ids.Contains(Hash(2)));
  clock_.Advance(absl::Hours(100));
  ids.Add(Hash(3));
  EXPECT_FALSE(ids.Contains(Hash(2)));
}

TEST_F(RunIdsTest, OneThatIsUsedAgainIsYoung) {
  RunIds ids(Options());
  ids.Add(Hash(1));
  clock_.Advance(absl::Hours(100));
  ids.Add(Hash(1));
  EXPECT_EQ(ids.size(), 1u);
  clock_.Advance(absl::Hours(100));
  ids.Add(Hash(2));
  EXPECT_TRUE(ids.Contains(Hash(1)));
}

TEST_F(RunIdsTest, HaveAnEighthOfTheJournal) {
  EXPECT_EQ(RunIds::MaxIds(uint64_t{256} << 20), 4'194'304u);
  EXPECT_EQ(RunIds::MaxIds(512 << 10), 8192u);
  EXPECT_EQ(RunIds::MaxIds(uint64_t{1} << 50), 8'388'608u);
}

}  // namespace
}  // namespace pto::daemon
