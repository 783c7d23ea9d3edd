#include "daemon/run/former_runs.h"

#include <memory>
#include <string>
#include <utility>

#include "daemon/journal/run_codec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"

namespace pto::daemon {
namespace {

using ::pto::testing::HasReason;
using ::pto::testing::IsOk;
using ::testing::Contains;
using ::testing::HasSubstr;

constexpr Digest kDigest = {1, 2, Digest::kVersion};
constexpr Digest kOther = {1, 3, Digest::kVersion};

class FormerRunsTest : public ::testing::Test {
 protected:
  FormerRunsTest() {
    journal::v1::SessionRecord session;
    session.set_id("s");
    session.set_boot_id("before");
    history_.sessions.push_back(session);
  }

  journal::v1::RunRecord& Add(const std::string& id, const Digest& digest) {
    RunRecord run;
    run.session = std::make_shared<const std::string>("sessions/s");
    run.id = id;
    history_.runs.push_back(
        ToJournal(run, history_.runs.size() + 1, 0, digest, engine::RunState::kSucceeded));
    return history_.runs.back();
  }

  absl::StatusOr<std::shared_ptr<RunEntry>> Retry(const std::string& id,
                                                  const Digest& digest = kDigest) const {
    return FormerRuns(history_).FindForStart(auth::Daemon(), "s", id, digest);
  }

  JournalHistory history_;
};

TEST_F(FormerRunsTest, TheSameRequestFindsItsRun) {
  Add("r", kDigest);
  const absl::StatusOr<std::shared_ptr<RunEntry>> found = Retry("r");
  ASSERT_THAT(found, IsOk());
  ASSERT_NE(*found, nullptr);
  EXPECT_EQ((*found)->record().id, "r");
  EXPECT_THAT(Retry("r", kOther), HasReason(reason::kIdConflict));
  EXPECT_EQ(Retry("unknown").value(), nullptr);
  EXPECT_EQ(FormerRuns(history_).FindForStart(auth::Daemon(), "t", "r", kDigest).value(), nullptr);
}

// Neither the same bits nor others say anything about requests of another version's digests.
TEST_F(FormerRunsTest, AfterAnUpgradeNobodyCanTell) {
  Add("same", kDigest).clear_digest_version();
  Add("other", kOther).clear_digest_version();
  for (const std::string id : {"same", "other"}) {
    const absl::Status refused = Retry(id).status();
    EXPECT_THAT(refused, HasReason(reason::kRunIdUsed));
    EXPECT_THAT(std::string(refused.message()), HasSubstr("an earlier version of ptod"));
    const absl::optional<ErrorDetail> detail = GetErrorDetail(refused);
    ASSERT_TRUE(detail.has_value());
    EXPECT_EQ(detail->field, "run_id");
    EXPECT_THAT(detail->metadata,
                Contains(std::pair<std::string, std::string>("boot_id", "before")));
  }
  // It can still be looked at.
  EXPECT_NE(FormerRuns(history_).FindRun(auth::Daemon(), "s", "same"), nullptr);
}

TEST_F(FormerRunsTest, OnlyItsOwnerAndWhoSeesAllKnowOfASession) {
  Add("r", kDigest);
  history_.sessions[0].set_owner("uid-7");
  const FormerRuns runs(history_);
  const auth::Principal owner("uid-7", {});
  const auth::Principal other("uid-8", {});
  auth::Rights rights;
  rights.reader = true;
  const auth::Principal reader("uid-9", rights);
  EXPECT_NE(runs.FindRun(owner, "s", "r"), nullptr);
  EXPECT_EQ(runs.FindRun(other, "s", "r"), nullptr);
  EXPECT_NE(runs.FindRun(reader, "s", "r"), nullptr);
  EXPECT_NE(runs.FindForStart(owner, "s", "r", kDigest).value(), nullptr);
  EXPECT_EQ(runs.FindForStart(other, "s", "r", kDigest).value(), nullptr);
  // Not even that it is there with other contents.
  EXPECT_EQ(runs.FindForStart(other, "s", "r", kOther).value(), nullptr);
  EXPECT_EQ(runs.FindForStart(reader, "s", "r", kOther).value(), nullptr);
  EXPECT_EQ(runs.Find(other, "s"), nullptr);
}

// The journal of a release that did not write owners.
TEST_F(FormerRunsTest, AnOwnerThatIsNotKnownIsNobody) {
  Add("r", kDigest);
  const FormerRuns runs(history_);
  EXPECT_EQ(runs.FindRun(auth::Principal("uid-7", {}), "s", "r"), nullptr);
  EXPECT_NE(runs.FindRun(auth::Daemon(), "s", "r"), nullptr);
}

TEST_F(FormerRunsTest, AfterADowngradeNobodyCanTell) {
  Add("r", kDigest).set_digest_version(Digest::kVersion + 1);
  const absl::Status refused = Retry("r").status();
  EXPECT_THAT(refused, HasReason(reason::kRunIdUsed));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("a later version of ptod"));
}

// Of these it is known in any version that the request is another one.
TEST_F(FormerRunsTest, RunsWithoutADigestAreOthers) {
  Add("open", {}).set_open(true);
  Add("run-1", kDigest).set_own_number(1);
  history_.runs.back().clear_digest_version();
  EXPECT_THAT(Retry("open"), HasReason(reason::kIdConflict));
  EXPECT_THAT(Retry("run-1"), HasReason(reason::kIdConflict));
}

}  // namespace
}  // namespace pto::daemon
