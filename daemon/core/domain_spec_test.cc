#include "daemon/core/domain_spec.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/pto_kernel.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"

namespace pto {
namespace {

using ::pto::testing::HasReason;
using ::pto::testing::IsOk;
using ::testing::HasSubstr;

constexpr uint64_t kMax = 1 << 20;

DomainSpec TwoChips() {
  DomainSpec spec;
  spec.chips = {3, 1};
  spec.buffers = {{"a", PTO_F32, 3}, {"empty", PTO_F64, 0}, {"b", PTO_I8, 65}};
  spec.signal_count = 9;
  return spec;
}

// The error's field, or what came instead.
std::string FieldOf(const DomainSpec& spec, uint64_t max_bytes = kMax) {
  const auto detail = GetErrorDetail(PlanWindow(spec, max_bytes).status());
  return detail.has_value() ? detail->field : "no error";
}

TEST(DomainSpecTest, BuffersAndSignalsBeginOnCacheLines) {
  const absl::StatusOr<WindowLayout> layout = PlanWindow(TwoChips(), kMax);
  ASSERT_THAT(layout, IsOk());
  ASSERT_EQ(layout->buffers.size(), 3u);
  EXPECT_EQ(layout->buffers[0], (ByteRange{0, 12}));
  EXPECT_EQ(layout->buffers[1], (ByteRange{64, 64}));
  EXPECT_EQ(layout->buffers[2], (ByteRange{64, 129}));
  EXPECT_EQ(layout->signals, (ByteRange{192, 192 + 72}));
  EXPECT_EQ(layout->bytes, 264u);
}

TEST(DomainSpecTest, OnlyBuffersOrOnlySignals) {
  DomainSpec spec = TwoChips();
  spec.signal_count = 0;
  EXPECT_EQ(PlanWindow(spec, kMax)->bytes, 129u);
  spec.buffers.clear();
  EXPECT_EQ(FieldOf(spec), "buffers");
  spec.signal_count = 1;
  EXPECT_EQ(PlanWindow(spec, kMax)->bytes, 8u);
}

TEST(DomainSpecTest, AWindowMayBeLargerButNotSmaller) {
  DomainSpec spec = TwoChips();
  spec.window_bytes = 4096;
  EXPECT_EQ(PlanWindow(spec, kMax)->bytes, 4096u);
  spec.window_bytes = 264;
  EXPECT_THAT(PlanWindow(spec, kMax), IsOk());
  spec.window_bytes = 263;
  const absl::Status small = PlanWindow(spec, kMax).status();
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
    EXPECT_THAT(PlanWindow(spec, kMax), HasReason(reason::kBufferTooLarge)) << count;
  }
}

TEST(DomainSpecTest, Chips) {
  DomainSpec spec = TwoChips();
  spec.chips = {};
  EXPECT_EQ(FieldOf(spec), "chips");
  spec.chips = {3, 1, 2, 1};
  EXPECT_EQ(FieldOf(spec), "chips[3]");
  EXPECT_THAT(std::string(PlanWindow(spec, kMax).status().message()),
              HasSubstr("chips/1 is rank 1 already"));
  spec.chips.clear();
  for (uint32_t i = 0; i < 64; ++i) spec.chips.push_back(i);
  EXPECT_THAT(PlanWindow(spec, kMax), IsOk());
  spec.chips.push_back(64);
  EXPECT_EQ(FieldOf(spec), "chips");
}

TEST(DomainSpecTest, NamesTypesAndCounts) {
  DomainSpec spec = TwoChips();
  spec.buffers[2].name = "a";
  EXPECT_EQ(FieldOf(spec), "buffers[2].name");
  spec.buffers[2].name = "B";
  EXPECT_THAT(PlanWindow(spec, kMax), HasReason(reason::kIdInvalid));
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
}  // namespace pto
