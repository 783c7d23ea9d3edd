#include "daemon/quota/quota.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/types/optional.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"
#include "runtime/base/status_matchers.h"
#include "runtime/chip/sim/sim_memory.h"

namespace pto::daemon {
namespace {

using ::pto::testing::HasReason;
using ::pto::testing::IsOk;
using ::testing::Contains;

class QuotaTest : public ::testing::Test {
 protected:
  QuotaTest() {
    limits_.max_session_device_bytes = 4096;
    limits_.max_client_device_bytes = 6144;
    limits_.max_session_windows = 3;
    limits_.max_client_sessions = 2;
    limits_.max_client_active_runs = 5;
    limits_.max_session_tasks = 100;
  }

  std::shared_ptr<SessionQuota> Open(const std::string& client, const std::string& session) {
    absl::StatusOr<std::shared_ptr<SessionQuota>> quota = TryOpen(client, session);
    EXPECT_THAT(quota, IsOk());
    return quota.ok() ? *quota : nullptr;
  }

  absl::StatusOr<std::shared_ptr<SessionQuota>> TryOpen(const std::string& client,
                                                        const std::string& session,
                                                        const auth::Rights& rights = {}) {
    return clients_.OpenSession(auth::Principal(client, rights), session);
  }

  Limits limits_;
  ClientQuotas clients_{limits_};
};

TEST_F(QuotaTest, ARefusalSaysLimitUsageAndRequest) {
  const auto quota = Open("c", "s");
  ASSERT_THAT(quota->Take(Resource::kTasks, 70), IsOk());
  const absl::Status refused = quota->Take(Resource::kTasks, 31);
  EXPECT_THAT(refused, HasReason(reason::kQuotaTasks));
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  const ErrorDetail detail = *GetErrorDetail(refused);
  ASSERT_TRUE(detail.quota.has_value());
  EXPECT_EQ(detail.quota->name, "max_session_tasks");
  EXPECT_EQ(detail.quota->limit, 100u);
  EXPECT_EQ(detail.quota->usage, 70u);
  EXPECT_EQ(detail.quota->requested, 31u);
  const std::vector<std::pair<std::string, std::string>> said = {
      {"limit", "100"}, {"usage", "70"}, {"requested", "31"}, {"session", "s"}};
  for (const auto& one : said) EXPECT_THAT(detail.metadata, Contains(one));
  EXPECT_THAT(quota->Take(Resource::kTasks, 30), IsOk());
  quota->Give(Resource::kTasks, 100);
  EXPECT_THAT(quota->Take(Resource::kTasks, 100), IsOk());
  EXPECT_THAT(quota->Take(Resource::kTasks, UINT64_MAX), HasReason(reason::kQuotaTasks));
}

TEST_F(QuotaTest, SessionsOfAClientShareItsQuota) {
  const auto first = Open("c", "first");
  const auto second = Open("c", "second");
  const auto other = Open("d", "other");
  ASSERT_THAT(first->Take(Resource::kRuns, 4), IsOk());
  ASSERT_THAT(second->Take(Resource::kRuns, 1), IsOk());
  EXPECT_THAT(second->Take(Resource::kRuns, 1), HasReason(reason::kQuotaRuns));
  EXPECT_EQ(second->used(Resource::kRuns), 1u);
  EXPECT_THAT(other->Take(Resource::kRuns, 5), IsOk());
  first->Give(Resource::kRuns, 1);
  EXPECT_THAT(second->Take(Resource::kRuns, 1), IsOk());
}

TEST_F(QuotaTest, TheRightsOfAClientGoBeforeTheNodesLimits) {
  auth::Rights rights;
  rights.max_active_runs = 7;
  const auto first = TryOpen("c", "first", rights).value();
  EXPECT_THAT(first->Take(Resource::kRuns, 7), IsOk());
  EXPECT_THAT(first->Take(Resource::kRuns, 1), HasReason(reason::kQuotaRuns));
  // Another policy: it counts for all sessions of the client from its next session on.
  rights.max_active_runs = 8;
  rights.max_sessions = 1;
  EXPECT_THAT(TryOpen("c", "second", rights), HasReason(reason::kQuotaSessions));
  EXPECT_THAT(first->Take(Resource::kRuns, 1), IsOk());
  EXPECT_THAT(Open("d", "other")->Take(Resource::kRuns, 6), HasReason(reason::kQuotaRuns));
}

TEST_F(QuotaTest, WindowsAndTasksOfAllSessionsOfAClient) {
  limits_.max_client_windows = 5;
  limits_.max_client_tasks = 150;
  const auto first = Open("c", "first");
  const auto second = Open("c", "second");
  ASSERT_THAT(first->Take(Resource::kWindows, 3), IsOk());
  ASSERT_THAT(second->Take(Resource::kWindows, 2), IsOk());
  const absl::Status window = second->Take(Resource::kWindows, 1);
  EXPECT_THAT(window, HasReason(reason::kQuotaWindows));
  EXPECT_EQ(GetErrorDetail(window)->quota->name, "max_client_windows");
  EXPECT_EQ(second->used(Resource::kWindows), 2u);
  ASSERT_THAT(first->Take(Resource::kTasks, 100), IsOk());
  const absl::Status tasks = second->Take(Resource::kTasks, 51);
  EXPECT_THAT(tasks, HasReason(reason::kQuotaTasks));
  const Quota quota = *GetErrorDetail(tasks)->quota;
  EXPECT_EQ(quota.name, "max_client_tasks");
  EXPECT_EQ(quota.limit, 150u);
  EXPECT_EQ(quota.usage, 100u);
  EXPECT_EQ(quota.requested, 51u);
  EXPECT_THAT(second->Take(Resource::kTasks, 50), IsOk());
}

TEST_F(QuotaTest, WhoWaitsForRoomForTasksIsCalledOnce) {
  limits_.max_client_tasks = 10;
  const auto first = Open("c", "first");
  const auto second = Open("c", "second");
  int called = 0;
  const auto count = [&] { ++called; };
  ASSERT_THAT(first->Take(Resource::kTasks, 9), IsOk());
  EXPECT_TRUE(second->AwaitTaskRoom(&called, count));
  // A single amount may exceed the limit.
  second->ChargeOpenTasks(5);
  EXPECT_FALSE(second->AwaitTaskRoom(&called, count));
  EXPECT_FALSE(second->AwaitTaskRoom(&called, count));
  EXPECT_THAT(first->Take(Resource::kTasks, 1), HasReason(reason::kQuotaTasks));
  first->Give(Resource::kTasks, 4);
  EXPECT_EQ(called, 0) << "all are taken";
  first->Give(Resource::kTasks, 1);
  EXPECT_EQ(called, 1);
  first->Give(Resource::kTasks, 4);
  EXPECT_EQ(called, 1);
  EXPECT_TRUE(second->AwaitTaskRoom(&called, count));
  second->GiveOpenTasks(5);
  EXPECT_THAT(first->Take(Resource::kTasks, 10), IsOk());
}

TEST_F(QuotaTest, SessionsAreCountedUntilTheyAreGone) {
  auto first = Open("c", "first");
  const auto second = Open("c", "second");
  EXPECT_THAT(TryOpen("c", "third"), HasReason(reason::kQuotaSessions));
  EXPECT_THAT(TryOpen("d", "other"), IsOk());
  first.reset();
  EXPECT_THAT(TryOpen("c", "third"), IsOk());
}

TEST_F(QuotaTest, LogsAreCountedWithTheirSessions) {
  limits_.max_client_event_log_bytes = limits_.event_log_bytes;
  auto first = Open("c", "first");
  EXPECT_THAT(TryOpen("c", "second"), HasReason(reason::kQuotaEventLog));
  // A failed request has taken nothing.
  first.reset();
  EXPECT_THAT(TryOpen("c", "second"), IsOk());
}

absl::StatusOr<std::shared_ptr<engine::Allocation>> Allocate(
    engine::DeviceMemory& memory, uint64_t bytes, const std::shared_ptr<SessionQuota>& quota,
    uint64_t windows = 0) {
  PTO_ASSIGN_OR_RETURN(MemoryCharge charge, MemoryCharge::Take(quota, bytes, windows));
  return AllocateCharged(memory, bytes, std::move(charge));
}

TEST_F(QuotaTest, MemoryCountsAsLongAsSomethingHoldsIt) {
  const auto quota = Open("c", "s");
  const auto memory = engine::SimMemory::Create(0, 1 << 20);
  auto block = Allocate(*memory, 4096, quota, 2);
  ASSERT_THAT(block, IsOk());
  EXPECT_THAT(Allocate(*memory, 64, quota), HasReason(reason::kQuotaMemory));
  EXPECT_THAT(Allocate(*memory, 0, quota, 2), HasReason(reason::kQuotaWindows));
  EXPECT_EQ(quota->used(Resource::kWindows), 2u);
  std::shared_ptr<engine::Allocation> last = engine::Allocation::Part(*block, 0, 64);
  *block = nullptr;
  EXPECT_EQ(quota->used(Resource::kDeviceBytes), 4096u);
  last.reset();
  EXPECT_EQ(quota->used(Resource::kDeviceBytes), 0u);
  EXPECT_EQ(quota->used(Resource::kWindows), 0u);
  EXPECT_EQ(memory->used_bytes(), 0u);
}

TEST_F(QuotaTest, AChargeCanBeSharedOut) {
  const auto quota = Open("c", "s");
  absl::optional<MemoryCharge> whole = *MemoryCharge::Take(quota, 1000, 2);
  absl::optional<MemoryCharge> part = whole->Part(600, 1);
  EXPECT_EQ(quota->used(Resource::kDeviceBytes), 1000u);
  EXPECT_EQ(quota->used(Resource::kWindows), 2u);
  whole.reset();
  EXPECT_EQ(quota->used(Resource::kDeviceBytes), 600u);
  EXPECT_EQ(quota->used(Resource::kWindows), 1u);
  part.reset();
  EXPECT_EQ(quota->used(Resource::kDeviceBytes), 0u);
  EXPECT_EQ(quota->used(Resource::kWindows), 0u);
}

TEST_F(QuotaTest, MemoryThatTheChipDoesNotHaveIsNotCounted) {
  const auto quota = Open("c", "s");
  const auto memory = engine::SimMemory::Create(0, 2048);
  EXPECT_THAT(Allocate(*memory, 4096, quota, 1), HasReason(reason::kChipMemoryExhausted));
  EXPECT_EQ(quota->used(Resource::kDeviceBytes), 0u);
  EXPECT_EQ(quota->used(Resource::kWindows), 0u);
}

}  // namespace
}  // namespace pto::daemon
