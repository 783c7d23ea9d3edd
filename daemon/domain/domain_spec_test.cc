#include "daemon/domain/domain_spec.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/pto_kernel.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"

namespace pto::daemon {
namespace {

using ::pto::testing::HasReason;
using ::pto::testing::IsOk;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

constexpr uint64_t kMax = 1 << 20;

DomainSpec TwoChips() {
  DomainSpec spec;
  spec.chips = {3, 1};
  spec.buffers = {{"a", PTO_F32, 3}, {"empty", PTO_F64, 0}, {"b", PTO_I8, 65}};
  spec.signal_count = 9;
  return spec;
}

absl::StatusOr<WindowLayout> Plan(DomainSpec spec, uint64_t max_bytes = kMax) {
  return PlanWindow(spec, max_bytes);
}

// The error's field, or what came instead.
std::string FieldOf(const DomainSpec& spec, uint64_t max_bytes = kMax) {
  const auto detail = GetErrorDetail(Plan(spec, max_bytes).status());
  return detail.has_value() ? detail->field : "no error";
}

TEST(DomainSpecTest, BuffersAndSignalsBeginOnCacheLines) {
  const absl::StatusOr<WindowLayout> layout = Plan(TwoChips());
  ASSERT_THAT(layout, IsOk());
  ASSERT_EQ(layout->buffers.size(), 3u);
  EXPECT_EQ(layout->buffers[0], (engine::ByteRange{0, 12}));
  EXPECT_EQ(layout->buffers[1], (engine::ByteRange{64, 64}));
  EXPECT_EQ(layout->buffers[2], (engine::ByteRange{64, 129}));
  EXPECT_EQ(layout->signals, (engine::ByteRange{192, 192 + 72}));
  EXPECT_EQ(layout->bytes, 264u);
}

TEST(DomainSpecTest, OnlyBuffersOrOnlySignals) {
  DomainSpec spec = TwoChips();
  spec.signal_count = 0;
  EXPECT_EQ(Plan(spec)->bytes, 129u);
  spec.buffers.clear();
  EXPECT_EQ(FieldOf(spec), "buffers");
  spec.signal_count = 1;
  EXPECT_EQ(Plan(spec)->bytes, 8u);
}

TEST(DomainSpecTest, AWindowMayBeLargerButNotSmaller) {
  DomainSpec spec = TwoChips();
  spec.window_bytes = 4096;
  EXPECT_EQ(Plan(spec)->bytes, 4096u);
  spec.window_bytes = 264;
  EXPECT_THAT(Plan(spec), IsOk());
  spec.window_bytes = 263;
  const absl::Status small = Plan(spec).status();
  EXPECT_THAT(small, HasReason(reason::kFieldInvalid));
  EXPECT_THAT(std::string(small.message()), HasSubstr("need 264 bytes, but the window has 263"));
  EXPECT_EQ(FieldOf(spec), "window_bytes");
}

TEST(DomainSpecTest, TooLargeWindows) {
  DomainSpec spec = TwoChips();
  EXPECT_EQ(FieldOf(spec, 263), "signal_count");
  EXPECT_EQ(FieldOf(spec, 128), "buffers[2].count");
  EXPECT_EQ(FieldOf(spec, 11), "buffers[0].count");
  spec.window_bytes = kMax + 1;
  EXPECT_EQ(FieldOf(spec), "window_bytes");
  spec.window_bytes = 0;
  // What overflows is too large as well.
  for (const uint64_t count : {~uint64_t{0}, uint64_t{1} << 62, (~uint64_t{0} / 4) - 1}) {
    spec.buffers[2] = {"b", PTO_F32, count};
    EXPECT_THAT(Plan(spec), HasReason(reason::kBufferTooLarge)) << count;
  }
}

// Two chips with one buffer of a type, as its count and its bytes describe it.
DomainSpec OneBuffer(uint32_t dtype, uint64_t count, uint64_t bytes) {
  DomainSpec spec;
  spec.chips = {0, 1};
  spec.buffers = {{"x", dtype, count, bytes}};
  return spec;
}

TEST(DomainSpecTest, ACountOrBytesOrBothDescribeABuffer) {
  for (const DomainSpec& given :
       {OneBuffer(PTO_F64, 3, 0), OneBuffer(PTO_F64, 0, 24), OneBuffer(PTO_F64, 3, 24)}) {
    DomainSpec spec = given;
    const absl::StatusOr<WindowLayout> layout = PlanWindow(spec, kMax);
    ASSERT_THAT(layout, IsOk());
    EXPECT_EQ(layout->buffers[0], (engine::ByteRange{0, 24}));
    EXPECT_EQ(spec, OneBuffer(PTO_F64, 3, 24));
  }
  DomainSpec empty = OneBuffer(PTO_F64, 0, 0);
  EXPECT_THAT(PlanWindow(empty, kMax), IsOk());
  EXPECT_EQ(empty, OneBuffer(PTO_F64, 0, 0));
}

struct Disagreement {
  DomainSpec spec;
  std::string message;
  std::string have;
  std::string want;
};

TEST(DomainSpecTest, ACountAndBytesThatDisagreeAreRefusedWithTheNumbers) {
  const uint64_t most = ~uint64_t{0};
  const Disagreement disagreements[] = {
      {OneBuffer(PTO_F32, 16, 60), "16 F32 elements have 64 bytes, not 60", "60", "64"},
      {OneBuffer(PTO_F32, 16, 68), "16 F32 elements have 64 bytes, not 68", "68", "64"},
      {OneBuffer(PTO_I8, 1, most), "1 I8 elements have 1 bytes", absl::StrCat(most), "1"},
      {OneBuffer(PTO_F64, 0, 12), "12 bytes are no whole number of F64 elements of 8 bytes", "12",
       "a multiple of 8"},
      {OneBuffer(PTO_F64, 0, most), "are no whole number of F64", absl::StrCat(most),
       "a multiple of 8"},
  };
  for (const Disagreement& row : disagreements) {
    const absl::Status refused = Plan(row.spec).status();
    ASSERT_THAT(refused, HasReason(reason::kFieldInvalid));
    EXPECT_THAT(std::string(refused.message()), HasSubstr(row.message));
    EXPECT_EQ(FieldOf(row.spec), "buffers[0].bytes");
    using Pair = std::pair<std::string, std::string>;
    EXPECT_THAT(GetErrorDetail(refused)->metadata,
                AllOf(Contains(Pair("have", row.have)), Contains(Pair("want", row.want))));
  }
}

TEST(DomainSpecTest, WhatIsTooLargeIsBlamedOnTheSizeThatWasGiven) {
  EXPECT_THAT(Plan(OneBuffer(PTO_I8, 0, kMax)), IsOk());
  for (const uint64_t bytes : {kMax + 1, ~uint64_t{0}}) {
    const DomainSpec spec = OneBuffer(PTO_I8, 0, bytes);
    EXPECT_THAT(Plan(spec), HasReason(reason::kBufferTooLarge));
    EXPECT_EQ(FieldOf(spec), "buffers[0].bytes");
  }
  // Four times the count is no number any more.
  const DomainSpec wraps = OneBuffer(PTO_F32, (uint64_t{1} << 62) + 1, 4);
  EXPECT_THAT(Plan(wraps), HasReason(reason::kBufferTooLarge));
  EXPECT_EQ(FieldOf(wraps), "buffers[0].count");
}

TEST(DomainSpecTest, Chips) {
  DomainSpec spec = TwoChips();
  spec.chips = {};
  EXPECT_EQ(FieldOf(spec), "chips");
  spec.chips = {3, 1, 2, 1};
  EXPECT_EQ(FieldOf(spec), "chips[3]");
  EXPECT_THAT(std::string(Plan(spec).status().message()), HasSubstr("chips/1 is rank 1 already"));
  spec.chips.clear();
  for (uint32_t i = 0; i < 64; ++i) spec.chips.push_back(i);
  EXPECT_THAT(Plan(spec), IsOk());
  spec.chips.push_back(64);
  EXPECT_EQ(FieldOf(spec), "chips");
}

TEST(DomainSpecTest, NamesTypesAndCounts) {
  DomainSpec spec = TwoChips();
  spec.buffers[2].name = "a";
  EXPECT_EQ(FieldOf(spec), "buffers[2].name");
  spec.buffers[2].name = "B";
  EXPECT_THAT(Plan(spec), HasReason(reason::kIdInvalid));
  spec = TwoChips();
  spec.buffers[1].dtype = 0;
  EXPECT_EQ(FieldOf(spec), "buffers[1].dtype");
  spec.buffers[1].dtype = 99;
  EXPECT_EQ(FieldOf(spec), "buffers[1].dtype");
  spec = TwoChips();
  spec.signal_count = DomainSpec::kMaxSignals + 1;
  EXPECT_EQ(FieldOf(spec), "signal_count");
  spec = TwoChips();
  for (size_t i = 0; i < DomainSpec::kMaxBuffers; ++i) {
    spec.buffers.push_back({absl::StrCat("n", i), PTO_F32, 0});
  }
  EXPECT_EQ(FieldOf(spec), "buffers");
}

}  // namespace
}  // namespace pto::daemon
