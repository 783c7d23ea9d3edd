// Quotas of all sessions of one client together. Clients are users of this machine.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "client/client.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"
#include "tests/harness/api.h"
#include "tests/harness/as_user.h"
#include "tests/harness/daemon_process.h"
#include "tests/integration/world.h"

namespace pto::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr uint64_t kMostTasks = 15;

class ClientQuotaTest : public ::testing::Test {
 protected:
  Api& api() { return daemon_.api(); }

  // Of another user.
  Api& other() {
    if (other_ == nullptr) {
      OpenTo(daemon_.directory());
      other_ = std::make_unique<Api>(ChannelAs(20'001, daemon_.socket_path()));
    }
    return *other_;
  }

  static std::string CreateSession(Api& api, absl::Duration ttl = absl::Minutes(5)) {
    v1::CreateSessionRequest request;
    request.set_session_id(UniqueId("s"));
    request.mutable_ttl()->set_nanos(
        static_cast<int32_t>(absl::ToInt64Nanoseconds(ttl % absl::Seconds(1))));
    request.mutable_ttl()->set_seconds(absl::ToInt64Seconds(ttl));
    // Does not matter for quotas.
    request.set_client(UniqueId("one"));
    const auto session = Call(*api.session, &v1::SessionService::Stub::CreateSession, request);
    EXPECT_THAT(session, IsOk());
    return session.ok() ? session->name() : "";
  }

  // Has two windows.
  static absl::Status TryDomain(Api& api, const std::string& session, const std::string& id) {
    v1::CreateDomainRequest request;
    request.set_parent(session);
    request.set_domain_id(id);
    request.add_chips("chips/0");
    request.add_chips("chips/1");
    request.set_signal_count(1);
    return Call(*api.domain, &v1::DomainService::Stub::CreateDomain, request).status();
  }

  static absl::Status TrySubmit(Api& api, const std::string& session, v1::GraphSpec graph) {
    return Call(*api.run, &v1::RunService::Stub::SubmitRun,
                SubmitRequest(session, std::move(graph)))
        .status();
  }

  DaemonProcess daemon_{{"--sim-chips=2", "--max-client-windows=5", "--max-client-tasks=15",
                         "--max-block-tasks=32", "--session-min-ttl=10ms", "--drain-grace=0s"}};
  std::unique_ptr<Api> other_;
};

void ExpectQuota(const absl::Status& status, const Reason& reason, const Quota& wanted) {
  EXPECT_THAT(status, HasReason(reason));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  const absl::optional<ErrorDetail> detail = GetErrorDetail(status);
  ASSERT_TRUE(detail.has_value() && detail->quota.has_value());
  EXPECT_EQ(detail->quota->name, wanted.name);
  EXPECT_EQ(detail->quota->limit, wanted.limit);
  EXPECT_EQ(detail->quota->usage, wanted.usage);
  EXPECT_EQ(detail->quota->requested, wanted.requested);
}

TEST_F(ClientQuotaTest, Windows) {
  const std::string first = CreateSession(api());
  const std::string second = CreateSession(api());
  ASSERT_THAT(TryDomain(api(), first, "a"), IsOk());
  ASSERT_THAT(TryDomain(api(), first, "b"), IsOk());
  // Also if there is room for a part of the request.
  ExpectQuota(TryDomain(api(), second, "a"), reason::kQuotaWindows,
              {"max_client_windows", 5, 4, 2});
  EXPECT_THAT(TryDomain(other(), CreateSession(other()), "a"), IsOk());
  DeleteSession(api(), first);
  EXPECT_THAT(TryDomain(api(), second, "a"), IsOk());
}

TEST_F(ClientQuotaTest, Tasks) {
  const std::string first = CreateSession(api());
  const std::string second = CreateSession(api());
  v1::GraphSpec ten = Spin(absl::Minutes(10));
  ten.MergeFrom(Noops(9));
  const v1::Run run = Submit(api(), first, ten);
  ExpectQuota(TrySubmit(api(), second, Noops(6)), reason::kQuotaTasks,
              {"max_client_tasks", 15, 10, 6});
  EXPECT_THAT(TrySubmit(api(), second, Noops(5)), IsOk());
  EXPECT_THAT(TrySubmit(other(), CreateSession(other()), Noops(15)), IsOk());
  CancelRun(api(), run.name());
  WaitForRun(api(), run.name());
  EXPECT_TRUE(Eventually([&] { return TrySubmit(api(), second, Noops(15)).ok(); }));
}

// Open runs are held back by the client's other runs, and all end.
TEST_F(ClientQuotaTest, OpenRunsAreHeldBackAndNotRefused) {
  Client client = Client::Connect(daemon_.address()).value();
  Session busy = client.CreateSession().value();
  GraphBuilder spin;
  spin.Task("spin", 1, {}).Scalar(int64_t{3'600'000'000});
  for (uint64_t i = 1; i < kMostTasks; ++i) spin.Task("noop", 1, {});
  const pto::Run full = busy.Submit(spin).value();
  // No room is left: one segment at a time, some of them larger than the limit.
  constexpr int kSegments = 20;
  std::vector<Session> sessions;
  std::vector<OpenRun> open;
  for (int i = 0; i < 2; ++i) {
    sessions.push_back(client.CreateSession().value());
    open.push_back(sessions.back().BeginOpenRun().value());
  }
  for (int segment = 0; segment < kSegments; ++segment) {
    for (OpenRun& run : open) {
      for (int i = 0; i < 1 + segment % 24; ++i) run.graph().Task("noop", 0, {});
      ASSERT_THAT(run.Flush(), IsOk());
    }
  }
  for (OpenRun& run : open) {
    const auto ended = run.Finish();
    ASSERT_THAT(ended, IsOk());
    EXPECT_EQ(ended->state(), v1::Run::SUCCEEDED);
  }
  EXPECT_THAT(full.Cancel(), IsOk());
}

TEST_F(ClientQuotaTest, TheLogSaysWhoseSessionExpiredAndWhatItHad) {
  const std::string session = CreateSession(api(), absl::Milliseconds(500));
  ASSERT_THAT(TryDomain(api(), session, "a"), IsOk());
  EXPECT_TRUE(Eventually([&] { return absl::StrContains(daemon_.Log(), "session ended"); }));
  std::string line;
  for (const absl::string_view one : absl::StrSplit(daemon_.Log(), '\n')) {
    if (absl::StrContains(one, "session ended")) line = std::string(one);
  }
  EXPECT_THAT(line, AllOf(HasSubstr("client=one-"), HasSubstr("windows=2"), HasSubstr("expired")));
}

}  // namespace
}  // namespace pto::testing
