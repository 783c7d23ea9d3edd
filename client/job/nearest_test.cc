#include "client/job/nearest.h"

#include "gtest/gtest.h"

namespace pto::job {
namespace {

TEST(NearestTest, FindsWhatWasMeant) {
  const std::vector<std::string> nouns = {"node", "chips", "sessions", "kernels", "runs"};
  EXPECT_EQ(Nearest("chip", nouns), "chips");
  EXPECT_EQ(Nearest("chpis", nouns), "chips");
  EXPECT_EQ(Nearest("session", nouns), "sessions");
  EXPECT_EQ(Nearest("kernals", nouns), "kernels");
  EXPECT_EQ(Nearest("run", nouns), "runs");
}

TEST(NearestTest, DoesNotGuess) {
  const std::vector<std::string> nouns = {"node", "chips"};
  EXPECT_EQ(Nearest("buffers", nouns), "");
  EXPECT_EQ(Nearest("x", nouns), "");
  EXPECT_EQ(Nearest("", nouns), "");
  EXPECT_EQ(Nearest("chips", {}), "");
}

}  // namespace
}  // namespace pto::job
