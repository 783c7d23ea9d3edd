#include "client/kernel_check/kernel_check.h"

#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/sanitized.h"
#include "runtime/base/status_matchers.h"

namespace pto::kernel_check {
namespace {

using ::pto::testing::HasReason;
using ::pto::testing::IsOk;
using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Matcher;

Options ForObject(const std::string& object) {
  Options options;
  options.file = absl::StrCat(std::getenv("TEST_SRCDIR"), "/", std::getenv("TEST_WORKSPACE"),
                              "/tests/kernels/", object, ".so");
  return options;
}

std::string Text(const Report& report) {
  std::string text;
  for (const Finding& finding : report.findings) {
    absl::StrAppend(&text, ProblemName(finding.problem), ": ", finding.text, " [", finding.place,
                    "] (", finding.input, ")\n");
  }
  return text;
}

class KernelCheckTest : public ::testing::TestWithParam<const char*> {
 protected:
  Report Check(Options options) {
    absl::StatusOr<Report> report = CheckKernel(options);
    EXPECT_TRUE(report.ok()) << report.status();
    return report.ok() ? *std::move(report) : Report();
  }
  Options Object(const std::string& name) { return ForObject(absl::StrCat(name, "_", GetParam())); }
  Report CheckPlanted(const std::string& entry, uint32_t runs = 30) {
    Options options = Object("planted/planted");
    options.entry = entry;
    options.runs = runs;
    options.timeout = absl::Seconds(kSanitized ? 8 : 4);
    return Check(options);
  }
};

INSTANTIATE_TEST_SUITE_P(Compilers, KernelCheckTest, ::testing::Values("gcc", "clang"),
                         [](const auto& info) { return std::string(info.param); });

Matcher<Finding> Is(Problem problem, const std::string& text) {
  return AllOf(Field(&Finding::problem, problem), Field(&Finding::text, HasSubstr(text)));
}

TEST_P(KernelCheckTest, FindsPlantedBugs) {
  const struct {
    const char* entry;
    Matcher<Finding> expected;
  } cases[] = {
      {"past_end", Is(Problem::kOutside, "wrote 0 bytes behind the last element of z")},
      {"past_end", Is(Problem::kGapWritten, "wrote to 0 bytes behind the last element of z")},
      {"ignores_strides", Is(Problem::kGapWritten, "wrote to the gap behind element [0")},
      {"drops_rest", Is(Problem::kUnwritten, "elements of z are not written")},
      {"writes_input", Is(Problem::kInputWritten, "of x, which it only reads")},
      {"keeps_state", Is(Problem::kUnstable, "differs between two runs with the same inputs")},
      {"last_block_wins", Is(Problem::kBlockOrder, "differs when the last block runs first: ")},
      {"counts_blocks", Is(Problem::kBlockCount, "differs between")},
      {"divides_by_zero", Is(Problem::kCrash, "SIGFPE in block")},
      {"reads_neighbour", Is(Problem::kOutside, "read 0 bytes behind the last element of x")},
      {"reads_neighbour", Is(Problem::kGapRead, "depends on what is next to")},
      {"adds_to_output", Is(Problem::kOldContents, "depends on what the output held before")},
      {"reverses", Is(Problem::kSameView, "differs if it is the same view as x")},
      {"waits_secretly", Is(Problem::kCallRefused, "wait without the flag PTO_KERNEL_WAITS")},
      {"fails_silently", Is(Problem::kBadCode, "it returned 7 without set_error")},
      {"ends_process", Is(Problem::kEnded, "it ended its process with code 3")},
      {"overflows", Is(Problem::kCrash, "SIGSEGV")},
  };
  for (const auto& [entry, expected] : cases) {
    const Report report = CheckPlanted(entry);
    EXPECT_THAT(report.findings, Contains(expected)) << entry << "\n" << Text(report);
  }
}

TEST_P(KernelCheckTest, FindsWhatTakesTooLong) {
  EXPECT_THAT(CheckPlanted("ignores_cancel", 2).findings,
              Contains(Is(Problem::kCancelIgnored, "after its cancel flag was set")));
  const Report endless = CheckPlanted("endless");
  EXPECT_THAT(endless.findings, Contains(Is(Problem::kEndless, "did not end within")));
  EXPECT_THAT(endless.findings, Contains(Is(Problem::kCancelIgnored, "look at cancelled()")));
  EXPECT_EQ(endless.cases, 1u) << "one is enough";
  const Report waits = CheckPlanted("waits_forever", 1);
  EXPECT_THAT(waits.findings,
              Contains(Is(Problem::kNeverSatisfied, "until a word of word is >= 1 never ended")));
}

TEST_P(KernelCheckTest, NamesThePlaceInTheSource) {
  for (const char* entry : {"divides_by_zero", "writes_input"}) {
    const Report report = CheckPlanted(entry);
    EXPECT_THAT(report.findings, Contains(Field(&Finding::place, HasSubstr("planted.cc:"))))
        << Text(report);
  }
}

TEST_P(KernelCheckTest, FindsIgnoredOffsetsOfPtoKernels) {
  Options options = Object("planted/pto_no_offset");
  options.signature = "in f32[] x, out f32[] z";
  const Report report = Check(options);
  EXPECT_EQ(report.abi, "PTO");
  EXPECT_THAT(report.findings,
              Contains(AnyOf(Is(Problem::kGapWritten, "of z"), Is(Problem::kOutside, "of z"))))
      << Text(report);
}

TEST_P(KernelCheckTest, CorrectKernelsPass) {
  struct Good {
    const char* object;
    const char* entry;
    const char* signature;
    std::vector<const char*> shapes;
    std::vector<const char*> values;
    const char* blocks;
    uint32_t ranks;
  };
  const Good cases[] = {
      {"own_add", "", "", {}, {}, "", 1},
      {"own_add", "own_scale", "", {}, {}, "", 1},
      {"own_exercise", "", "", {"words=64"}, {"mode=0"}, "2", 1},
      {"pto_vector_add", "", "in f32[] x, in f32[] y, out f32[] z", {}, {}, "1", 1},
      {"pto_scale",
       "",
       "in f32[] x, out f32[] y, scalar f32 factor, scalar i32 shift",
       {},
       {},
       "1",
       1},
      {"pto_spmd", "", "inout i32[] out", {"out=100"}, {}, "4", 1},
      {"pto_allreduce",
       "",
       "in f32[] x, out f32[] y, hidden nodep u8[] w, domain(2)",
       {"x=16", "y=16", "w=1024"},
       {},
       "1",
       2},
      {"pto_async_notify",
       "",
       "out i32[] done, hidden nodep u32[] w, domain(1) d, address(1) a",
       {"done=1", "w=16"},
       {},
       "1",
       3},
  };
  for (const Good& each : cases) {
    Options options = Object(each.object);
    options.entry = each.entry;
    options.signature = each.signature;
    options.ranks = each.ranks;
    for (const char* shape : each.shapes) EXPECT_THAT(AddShape(shape, &options), IsOk());
    for (const char* values : each.values) EXPECT_THAT(AddValues(values, &options), IsOk());
    if (*each.blocks != '\0') {
      EXPECT_THAT(AddBlocks(each.blocks, &options), IsOk());
    }
    const Report report = Check(options);
    EXPECT_THAT(report.findings, IsEmpty()) << each.object << "\n" << Text(report);
    EXPECT_EQ(report.refused, 0u) << each.object << ": " << report.refusal;
    EXPECT_EQ(report.cases, 40u);
  }
}

TEST(KernelCheckObjectTest, KernelInCIsCheckedToo) {
  Options options = ForObject("own_add_c_gcc");
  ASSERT_THAT(AddShape("x=n", &options), IsOk());
  ASSERT_THAT(AddBlocks("1", &options), IsOk());
  options.dense = true;
  absl::StatusOr<Report> report = CheckKernel(options);
  ASSERT_THAT(report, IsOk());
  EXPECT_EQ(report->kernel, "add_one");
  EXPECT_THAT(report->findings, IsEmpty()) << Text(*report);
  // It takes only dense views of one dimension.
  options.dense = false;
  report = CheckKernel(options);
  ASSERT_THAT(report, IsOk());
  EXPECT_THAT(report->findings, Contains(Field(&Finding::problem, Problem::kGapWritten)))
      << Text(*report);
}

TEST(KernelCheckObjectTest, OneCaseCanBeRepeated) {
  Options options = ForObject("planted/planted_gcc");
  options.entry = "divides_by_zero";
  const absl::StatusOr<Report> all = CheckKernel(options);
  ASSERT_THAT(all, IsOk());
  ASSERT_FALSE(all->findings.empty());
  options.only = all->findings[0].case_index;
  const absl::StatusOr<Report> one = CheckKernel(options);
  ASSERT_THAT(one, IsOk());
  EXPECT_EQ(one->cases, 1u);
  ASSERT_FALSE(one->findings.empty());
  EXPECT_EQ(one->findings[0].text, all->findings[0].text);
  EXPECT_EQ(one->findings[0].input, all->findings[0].input);
}

TEST(KernelCheckObjectTest, KernelThatTakesNothingIsReported) {
  Options options = ForObject("own_exercise_gcc");
  ASSERT_THAT(AddValues("mode=5", &options), IsOk());
  const absl::StatusOr<Report> report = CheckKernel(options);
  ASSERT_THAT(report, IsOk());
  EXPECT_EQ(report->refused, report->cases);
  EXPECT_THAT(report->findings, Contains(Is(Problem::kEverythingRefused, "on purpose (code 77)")));
}

TEST(KernelCheckObjectTest, MistakesOfTheUserAreErrors) {
  Options options = ForObject("pto_scale_gcc");
  EXPECT_THAT(CheckKernel(options), HasReason(reason::kUsage));
  options.signature = "in f32[] x, aut f32[] y";
  EXPECT_THAT(CheckKernel(options), HasReason(reason::kFieldInvalid));
  options = ForObject("own_add_gcc");
  options.signature = "in f32[] x";
  EXPECT_THAT(CheckKernel(options), HasReason(reason::kUsage));
  options.signature = "";
  ASSERT_THAT(AddShape("u=4", &options), IsOk());
  EXPECT_THAT(CheckKernel(options), HasReason(reason::kUsage));
  options = ForObject("no_such_file");
  EXPECT_THAT(CheckKernel(options), HasReason(reason::kFieldInvalid));
}

TEST(KernelCheckObjectTest, DimensionsThatAreGivenMayLeaveLittleRoomForTheOthers) {
  for (const char* shape : {"m,64,64", "m,n,64,64", "m,128,128", "m,k,1000", "m,90,91"}) {
    Options options = ForObject("own_add_gcc");
    options.runs = 5;
    for (const char* tensor : {"x", "y", "z"}) {
      ASSERT_THAT(AddShape(absl::StrCat(tensor, "=", shape), &options), IsOk());
    }
    const absl::StatusOr<Report> report = CheckKernel(options);
    ASSERT_THAT(report, IsOk()) << shape;
    EXPECT_EQ(report->cases, 5u) << shape;
    EXPECT_THAT(report->findings, IsEmpty()) << Text(*report);
  }
}

TEST(KernelCheckObjectTest, TensorsThatAreTooLargeAreMistakesOfTheUser) {
  for (const char* shape : {"1048576,1048576", "8000,1000", "1048576,1048576,1048576,1048576"}) {
    Options options = ForObject("own_add_gcc");
    for (const char* tensor : {"x", "y", "z"}) {
      ASSERT_THAT(AddShape(absl::StrCat(tensor, "=", shape), &options), IsOk());
    }
    EXPECT_THAT(CheckKernel(options), HasReason(reason::kUsage)) << shape;
  }
}

TEST(KernelCheckOptionsTest, OptionsAreParsed) {
  Options options;
  ASSERT_THAT(AddShape("x=m,4,k", &options), IsOk());
  EXPECT_EQ(options.shapes["x"][1].number, 4);
  EXPECT_EQ(options.shapes["x"][2].letter, "k");
  ASSERT_THAT(AddValues("y=-1:2.5", &options), IsOk());
  EXPECT_EQ(options.values["y"].low, -1);
  EXPECT_EQ(options.values["y"].high, 2.5);
  ASSERT_THAT(AddBlocks("1,12", &options), IsOk());
  EXPECT_EQ(options.blocks[1], 12u);
  for (const char* text : {"", "x", "=3", "x=", "x=-1", "x=1,", "x=1,2,3,4,5,6", "x=+"}) {
    EXPECT_THAT(AddShape(text, &options), HasReason(reason::kUsage)) << text;
  }
  for (const char* text : {"", "x", "x=", "x=a", "x=2:1", "x=1:2:3", "x=nan"}) {
    EXPECT_THAT(AddValues(text, &options), HasReason(reason::kUsage)) << text;
  }
  for (const char* text : {"", "0", "1,", "257"}) {
    EXPECT_THAT(AddBlocks(text, &options), HasReason(reason::kUsage)) << text;
  }
}

}  // namespace
}  // namespace pto::kernel_check
