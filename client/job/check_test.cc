#include "client/job/check.h"

#include <cmath>
#include <limits>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "client/job/replay.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"

namespace pto::job {
namespace {

using ::testing::ElementsAre;

v1::Tolerance Within(double absolute, double relative) {
  v1::Tolerance tolerance;
  tolerance.set_absolute(absolute);
  tolerance.set_relative(relative);
  return tolerance;
}

Array Floats(std::vector<double> values, std::vector<int64_t> shape = {}) {
  Array array =
      MakeArray(pto::v1::F32,
                shape.empty() ? std::vector<int64_t>{static_cast<int64_t>(values.size())} : shape);
  for (size_t i = 0; i < values.size(); ++i) array.Set(i, values[i]);
  return array;
}

PreparedJob Prepare(const std::string& text) {
  absl::StatusOr<JobFile> file = ParseJob("f.json", text);
  EXPECT_THAT(file, testing::IsOk());
  absl::StatusOr<PreparedJob> job = PrepareJob(*std::move(file));
  EXPECT_THAT(job, testing::IsOk());
  return *std::move(job);
}

TEST(CheckTest, RoundsWhatIsExpected) {
  const CheckResult result = Compare(Floats({0.1, 0.2}), {0.1, 0.2}, {});
  EXPECT_TRUE(result.ok());
  EXPECT_EQ(Describe(result), "ok (2 elements, max error 0)");
}

TEST(CheckTest, FindsTheFirstMismatch) {
  const CheckResult result = Compare(Floats({1, 2, 3, 4.5}, {2, 2}), {1, 2, 4, 4}, {});
  EXPECT_FALSE(result.ok());
  EXPECT_EQ(Describe(result),
            "FAILED: 2 of 4 elements differ, the first at [1,0]: got 3, expected 4 (max error 1)");
}

TEST(CheckTest, AllowsATolerance) {
  EXPECT_TRUE(Compare(Floats({101}), {100}, Within(1, 0)).ok());
  EXPECT_FALSE(Compare(Floats({101.5}), {100}, Within(1, 0)).ok());
  EXPECT_TRUE(Compare(Floats({101.5}), {100}, Within(0, 0.02)).ok());
  EXPECT_TRUE(Compare(Floats({101.5}), {100}, Within(1, 0.01)).ok());
}

TEST(CheckTest, TreatsNanAndInfinityAsValues) {
  const double nan = std::nan("");
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(Compare(Floats({nan, infinity}), {nan, infinity}, {}).ok());
  EXPECT_FALSE(Compare(Floats({nan}), {0}, Within(1e9, 0)).ok());
  EXPECT_FALSE(Compare(Floats({0}), {nan}, Within(1e9, 1)).ok());
  EXPECT_FALSE(Compare(Floats({infinity}), {-infinity}, Within(1, 1)).ok());
  EXPECT_FALSE(Compare(Floats({5}), {infinity}, Within(1, 1)).ok());
}

TEST(CheckTest, KnowsEveryKindOfExpectation) {
  const PreparedJob job = Prepare(R"({"buffers": [
      {"name": "a", "dtype": "I32", "shape": [2], "init": {"iota": {"start": 5}}},
      {"name": "b", "dtype": "I32", "shape": [2]}],
    "graph": {"tasks": [{"kernel": "copy", "args": ["a", "b"]}]},
    "references": [{"name": "same", "op": "COPY", "inputs": ["a"]}],
    "checks": [{"tensor": "b", "values": {"inline": {"values": [5, 6]}}},
               {"tensor": "b", "equals": "a"},
               {"tensor": "b", "reference": "same"},
               {"tensor": "b", "replay": true}]})");
  const std::string good = job.buffers[0].initial.bytes;
  absl::StatusOr<std::vector<CheckResult>> results = RunChecks(job, {good, good});
  ASSERT_THAT(results, testing::IsOk());
  ASSERT_EQ(results->size(), 4u);
  for (const CheckResult& result : *results) EXPECT_TRUE(result.ok()) << Describe(result);
  results = RunChecks(job, {good, std::string(8, '\0')});
  ASSERT_THAT(results, testing::IsOk());
  for (const CheckResult& result : *results) {
    EXPECT_EQ(result.tensor, "b");
    EXPECT_EQ(result.mismatches, 2);
  }
}

std::vector<double> ReplayOf(const std::string& tasks, const std::string& name) {
  const PreparedJob job = Prepare(R"({"buffers": [
      {"name": "a", "dtype": "F32", "shape": [2, 2], "init": {"inline": {"values": [1, 2, 3, 4]}}},
      {"name": "b", "dtype": "F32", "shape": [2, 2], "init": {"inline": {"values": [5, 6, 7, 8]}}},
      {"name": "c", "dtype": "F32", "shape": [2, 2]},
      {"name": "n", "dtype": "I64", "shape": [1]}],
    "graph": {"scalars": [{"name": "two", "value": {"i64": 2}}],
      "tensors": [{"name": "column", "buffer": "a", "shape": [2], "strides": [2], "offset": 1},
                  {"name": "top", "buffer": "c", "shape": [2]}],
      "tasks": [)" + tasks + "]}}");
  absl::StatusOr<std::vector<std::string>> memory = Replay(job);
  EXPECT_THAT(memory, testing::IsOk());
  const NamedView& view = job.views.at(name);
  return ToNumbers(view.view.Extract((*memory)[view.buffer])).values;
}

