#include "tests/bench/samples.h"

#include "gtest/gtest.h"

namespace pto::bench {
namespace {

TEST(PercentileTest, IsOneOfTheSamples) {
  std::vector<double> samples;
  for (int i = 100; i >= 1; --i) samples.push_back(i);
  EXPECT_EQ(Percentile(samples, 50), 50);
  EXPECT_EQ(Percentile(samples, 99), 99);
  EXPECT_EQ(Percentile(samples, 100), 100);
  EXPECT_EQ(Percentile(samples, 0), 1);
  EXPECT_EQ(Percentile({7}, 99), 7);
  EXPECT_TRUE(std::isnan(Percentile({}, 50)));
}

TEST(RoundsTest, MedianAndLowest) {
  Rounds rounds;
  for (const double value : {3.0, 1.0, 9.0}) rounds.Add(value);
  EXPECT_EQ(rounds.median(), 3);
  EXPECT_EQ(rounds.lowest(), 1);
}

TEST(RoundsTest, RatiosAreTakenRoundByRound) {
  Rounds ours;
  Rounds theirs;
  for (const double value : {1.0, 10.0, 100.0}) ours.Add(value);
  for (const double value : {2.0, 40.0, 800.0}) theirs.Add(value);
  EXPECT_DOUBLE_EQ(ours.median_ratio(theirs), 0.25);
  // The ratio of the medians would be the same here, but not if the sides are slow in different
  // rounds.
  ours.Add(9.0);
  theirs.Add(9.0);
  ours.Add(1000.0);
  theirs.Add(1000.0);
  EXPECT_DOUBLE_EQ(ours.median_ratio(theirs), 0.5);
}

TEST(LatencyRoundsTest, OneBadRoundDoesNotCount) {
  LatencyRounds rounds;
  rounds.Add({1e-6, 2e-6, 3e-6});
  rounds.Add({1.0, 1.0, 1.0});
  rounds.Add({1e-6, 2e-6, 3e-6});
  EXPECT_DOUBLE_EQ(rounds.p50_us(), 2);
  EXPECT_DOUBLE_EQ(rounds.p99_us(), 3);
}

}  // namespace
}  // namespace pto::bench
