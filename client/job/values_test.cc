#include "client/job/values.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"

namespace pto::job {
namespace {

double Through(pto::v1::DType dtype, double value) {
  Array array = MakeArray(dtype, {1});
  array.Set(0, value);
  return array.Get(0);
}

uint16_t Bits(pto::v1::DType dtype, double value) {
  uint16_t bits = 0;
  char memory[2];
  StoreElement(dtype, value, memory);
  std::memcpy(&bits, memory, sizeof bits);
  return bits;
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(ValuesTest, HalfFloatsAsInTheStandard) {
  EXPECT_EQ(Bits(pto::v1::F16, 1.0), 0x3c00);
  EXPECT_EQ(Bits(pto::v1::F16, -2.0), 0xc000);
  EXPECT_EQ(Bits(pto::v1::F16, -0.0), 0x8000);
  EXPECT_EQ(Bits(pto::v1::F16, 65504), 0x7bff);
  EXPECT_EQ(Bits(pto::v1::F16, 65519.9), 0x7bff);
  EXPECT_EQ(Bits(pto::v1::F16, 65520), 0x7c00);
  EXPECT_EQ(Bits(pto::v1::F16, std::scalbn(1, -24)), 0x0001);
  EXPECT_EQ(Bits(pto::v1::F16, std::scalbn(1, -25)), 0x0000);
  EXPECT_EQ(Bits(pto::v1::F16, std::scalbn(1.5, -25)), 0x0001);
  EXPECT_EQ(Bits(pto::v1::F16, std::scalbn(1, -14)), 0x0400);
  // Ties go to the even neighbour.
  EXPECT_EQ(Bits(pto::v1::F16, 2049), Bits(pto::v1::F16, 2048));
  EXPECT_EQ(Bits(pto::v1::F16, 2051), Bits(pto::v1::F16, 2052));
}

TEST(ValuesTest, BrainFloatsAreTheUpperHalfOfAFloat) {
  EXPECT_EQ(Bits(pto::v1::BF16, 1.0), 0x3f80);
  EXPECT_EQ(Bits(pto::v1::BF16, -1.5), 0xbfc0);
  EXPECT_EQ(Bits(pto::v1::BF16, 1e39), 0x7f80);
  EXPECT_EQ(Bits(pto::v1::BF16, 3.3e38), 0x7f78);
  EXPECT_EQ(Bits(pto::v1::BF16, 1 + 1.0 / 256), 0x3f80);
  EXPECT_EQ(Bits(pto::v1::BF16, 1 + 3.0 / 256), 0x3f82);
}

TEST(ValuesTest, SmallFormatsComeBackForEveryPattern) {
  for (pto::v1::DType dtype : {pto::v1::F16, pto::v1::BF16}) {
    for (int pattern = 0; pattern < 0x10000; ++pattern) {
      const auto bits = static_cast<uint16_t>(pattern);
      char memory[2];
      std::memcpy(memory, &bits, sizeof bits);
      const double value = LoadElement(dtype, memory);
      if (std::isnan(value)) {
        EXPECT_TRUE(std::isnan(Through(dtype, value)));
      } else {
        ASSERT_EQ(Bits(dtype, value), bits);
      }
    }
  }
}

TEST(ValuesTest, FloatsRoundAndOverflow) {
  EXPECT_EQ(Through(pto::v1::F32, 0.1), static_cast<double>(0.1f));
  EXPECT_EQ(Through(pto::v1::F32, 1e300), kInfinity);
  EXPECT_EQ(Through(pto::v1::F32, -1e300), -kInfinity);
  EXPECT_EQ(Through(pto::v1::F32, 3.4028235e38), std::numeric_limits<float>::max());
  EXPECT_EQ(Through(pto::v1::F64, 0.1), 0.1);
}

TEST(ValuesTest, IntegersRoundAndSaturate) {
  EXPECT_EQ(Through(pto::v1::I8, 200), 127);
  EXPECT_EQ(Through(pto::v1::I8, -200), -128);
  EXPECT_EQ(Through(pto::v1::U8, -1), 0);
  EXPECT_EQ(Through(pto::v1::U16, 65535), 65535);
  EXPECT_EQ(Through(pto::v1::I32, 1.5), 2);
  EXPECT_EQ(Through(pto::v1::I32, 1e10), 2147483647);
  EXPECT_EQ(Through(pto::v1::U32, 4294967295.0), 4294967295.0);
  EXPECT_EQ(Through(pto::v1::I64, kInfinity), std::scalbn(1, 63));
  EXPECT_EQ(Through(pto::v1::U64, std::scalbn(1, 63)), std::scalbn(1, 63));
  EXPECT_EQ(Through(pto::v1::I16, std::nan("")), 0);
  EXPECT_EQ(Through(pto::v1::BOOL, 7), 1);
}

TEST(ValuesTest, KnowsWhatFits) {
  EXPECT_TRUE(Fits(pto::v1::U8, 255));
  EXPECT_FALSE(Fits(pto::v1::U8, 256));
  EXPECT_FALSE(Fits(pto::v1::U8, -1));
  EXPECT_FALSE(Fits(pto::v1::I32, 0.5));
  EXPECT_FALSE(Fits(pto::v1::BOOL, 2));
  EXPECT_TRUE(Fits(pto::v1::F16, 0.1));
  EXPECT_FALSE(Fits(pto::v1::F16, 1e6));
  EXPECT_TRUE(Fits(pto::v1::F32, kInfinity));
  EXPECT_FALSE(Fits(pto::v1::I64, std::scalbn(1, 63)));
  EXPECT_TRUE(Fits(pto::v1::I64, -std::scalbn(1, 63)));
}

TEST(ValuesTest, CountsElements) {
  EXPECT_EQ(ElementCount({}).value(), 1);
  EXPECT_EQ(ElementCount({2, 3, 4}).value(), 24);
  EXPECT_EQ(ElementCount({5, 0}).value(), 0);
  EXPECT_THAT(ElementCount({-1}), testing::HasReason(reason::kFieldInvalid));
  EXPECT_THAT(ElementCount({int64_t{1} << 40, int64_t{1} << 40}),
              testing::HasReason(reason::kFieldInvalid));
}

TEST(ValuesTest, NamesShapes) {
  EXPECT_EQ(ShapeText({}), "scalar");
  EXPECT_EQ(ShapeText({4, 256}), "4x256");
}

}  // namespace
}  // namespace pto::job
