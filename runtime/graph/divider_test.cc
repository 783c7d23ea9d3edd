#include "runtime/graph/divider.h"

#include <cstdint>
#include <random>

#include "gtest/gtest.h"

namespace pto::engine {
namespace {

TEST(DividerTest, Divides) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 200'000; ++i) {
    const uint64_t divisor = (random() >> (random() % 64)) | 1 | random() % 2 << 5;
    const Divider divider(divisor);
    const uint64_t number = random() >> (random() % 64);
    ASSERT_EQ(divider.Quotient(number), number / divisor) << number << " by " << divisor;
    const uint64_t multiple = number / divisor * divisor;
    ASSERT_EQ(divider.Quotient(multiple), number / divisor) << multiple << " by " << divisor;
  }
  EXPECT_EQ(Divider().Quotient(~uint64_t{0}), ~uint64_t{0});
  EXPECT_EQ(Divider(2).Quotient(~uint64_t{0}), ~uint64_t{0} / 2);
  EXPECT_EQ(Divider(~uint64_t{0}).Quotient(~uint64_t{0}), 1u);
}

}  // namespace
}  // namespace pto::engine
