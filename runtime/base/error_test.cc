#include "runtime/base/error.h"

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/cord.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"

namespace pto {
namespace {

using ::pto::testing::HasReason;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;

constexpr Reason kReason{"TEST_REASON", absl::StatusCode::kResourceExhausted,
                         Scope::kChip,  "tests",
                         "try less",    "tests"};

TEST(ErrorTest, TakesCodeScopeMechanismAndHintFromItsReason) {
  const absl::Status status = Error(kReason, "it broke");
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(), "it broke");
  EXPECT_THAT(status, HasReason(kReason));
  const auto detail = GetErrorDetail(status);
  ASSERT_TRUE(detail.has_value());
  EXPECT_EQ(detail->reason, "TEST_REASON");
  EXPECT_EQ(detail->scope, Scope::kChip);
  EXPECT_EQ(detail->mechanism, "tests");
  EXPECT_EQ(detail->hint, "try less");
  EXPECT_EQ(detail->help, "deploy/docs/errors/tests.md#test_reason");
  EXPECT_THAT(detail->field, IsEmpty());
  EXPECT_THAT(detail->metadata, IsEmpty());
  EXPECT_FALSE(detail->quota.has_value());
}

TEST(ErrorTest, EverythingComesBackFromTheStatus) {
  const std::string odd("a\0b\n\xff", 5);
  const absl::Status status = Error(kReason, "too much")
                                  .At("graph.tasks[3]")
                                  .With("have", uint64_t{18446744073709551615u})
                                  .With("odd", odd)
                                  .With("empty", "")
                                  .Hint("wait")
                                  .Help("x.md#y")
                                  .Limit("max_runs", 10, 9, 2);
  const auto detail = GetErrorDetail(status);
  ASSERT_TRUE(detail.has_value());
  EXPECT_EQ(detail->field, "graph.tasks[3]");
  EXPECT_EQ(detail->hint, "wait");
  EXPECT_EQ(detail->help, "x.md#y");
  EXPECT_THAT(detail->metadata, ElementsAre(Pair("have", "18446744073709551615"), Pair("odd", odd),
                                            Pair("empty", "")));
  ASSERT_TRUE(detail->quota.has_value());
  EXPECT_EQ(detail->quota->name, "max_runs");
  EXPECT_EQ(detail->quota->limit, 10);
  EXPECT_EQ(detail->quota->usage, 9);
  EXPECT_EQ(detail->quota->requested, 2);
}

TEST(ErrorTest, ConvertsInFunctionsThatReturnAValue) {
  const auto fails = []() -> absl::StatusOr<int> { return Error(kReason, "no").With("a", 1); };
  EXPECT_THAT(fails(), HasReason(kReason));
}

TEST(ErrorTest, OtherStatusesHaveNoDetail) {
  EXPECT_FALSE(GetErrorDetail(absl::OkStatus()).has_value());
  EXPECT_FALSE(GetErrorDetail(absl::InternalError("x")).has_value());
  EXPECT_EQ(ReasonOf(absl::InternalError("x")), "");
  EXPECT_THAT(absl::Status(absl::StatusCode::kResourceExhausted, "x"), Not(HasReason(kReason)));
}

TEST(ErrorTest, DamagedPayloadIsNoDetail) {
  const absl::Status good = Error(kReason, "x").With("key", "value").Limit("l", 1, 2, 3);
  std::string url;
  std::string payload;
  good.ForEachPayload([&](absl::string_view found_url, const absl::Cord& found) {
    url = std::string(found_url);
    payload = std::string(found);
  });
  ASSERT_FALSE(payload.empty());
  for (size_t size = 0; size < payload.size(); ++size) {
    absl::Status damaged = absl::InternalError("x");
    damaged.SetPayload(url, absl::Cord(payload.substr(0, size)));
    EXPECT_FALSE(GetErrorDetail(damaged).has_value()) << "the first " << size << " bytes";
  }
  absl::Status longer = absl::InternalError("x");
  longer.SetPayload(url, absl::Cord(payload + "x"));
  EXPECT_FALSE(GetErrorDetail(longer).has_value());
  absl::Status huge = absl::InternalError("x");
  huge.SetPayload(url, absl::Cord(std::string(64, '\xff')));
  EXPECT_FALSE(GetErrorDetail(huge).has_value());
}

TEST(PrefixFieldTest, PutsThePrefixBeforeTheFieldAndKeepsTheRest) {
  const absl::Status inner =
      Error(kReason, "is wrong").At("shape[0]").With("have", -1).Limit("l", 1, 2, 3);
  const absl::Status outer = PrefixField(PrefixField(inner, "tensors[2]."), "graph.");
  EXPECT_EQ(outer.message(), "is wrong");
  EXPECT_EQ(outer.code(), inner.code());
  const auto detail = GetErrorDetail(outer);
  ASSERT_TRUE(detail.has_value());
  EXPECT_EQ(detail->field, "graph.tensors[2].shape[0]");
  EXPECT_EQ(detail->reason, "TEST_REASON");
  EXPECT_THAT(detail->metadata, ElementsAre(Pair("have", "-1")));
  EXPECT_TRUE(detail->quota.has_value());
}

TEST(PrefixFieldTest, AnErrorWithoutAFieldGetsThePrefixWithoutItsDot) {
  EXPECT_EQ(GetErrorDetail(PrefixField(Error(kReason, "x"), "graph.tasks[1]."))->field,
            "graph.tasks[1]");
  EXPECT_EQ(GetErrorDetail(PrefixField(Error(kReason, "x"), "scalars[2]"))->field, "scalars[2]");
}

TEST(PrefixFieldTest, LeavesAStatusThatIsNotOursAlone) {
  EXPECT_EQ(PrefixField(absl::InternalError("x"), "graph."), absl::InternalError("x"));
  EXPECT_EQ(PrefixField(absl::OkStatus(), "graph."), absl::OkStatus());
}

}  // namespace
}  // namespace pto
