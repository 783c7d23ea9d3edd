#include "kernels/dtype.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>

#include "gtest/gtest.h"

namespace pto::kernels {
namespace {

// The value of a binary16, from its definition. Not for NaN.
double HalfValue(uint16_t bits) {
  const int exponent = (bits >> 10) & 0x1f;
  const int mantissa = bits & 0x3ff;
  double value = exponent == 0    ? std::ldexp(mantissa, -24)
                 : exponent == 31 ? std::numeric_limits<double>::infinity()
                                  : std::ldexp(1024 + mantissa, exponent - 25);
  return bits & 0x8000 ? -value : value;
}

bool IsHalfNan(uint16_t bits) { return (bits & 0x7fff) > 0x7c00; }

TEST(DtypeTest, SizesAndNames) {
  EXPECT_EQ(DtypeSize(PTO_F32), 4u);
  EXPECT_EQ(DtypeSize(PTO_F16), 2u);
  EXPECT_EQ(DtypeSize(PTO_BF16), 2u);
  EXPECT_EQ(DtypeSize(PTO_F64), 8u);
  EXPECT_EQ(DtypeSize(PTO_I8), 1u);
  EXPECT_EQ(DtypeSize(PTO_I64), 8u);
  EXPECT_EQ(DtypeSize(PTO_U16), 2u);
  EXPECT_EQ(DtypeSize(PTO_BOOL), 1u);
  EXPECT_EQ(DtypeSize(0), 0u);
  EXPECT_EQ(DtypeSize(14), 0u);
  EXPECT_STREQ(DtypeName(PTO_F32), "F32");
  EXPECT_STREQ(DtypeName(PTO_BF16), "BF16");
  EXPECT_STREQ(DtypeName(PTO_I64), "I64");
  EXPECT_STREQ(DtypeName(PTO_BOOL), "BOOL");
  EXPECT_STREQ(DtypeName(0), "?");
  EXPECT_STREQ(DtypeName(14), "?");
}

TEST(DtypeTest, EveryHalfBecomesItsFloatAndComesBack) {
  for (uint32_t i = 0; i <= 0xffff; ++i) {
    const F16 half{static_cast<uint16_t>(i)};
    const float value = ToFloat(half);
    if (IsHalfNan(half.bits)) {
      EXPECT_TRUE(std::isnan(value)) << i;
      EXPECT_EQ(ToF16(value).bits, half.bits | 0x200) << i;
      continue;
    }
    ASSERT_EQ(static_cast<double>(value), HalfValue(half.bits)) << i;
    ASSERT_EQ(std::signbit(value), (i & 0x8000) != 0) << i;
    ASSERT_EQ(ToF16(value).bits, half.bits) << i;
  }
}

TEST(DtypeTest, HalfRoundsToNearestAndTiesToEven) {
  for (uint16_t low = 0; low < 0x7c00; ++low) {
    const uint16_t high = low + 1;
    // The number after the largest one, if the exponent range were larger.
    const double top = high == 0x7c00 ? 65536.0 : HalfValue(high);
    const float middle = static_cast<float>((HalfValue(low) + top) / 2);  // exact
    ASSERT_EQ(ToF16(std::nextafter(middle, 0.0f)).bits, low);
    ASSERT_EQ(ToF16(middle).bits, low % 2 == 0 ? low : high);
    ASSERT_EQ(ToF16(std::nextafter(middle, 1e9f)).bits, high);
    ASSERT_EQ(ToF16(-middle).bits, 0x8000 | (low % 2 == 0 ? low : high));
  }
  EXPECT_EQ(ToF16(std::numeric_limits<float>::infinity()).bits, 0x7c00);
  EXPECT_EQ(ToF16(-std::numeric_limits<float>::infinity()).bits, 0xfc00);
  EXPECT_EQ(ToF16(std::numeric_limits<float>::max()).bits, 0x7c00);
  EXPECT_EQ(ToF16(std::numeric_limits<float>::denorm_min()).bits, 0);
  EXPECT_EQ(ToF16(-0.0f).bits, 0x8000);
}

TEST(DtypeTest, BfloatIsTheUpperHalfOfAFloat) {
  for (uint32_t i = 0; i <= 0xffff; ++i) {
    const BF16 narrow{static_cast<uint16_t>(i)};
    const float value = ToFloat(narrow);
    ASSERT_EQ(std::bit_cast<uint32_t>(value), i << 16);
    ASSERT_EQ(ToBF16(value).bits, std::isnan(value) ? (i | 0x40) : i);
  }
}

TEST(DtypeTest, BfloatRoundsToNearestAndTiesToEven) {
  for (uint32_t low = 0; low < 0x7f80; ++low) {
    const uint32_t middle = (low << 16) | 0x8000;
    ASSERT_EQ(ToBF16(std::bit_cast<float>(middle - 1)).bits, low);
    ASSERT_EQ(ToBF16(std::bit_cast<float>(middle)).bits, low % 2 == 0 ? low : low + 1);
    ASSERT_EQ(ToBF16(std::bit_cast<float>(middle + 1)).bits, low + 1);
  }
  // A NaN whose upper half alone would be infinity.
  EXPECT_EQ(ToBF16(std::bit_cast<float>(0x7f800001u)).bits, 0x7fc0);
  EXPECT_EQ(ToBF16(std::bit_cast<float>(0xffffffffu)).bits, 0xffff);
}

TEST(DtypeTest, DoublesAreRoundedOnce) {
  // Just above the midpoint of 1 and the next half; as a float it is the midpoint, a tie.
  const double above = 1.0 + 0x1p-11 + 0x1p-40;
  ASSERT_EQ(ToF16(static_cast<float>(above)).bits, 0x3c00);
  EXPECT_EQ(Element<F16>::FromDouble(above).bits, 0x3c01);
  EXPECT_EQ(Element<BF16>::FromDouble(1.0 + 0x1p-8 + 0x1p-40).bits, 0x3f81);
  EXPECT_EQ(Element<BF16>::FromDouble(-(1.0 + 0x1p-8 + 0x1p-40)).bits, 0xbf81);

  std::mt19937_64 random(1);
  for (int i = 0; i < 200000; ++i) {
    // Close to a midpoint, where double rounding goes wrong.
    const uint16_t low = random() % 0x7bff;
    const double middle = (HalfValue(low) + HalfValue(low + 1)) / 2;
    const double value = middle * (1 + std::ldexp(static_cast<double>(random() % 3) - 1,
                                                  -20 - static_cast<int>(random() % 30)));
    ASSERT_EQ(Element<F16>::FromDouble(value).bits,
              std::bit_cast<uint16_t>(static_cast<_Float16>(value)))
        << value;
  }
}

TEST(DtypeTest, DoublesBeyondTheRangeOfAFloat) {
  EXPECT_EQ(Element<F16>::FromDouble(1e300).bits, 0x7c00);
  EXPECT_EQ(Element<F16>::FromDouble(-1e300).bits, 0xfc00);
  EXPECT_EQ(Element<F16>::FromDouble(1e-300).bits, 0);
  EXPECT_EQ(Element<F16>::FromDouble(-1e-300).bits, 0x8000);
  EXPECT_EQ(Element<F16>::FromDouble(-0.0).bits, 0x8000);
  EXPECT_EQ(Element<BF16>::FromDouble(1e300).bits, 0x7f80);
  EXPECT_EQ(Element<BF16>::FromDouble(INFINITY).bits, 0x7f80);
  EXPECT_TRUE(std::isnan(ToFloat(Element<F16>::FromDouble(NAN))));
  EXPECT_TRUE(std::isnan(ToFloat(Element<BF16>::FromDouble(NAN))));
  EXPECT_EQ(Element<float>::FromDouble(1e300), INFINITY);
}

TEST(DtypeTest, IntegersSaturate) {
  EXPECT_EQ(SaturatingCast<int32_t>(1.9), 1);
  EXPECT_EQ(SaturatingCast<int32_t>(-1.9), -1);
  EXPECT_EQ(SaturatingCast<int32_t>(2147483647.0), 2147483647);
  EXPECT_EQ(SaturatingCast<int32_t>(2147483647.5), 2147483647);
  EXPECT_EQ(SaturatingCast<int32_t>(2147483648.0), 2147483647);
  EXPECT_EQ(SaturatingCast<int32_t>(-2147483648.0), std::numeric_limits<int32_t>::min());
  EXPECT_EQ(SaturatingCast<int32_t>(-2147483648.5), std::numeric_limits<int32_t>::min());
  EXPECT_EQ(SaturatingCast<int32_t>(-1e300), std::numeric_limits<int32_t>::min());
  EXPECT_EQ(SaturatingCast<int32_t>(NAN), 0);
  EXPECT_EQ(SaturatingCast<int64_t>(0x1p63), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(SaturatingCast<int64_t>(-0x1p63), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(SaturatingCast<int64_t>(INFINITY), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(SaturatingCast<int64_t>(-INFINITY), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(SaturatingCast<int64_t>(0x1p62), int64_t{1} << 62);
}

}  // namespace
}  // namespace pto::kernels
