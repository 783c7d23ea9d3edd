#include "comm/hccl/hccl_config.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "tests/fake_cann/tables.h"

namespace pto::comm {
namespace {

namespace table = fake::table;

TEST(HcclConfigTest, AnOldReleaseGetsTheShortVersion) {
  HcclOptions options;
  options.name = "domain-7";
  options.buffer_mib = 3;
  const HcclConfig config(options, 0);
  EXPECT_EQ(table::Field<uint64_t>(config.data(), table::kCfgSize), table::kCfgSizeV5);
  EXPECT_EQ(table::Field<uint32_t>(config.data(), table::kCfgVersion), 5u);
  EXPECT_EQ(table::Field<uint32_t>(config.data(), table::kCfgMagic), table::kCfgMagicValue);
  EXPECT_EQ(table::Field<uint32_t>(config.data(), table::kCfgBufferSize), 3u);
  EXPECT_STREQ(static_cast<const char*>(config.data()) + table::kCfgName, "domain-7");
  EXPECT_EQ(table::Field<uint32_t>(config.data(), table::kCfgTrafficClass), 0xffffffffu);
}

TEST(HcclConfigTest, ANewOneGetsTheTimeout) {
  HcclOptions options;
  options.operator_timeout = absl::Seconds(42);
  const HcclConfig config(options, 12);
  EXPECT_EQ(table::Field<uint64_t>(config.data(), table::kCfgSize), table::kCfgSizeV8);
  EXPECT_EQ(table::Field<uint32_t>(config.data(), table::kCfgVersion), 8u);
  EXPECT_EQ(table::Field<uint32_t>(config.data(), table::kCfgExecTimeout), 42u);
}

TEST(HcclConfigTest, ALongNameIsCut) {
  HcclOptions options;
  options.name = std::string(500, 'x');
  const HcclConfig config(options, 0);
  EXPECT_EQ(std::strlen(static_cast<const char*>(config.data()) + table::kCfgName), 127u);
}

}  // namespace
}  // namespace pto::comm