TEST(ReplayTest, KnowsTheKernels) {
  EXPECT_THAT(ReplayOf(R"({"kernel": "add", "args": ["a", "b", "c"]})", "c"),
              ElementsAre(6, 8, 10, 12));
  EXPECT_THAT(ReplayOf(R"({"kernel": "kernels/sub", "args": ["a", "b", "c"]})", "c"),
              ElementsAre(-4, -4, -4, -4));
  EXPECT_THAT(ReplayOf(R"({"kernel": "mul", "args": ["a", "b", "c"]})", "c"),
              ElementsAre(5, 12, 21, 32));
  EXPECT_THAT(
      ReplayOf(R"({"kernel": "scale", "args": ["a", "c"], "scalars": [{"ref": "two"}]})", "c"),
      ElementsAre(2, 4, 6, 8));
  EXPECT_THAT(ReplayOf(R"({"kernel": "axpy", "args": ["a", "b"], "scalars": [{"f64": 10}]})", "b"),
              ElementsAre(15, 26, 37, 48));
  EXPECT_THAT(ReplayOf(R"({"kernel": "matmul", "args": ["a", "b", "c"]})", "c"),
              ElementsAre(19, 22, 43, 50));
  EXPECT_THAT(ReplayOf(R"({"kernel": "fill", "args": ["top"], "scalars": [{"f64": 0.1}]})", "c"),
              ElementsAre(0.1f, 0.1f, 0, 0));
  EXPECT_THAT(
      ReplayOf(R"({"kernel": "iota", "args": ["c"], "scalars": [{"i64": 3}, {"f64": 2}]})", "c"),
      ElementsAre(3, 5, 7, 9));
  EXPECT_THAT(ReplayOf(R"({"kernel": "reduce_sum", "args": ["a", "n"]})", "n"), ElementsAre(10));
  EXPECT_THAT(
      ReplayOf(R"({"kernel": "compare", "args": ["a", "b", "n"], "scalars": [{"f64": 0.6}]})", "n"),
      ElementsAre(1));
}

TEST(ReplayTest, KnowsWhatNeedsNoCore) {
  EXPECT_THAT(ReplayOf(R"({"kernel": "copy_async", "args": ["c", "a"]}, {"kernel": "join"})", "c"),
              ElementsAre(1, 2, 3, 4));
  const std::string notify =
      R"({"kernel": "notify", "args": ["n"], "scalars": [{"op": "SET"}, {"i64": 5}]},
         {"kernel": "notify", "args": ["n"], "scalars": [{"op": "ADD"}, {"i64": -2}]},
         {"kernel": "wait", "args": ["n"],
          "scalars": [{"compare": "GE"}, {"i64": 100}, {"i64": 0}]})";
  EXPECT_THAT(ReplayOf(notify, "n"), ElementsAre(3));
}

TEST(ReplayTest, FollowsPredicatesAndMembers) {
  const auto fill_if = [](const std::string& compare, int value) {
    return absl::StrCat(R"({"kernel": "fill", "args": ["n"], "scalars": [{"i64": 7}]},
                           {"kernel": "fill", "args": ["c"], "scalars": [{"f64": 1}],
                            "predicate": {"tensor": "n", "compare": ")",
                        compare, R"(", "value": )", value, "}}");
  };
  const std::tuple<const char*, int, bool> cases[] = {
      {"EQ", 7, true}, {"EQ", 8, false}, {"NE", 8, true}, {"NE", 7, false},
      {"GT", 6, true}, {"GT", 7, false}, {"GE", 7, true}, {"GE", 8, false},
      {"LT", 8, true}, {"LT", 7, false}, {"LE", 7, true}, {"LE", 6, false}};
  for (const auto& [compare, value, runs] : cases) {
    EXPECT_EQ(ReplayOf(fill_if(compare, value), "c")[0], runs ? 1 : 0) << compare << value;
  }
  EXPECT_THAT(ReplayOf(R"({"kernel": "fill", "scalars": [{"f64": 2}],
                           "members": [{"args": ["top"]}, {"args": ["n"]}]})",
                       "c"),
              ElementsAre(2, 2, 0, 0));
}

TEST(ReplayTest, TreatsIntegersAsKernelsDo) {
  const PreparedJob job = Prepare(R"({"buffers": [
      {"name": "a", "dtype": "I8", "shape": [2], "init": {"inline": {"values": [100, -100]}}},
      {"name": "b", "dtype": "U8", "shape": [2], "init": {"inline": {"values": [200, 1]}}},
      {"name": "c", "dtype": "I32", "shape": [1]}],
    "graph": {"tasks": [{"kernel": "add", "args": ["a", "a", "a"]},
                        {"kernel": "scale", "args": ["b", "b"], "scalars": [{"f64": -2.75}]},
                        {"kernel": "fill", "args": ["c"], "scalars": [{"f64": -1.5}]}]}})");
  absl::StatusOr<std::vector<std::string>> memory = Replay(job);
  ASSERT_THAT(memory, testing::IsOk());
  EXPECT_THAT(ToNumbers(job.views.at("a").view.Extract((*memory)[0])).values, ElementsAre(-56, 56));
  EXPECT_THAT(ToNumbers(job.views.at("b").view.Extract((*memory)[1])).values,
              ElementsAre(112, 254));
  EXPECT_THAT(ToNumbers(job.views.at("c").view.Extract((*memory)[2])).values, ElementsAre(-1));
}

TEST(ReplayTest, FollowsViewsAndOrder) {
  EXPECT_THAT(ReplayOf(R"({"kernel": "copy", "args": ["column", "top"]},
                          {"kernel": "noop"}, {"kernel": "spin", "scalars": [{"i64": 1}]},
                          {"kernel": "add", "args": ["c", "c", "c"]})",
                       "c"),
              ElementsAre(4, 8, 0, 0));
}

}  // namespace
}  // namespace pto::job
