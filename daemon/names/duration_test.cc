#include "daemon/names/duration.h"

#include <cstdint>
#include <limits>

#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"

namespace pto::daemon {
namespace {

using ::pto::testing::HasReason;
using ::pto::testing::IsOk;

google::protobuf::Duration Make(int64_t seconds, int32_t nanos) {
  google::protobuf::Duration duration;
  duration.set_seconds(seconds);
  duration.set_nanos(nanos);
  return duration;
}

TEST(DurationTest, WithinBounds) {
  const auto parse = [](int64_t seconds, int32_t nanos) {
    return ParseDuration(Make(seconds, nanos), "f", absl::Milliseconds(1), absl::Seconds(2));
  };
  EXPECT_EQ(*parse(0, 1'000'000), absl::Milliseconds(1));
  EXPECT_EQ(*parse(2, 0), absl::Seconds(2));
  EXPECT_THAT(parse(0, 999'999), HasReason(reason::kFieldInvalid));
  EXPECT_THAT(parse(2, 1), HasReason(reason::kFieldInvalid));
  EXPECT_EQ(GetErrorDetail(parse(3, 0).status())->field, "f");
}

TEST(DurationTest, Malformed) {
  for (const auto& [seconds, nanos] :
       {std::pair{1l, -1}, std::pair{-1l, 1}, std::pair{0l, 1'000'000'000},
        std::pair{0l, -1'000'000'000}}) {
    EXPECT_THAT(ParseDuration(Make(seconds, nanos), "f", -absl::Hours(1), absl::Hours(1)),
                HasReason(reason::kFieldInvalid))
        << seconds << " " << nanos;
  }
}

TEST(DurationTest, Timeouts) {
  EXPECT_EQ(*ParseTimeout(Make(0, 0), "f"), 0);
  EXPECT_EQ(*ParseTimeout(Make(3, 4), "f"), 3'000'000'004);
  EXPECT_THAT(ParseTimeout(Make(365 * 24 * 3600, 0), "f"), IsOk());
  EXPECT_THAT(ParseTimeout(Make(365 * 24 * 3600, 1), "f"), HasReason(reason::kFieldInvalid));
  EXPECT_THAT(ParseTimeout(Make(0, -1), "f"), HasReason(reason::kFieldInvalid));
  EXPECT_THAT(ParseTimeout(Make(std::numeric_limits<int64_t>::max(), 0), "f"),
              HasReason(reason::kFieldInvalid));
}

}  // namespace
}  // namespace pto::daemon
