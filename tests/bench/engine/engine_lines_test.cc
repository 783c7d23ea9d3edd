#include "tests/bench/engine/engine_lines.h"

#include <cstdio>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pto::bench {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

Cost Total(double ns) { return {.build_ns = ns / 2, .run_ns = ns / 2, .total_ns = ns, .bytes = 1}; }

// The printed lines, and the number of missed targets.
struct Printed {
  std::vector<std::string> lines;
  int missed = 0;
};

template <typename Add>
Printed Print(Add add) {
  std::FILE* const out = std::tmpfile();
  Report report(Report::Format::kJson, out);
  add(report);
  Printed printed;
  printed.missed = report.missed();
  std::rewind(out);
  char line[1024];
  while (std::fgets(line, sizeof(line), out) != nullptr) printed.lines.push_back(line);
  std::fclose(out);
  return printed;
}

Printed PrintCase(const GraphCase& measured, const Costs& costs) {
  return Print([&](Report& report) { AddCaseLines(measured, costs, report); });
}

TEST(CaseTest, IsNamedAfterThePowerOfTen) {
  EXPECT_EQ((GraphCase{Shape::kWavefront, 1'000'000, 2}.name()), "wavefront_1e6_2t");
}

TEST(EngineLinesTest, SaysNothingOfWhatWasNotMeasured) {
  EXPECT_THAT(PrintCase({}, {}).lines, IsEmpty());
  const Printed printed = PrintCase({}, {{Contender::kFound, Total(100)}});
  EXPECT_THAT(printed.lines, Not(Contains(HasSubstr("named"))));
  EXPECT_THAT(printed.lines, Contains(HasSubstr("\"chain_1e5_1t_found_total\"")));
}

TEST(EngineLinesTest, RecordsMayCostATwentiethOfAWavefront) {
  const auto missed = [](Shape shape, double recorded) {
    const Costs costs = {{Contender::kNamed, Total(100)}, {Contender::kRecorded, Total(recorded)}};
    return Print([&](Report& report) { AddRecordedLines({.shape = shape}, costs, report); }).missed;
  };
  EXPECT_EQ(missed(Shape::kWavefront, 105), 0);
  EXPECT_EQ(missed(Shape::kWavefront, 106), 1);
  EXPECT_EQ(missed(Shape::kTree, 106), 0);
  const auto alone = [](Report& report) {
    AddRecordedLines({}, {{Contender::kNamed, Total(100)}}, report);
  };
  EXPECT_THAT(Print(alone).lines, IsEmpty());
}

TEST(EngineLinesTest, RunOfAChainMayTakeAsLongAsOneTbbs) {
  const Costs costs = {{Contender::kNamed, {.run_ns = 40, .total_ns = 40, .bytes = 200}},
                       {Contender::kOneTbb, {.run_ns = 40, .total_ns = 100, .bytes = 400}}};
  EXPECT_EQ(PrintCase({.shape = Shape::kChain}, costs).missed, 0);
  EXPECT_EQ(PrintCase({.shape = Shape::kTree}, costs).missed, 1);
}

TEST(EngineLinesTest, TotalAndBytesHaveTargets) {
  const Costs costs = {{Contender::kNamed, {.run_ns = 1, .total_ns = 41, .bytes = 201}},
                       {Contender::kOneTbb, {.run_ns = 40, .total_ns = 100, .bytes = 400}}};
  EXPECT_EQ(PrintCase({}, costs).missed, 2);
}

TEST(EngineLinesTest, OpenMpIsATargetWhereItHasAGraph) {
  const Costs costs = {{Contender::kFound, Total(41)}, {Contender::kOpenMp, Total(100)}};
  for (const Shape shape : kShapes) {
    const bool counts = shape != Shape::kIndependent && shape != Shape::kTree;
    EXPECT_EQ(PrintCase({.shape = shape}, costs).missed, counts ? 1 : 0) << ShapeName(shape);
  }
}

TEST(EngineLinesTest, StarPuIsATargetEverywhere) {
  for (const Shape shape : kShapes) {
    EXPECT_EQ(PrintCase({.shape = shape},
                        {{Contender::kFound, Total(50)}, {Contender::kStarPu, Total(1000)}})
                  .missed,
              0);
    EXPECT_EQ(PrintCase({.shape = shape},
                        {{Contender::kFound, Total(51)}, {Contender::kStarPu, Total(1000)}})
                  .missed,
              1);
  }
}

TEST(EngineLinesTest, GrowthAndRelaunchHaveTargets) {
  const GraphCase small;
  const GraphCase large{.tasks = 1'000'000};
  const auto growth = [&](double to) {
    return Print([&](Report& report) {
      AddGrowthLines(small, {{Contender::kNamed, Total(100)}}, large,
                     {{Contender::kNamed, Total(to)}}, report);
    });
  };
  EXPECT_EQ(growth(130).missed, 0);
  EXPECT_EQ(growth(131).missed, 1);
  EXPECT_THAT(growth(131).lines, Contains(HasSubstr("\"chain_1e6_1t_named_growth\"")));
  const auto relaunch = [&](double seconds) {
    return Print([&](Report& report) { AddRelaunchLine(small, seconds, 1, report); });
  };
  EXPECT_EQ(relaunch(0.05).missed, 0);
  EXPECT_EQ(relaunch(0.051).missed, 1);
}

}  // namespace
}  // namespace pto::bench
