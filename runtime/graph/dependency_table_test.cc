#include "runtime/graph/dependency_table.h"

#include <cstdint>
#include <random>
#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pto::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

class DependencyTableTest : public ::testing::Test {
 protected:
  uint32_t AddTask(const std::vector<uint32_t>& before) {
    const uint32_t count = table_.AddTask(before);
    AddRecord(count);
    return count;
  }
  void Write() {
    AddRecord(0);
    table_.Write(writer_, header_);
  }
  std::vector<uint32_t> Successors(uint32_t task) {
    const auto* const all = writer_.records<uint32_t>(header_.successors);
    return {all + writer_.tasks()[task].first_successor,
            all + writer_.tasks()[task + 1].first_successor};
  }
  std::vector<uint32_t> Roots() {
    const auto* const all = writer_.records<uint32_t>(header_.roots);
    return {all, all + header_.roots.count};
  }

  DependencyTable table_;
  ImageWriter writer_;
  ImageHeader header_;

 private:
  void AddRecord(uint32_t dependencies) {
    ImageTask& task = writer_.NextTask();
    task = ImageTask();
    task.dependencies = dependencies;
    writer_.KeepTask();
  }
};

TEST_F(DependencyTableTest, TurnsThemRound) {
  EXPECT_EQ(AddTask({}), 0u);
  EXPECT_EQ(AddTask({0}), 1u);
  EXPECT_EQ(AddTask({}), 0u);
  EXPECT_EQ(AddTask({2, 0, 1}), 3u);
  EXPECT_EQ(table_.size(), 4u);
  Write();
  EXPECT_EQ(header_.successors.count, 4u);
  EXPECT_THAT(Successors(0), ElementsAre(1, 3));
  EXPECT_THAT(Successors(1), ElementsAre(3));
  EXPECT_THAT(Successors(2), ElementsAre(3));
  EXPECT_THAT(Successors(3), ElementsAre());
  EXPECT_THAT(Roots(), ElementsAre(0, 2));
}

TEST_F(DependencyTableTest, EachCountsOnce) {
  AddTask({});
  AddTask({0, 0});
  EXPECT_EQ(AddTask({0, 1, 0, 1, 1}), 2u);
  EXPECT_EQ(table_.size(), 3u);
  Write();
  EXPECT_THAT(Successors(0), ElementsAre(1, 2));
  EXPECT_THAT(Successors(1), ElementsAre(2));
}

TEST_F(DependencyTableTest, ManyAtRandom) {
  std::mt19937 random(1);
  std::vector<std::set<uint32_t>> successors(3'000);
  std::vector<uint32_t> roots;
  for (uint32_t i = 0; i < successors.size(); ++i) {
    std::vector<uint32_t> before;
    std::set<uint32_t> once;
    if (i > 0) {
      for (uint32_t left = random() % 30; left > 0; --left) before.push_back(random() % i);
    }
    for (const uint32_t earlier : before) {
      once.insert(earlier);
      successors[earlier].insert(i);
    }
    if (once.empty()) roots.push_back(i);
    ASSERT_EQ(AddTask(before), once.size());
  }
  Write();
  for (uint32_t i = 0; i < successors.size(); ++i) {
    ASSERT_THAT(Successors(i), ElementsAreArray(successors[i]));
  }
  EXPECT_EQ(Roots(), roots);
}

}  // namespace
}  // namespace pto::engine
