#include "client/ptoctl/units.h"

#include "client/ptoctl/table.h"
#include "gtest/gtest.h"

namespace pto::ptoctl {
namespace {

TEST(UnitsTest, Bytes) {
  EXPECT_EQ(BytesText(0), "0 B");
  EXPECT_EQ(BytesText(512), "512 B");
  EXPECT_EQ(BytesText(1024), "1 KiB");
  EXPECT_EQ(BytesText(1536), "1.5 KiB");
  EXPECT_EQ(BytesText(uint64_t{64} << 30), "64 GiB");
  EXPECT_EQ(BytesText(~uint64_t{0}), "16 EiB");
}

TEST(UnitsTest, Durations) {
  EXPECT_EQ(DurationText(absl::Nanoseconds(0)), "0 ns");
  EXPECT_EQ(DurationText(absl::Nanoseconds(999)), "999 ns");
  EXPECT_EQ(DurationText(absl::Nanoseconds(1234)), "1.23 us");
  EXPECT_EQ(DurationText(absl::Microseconds(45600)), "45.6 ms");
  EXPECT_EQ(DurationText(absl::Milliseconds(1500)), "1.5 s");
  EXPECT_EQ(DurationText(absl::Seconds(125)), "2m 5s");
  EXPECT_EQ(DurationText(absl::Minutes(125)), "2h 5m");
  EXPECT_EQ(DurationText(absl::Hours(50)), "2d 2h");
  EXPECT_EQ(DurationText(-absl::Seconds(2)), "-2 s");
  EXPECT_EQ(DurationText(absl::InfiniteDuration()), "forever");
}

TEST(TableTest, AlignsColumns) {
  Table table({"NAME", "VALUE", "LAST"});
  table.Add({"a", "long value", ""});
  table.Add({"größer", "1", "x"});
  EXPECT_EQ(table.Format(),
            "NAME    VALUE       LAST\n"
            "a       long value  -\n"
            "größer  1           x\n");
}

}  // namespace
}  // namespace pto::ptoctl
