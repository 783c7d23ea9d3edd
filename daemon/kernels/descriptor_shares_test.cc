#include "daemon/kernels/descriptor_shares.h"

#include <memory>
#include <vector>

#include "gtest/gtest.h"

namespace pto::daemon {
namespace {

TEST(DescriptorSharesTest, AClientHasAQuarterAndAllTogetherNoMoreThanThereAre) {
  const auto shares = std::make_shared<DescriptorShares>([] { return uint64_t{8}; });
  std::vector<std::shared_ptr<const void>> taken;
  DescriptorShares::Limit limit;
  for (const char* client : {"a", "b", "c", "d"}) {
    for (int i = 0; i < 2; ++i) {
      taken.push_back(shares->Take(client, &limit));
      ASSERT_NE(taken.back(), nullptr);
    }
    if (taken.size() == 8) break;
    EXPECT_EQ(shares->Take(client, &limit), nullptr);
    EXPECT_TRUE(limit.of_client);
    EXPECT_EQ(limit.limit, 2u);
    EXPECT_EQ(limit.used, 2u);
  }
  EXPECT_EQ(shares->Take("e", &limit), nullptr);
  EXPECT_FALSE(limit.of_client);
  EXPECT_EQ(limit.limit, 8u);
  taken.erase(taken.begin());
  EXPECT_NE(shares->Take("e", &limit), nullptr);
  EXPECT_NE(shares->Take("a", &limit), nullptr);
  taken.clear();
  EXPECT_EQ(shares->used(), 0u);
}

TEST(DescriptorSharesTest, ThereIsAlwaysOneForAClient) {
  const auto shares = std::make_shared<DescriptorShares>([] { return uint64_t{2}; });
  DescriptorShares::Limit limit;
  EXPECT_NE(shares->Take("a", &limit), nullptr);
}

}  // namespace
}  // namespace pto::daemon
