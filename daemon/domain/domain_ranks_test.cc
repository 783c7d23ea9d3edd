#include "daemon/domain/domain_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/base/error.h"

namespace pto::daemon {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const std::vector<DomainRanks>& Ranks() {
  static const auto* const ranks =
      new std::vector<DomainRanks>{{"domains/d", {4, 2, 7}, {true, true, false}}};
  return *ranks;
}

TEST(DomainRanksTest, NamesTheRankOfThePlaceAndTheMissingOne) {
  const absl::Status late =
      Error(reason::kRunDeadline, "the time is up").With("chip", "chips/2").With("task", 1);
  const absl::Status named = NameRanks(late, Ranks());
  EXPECT_EQ(ReasonOf(named), "RUN_DEADLINE");
  EXPECT_EQ(std::string(named.message()),
            "the time is up; chips/2 is rank 1 of domains/d; no task of the run is for rank 2 of "
            "domains/d, chips/7");
  const ErrorDetail detail = *GetErrorDetail(named);
  EXPECT_THAT(detail.metadata, ::testing::Contains(::testing::Pair("missing_ranks", "2")));
  EXPECT_THAT(detail.metadata, ::testing::Contains(::testing::Pair("task", "1")));
}

TEST(DomainRanksTest, OtherErrorsStay) {
  const absl::Status failed = Error(reason::kKernelFailed, "it returned 3").With("chip", "chips/2");
  EXPECT_EQ(NameRanks(failed, Ranks()), failed);
  EXPECT_EQ(NameRanks(absl::OkStatus(), Ranks()), absl::OkStatus());
  const absl::Status late = Error(reason::kRunDeadline, "the time is up");
  EXPECT_EQ(NameRanks(late, {}), late);
}

TEST(DomainRanksTest, NamesOnlyTheFirstOfMany) {
  std::vector<DomainRanks> ranks = {{"domains/d", std::vector<uint32_t>(20), {}}};
  ranks[0].used.resize(20);
  const std::string text(NameRanks(Error(reason::kHostLost, "x"), ranks).message());
  EXPECT_THAT(text, HasSubstr("rank 7 of"));
  EXPECT_THAT(text, Not(HasSubstr("rank 8 of")));
  EXPECT_THAT(text, HasSubstr("and 12 more"));
}

}  // namespace
}  // namespace pto::daemon
