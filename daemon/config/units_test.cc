#include "daemon/config/units.h"

#include <cstdint>
#include <limits>

#include "gtest/gtest.h"

namespace pto::daemon {
namespace {

TEST(UnitsTest, ParsesSizes) {
  uint64_t bytes = 0;
  EXPECT_TRUE(ParseBytes("0", &bytes));
  EXPECT_EQ(bytes, 0u);
  EXPECT_TRUE(ParseBytes("1000", &bytes));
  EXPECT_EQ(bytes, 1000u);
  EXPECT_TRUE(ParseBytes("3K", &bytes));
  EXPECT_EQ(bytes, 3072u);
  EXPECT_TRUE(ParseBytes("512M", &bytes));
  EXPECT_EQ(bytes, uint64_t{512} << 20);
  EXPECT_TRUE(ParseBytes("16GiB", &bytes));
  EXPECT_EQ(bytes, uint64_t{16} << 30);
  EXPECT_TRUE(ParseBytes("2T", &bytes));
  EXPECT_EQ(bytes, uint64_t{2} << 40);
  EXPECT_TRUE(ParseBytes("18446744073709551615", &bytes));
  EXPECT_EQ(bytes, std::numeric_limits<uint64_t>::max());
}

TEST(UnitsTest, RefusesOtherTexts) {
  uint64_t bytes = 7;
  for (const char* text : {"", "K", "iB", "5iB", "1.5G", "-1", "+1", " 1", "1 G", "1g", "0x10",
                           "1KB", "18446744073709551616", "16777216T", "99999999999999999999"}) {
    EXPECT_FALSE(ParseBytes(text, &bytes)) << text;
  }
  EXPECT_EQ(bytes, 7u);
}

TEST(UnitsTest, FormatsSoThatItReadsBack) {
  EXPECT_EQ(FormatBytes(0), "0");
  EXPECT_EQ(FormatBytes(1023), "1023");
  EXPECT_EQ(FormatBytes(uint64_t{1536} << 20), "1536M");
  EXPECT_EQ(FormatBytes(uint64_t{16} << 30), "16G");
  EXPECT_EQ(FormatBytes(uint64_t{4096} << 40), "4096T");
}

}  // namespace
}  // namespace pto::daemon
