// Leases: what sessions own, and how they end.

#include "absl/strings/str_cat.h"
#include "runtime/base/status_matchers.h"
#include "tests/integration/lifecycle.h"
#include "tests/integration/watch.h"

namespace pto::testing {
namespace {

using SessionLifecycleTest = LifecycleTest;

v1::SessionService::Stub& Sessions(Api& api) { return *api.session; }

// Short enough to wait for, and longer than a busy machine needs between two calls.
constexpr absl::Duration kShortTtl = absl::Seconds(1);
constexpr absl::Duration kProgressInterval = absl::Milliseconds(250);

v1::WatchEventsRequest WithProgress(const std::string& session) {
  v1::WatchEventsRequest request;
  request.set_parent(session);
  request.mutable_progress_interval()->set_nanos(
      static_cast<int32_t>(absl::ToInt64Nanoseconds(kProgressInterval)));
  return request;
}

TEST_F(SessionLifecycleTest, ASessionThatIsForgottenExpiresAndFreesWhatItHas) {
  const std::string session = MakeSession(api(), kShortTtl);
  v1::Run run;
  {
    // Keeps the session alive while it is filled, however long that takes.
    Watch watch(api(), WithProgress(session));
    v1::EventBatch batch;
    ASSERT_TRUE(watch.Next(&batch)) << watch.End();
    MakeBuffer(api(), session, "held", 1 << 20);
    ASSERT_EQ(GetChip(api(), 0).memory_used_bytes(), 1u << 20);
    run = Submit(api(), session, Spin(absl::Minutes(10)));
  }
  // Nothing here names the session, because that would keep it alive.
  EXPECT_TRUE(Eventually([&] {
    const v1::Chip chip = GetChip(api(), 0);
    return chip.memory_used_bytes() == 0 && chip.busy_cores() == 0 &&
           GetNode(api()).active_run_count() == 0;
  }));
  v1::GetSessionRequest request;
  request.set_name(session);
  EXPECT_THAT(Call(Sessions(api()), &v1::SessionService::Stub::GetSession, request),
              HasReason(reason::kSessionEnded));
  v1::GetRunRequest get;
  get.set_name(run.name());
  EXPECT_THAT(Call(*api().run, &v1::RunService::Stub::GetRun, get),
              HasReason(reason::kSessionEnded));
}

TEST_F(SessionLifecycleTest, AnOpenStreamOfEventsKeepsItAlive) {
  const std::string session = MakeSession(api(), kShortTtl);
  {
    Watch watch(api(), WithProgress(session));
    v1::EventBatch batch;
    for (absl::Duration past; past < 2 * kShortTtl; past += kProgressInterval) {
      ASSERT_TRUE(watch.Next(&batch)) << watch.End();
    }
    EXPECT_TRUE(SessionLives(api(), session));
  }
  EXPECT_TRUE(Eventually([&] { return !SessionLives(api(), session); }));
}

TEST_F(SessionLifecycleTest, CreationCanBeRepeated) {
  v1::CreateSessionRequest request;
  request.set_session_id(UniqueId("again"));
  (*request.mutable_labels())["team"] = "a";
  request.set_weight(7);
  const auto first = Call(Sessions(api()), &v1::SessionService::Stub::CreateSession, request);
  ASSERT_THAT(first, IsOk());
  EXPECT_EQ(first->boot_id(), GetNode(api()).boot_id());
  EXPECT_EQ(first->labels().at("team"), "a");
  EXPECT_EQ(first->weight(), 7u);
  const auto second = Call(Sessions(api()), &v1::SessionService::Stub::CreateSession, request);
  ASSERT_THAT(second, IsOk());
  EXPECT_EQ(second->name(), first->name());
  EXPECT_EQ(second->create_time().nanos(), first->create_time().nanos());
  (*request.mutable_labels())["team"] = "b";
  EXPECT_THAT(Call(Sessions(api()), &v1::SessionService::Stub::CreateSession, request),
              HasReason(reason::kIdConflict));

  v1::DeleteSessionRequest remove;
  remove.set_name(first->name());
  for (int i = 0; i < 2; ++i) {
    const auto deleted = Call(Sessions(api()), &v1::SessionService::Stub::DeleteSession, remove);
    ASSERT_THAT(deleted, IsOk());
    EXPECT_EQ(deleted->state(), v1::Session::ENDED);
  }
  EXPECT_THAT(Call(Sessions(api()), &v1::SessionService::Stub::CreateSession, request),
              HasReason(reason::kSessionIdUsed));
  remove.set_name("sessions/never-was");
  EXPECT_THAT(Call(Sessions(api()), &v1::SessionService::Stub::DeleteSession, remove),
              HasReason(reason::kSessionUnknown));
  remove.set_allow_missing(true);
  EXPECT_THAT(Call(Sessions(api()), &v1::SessionService::Stub::DeleteSession, remove), IsOk());
}

TEST_F(SessionLifecycleTest, TheTimeToLiveIsKeptWithinTheNodesBounds) {
  for (const auto& [wish, granted] :
       {std::pair{absl::ZeroDuration(), absl::Seconds(30)},
        std::pair{absl::Nanoseconds(1), absl::Milliseconds(10)},
        std::pair{absl::Seconds(7), absl::Seconds(7)}, std::pair{absl::Hours(9), absl::Hours(1)}}) {
    v1::CreateSessionRequest request;
    request.set_session_id(UniqueId("ttl"));
    request.mutable_ttl()->set_seconds(absl::ToInt64Seconds(wish));
    request.mutable_ttl()->set_nanos(
        static_cast<int>(absl::ToInt64Nanoseconds(wish % absl::Seconds(1))));
    const auto session = Call(Sessions(api()), &v1::SessionService::Stub::CreateSession, request);
    ASSERT_THAT(session, IsOk());
    EXPECT_EQ(absl::Seconds(session->ttl().seconds()) + absl::Nanoseconds(session->ttl().nanos()),
              granted);
  }
}

TEST_F(SessionLifecycleTest, CreatingABufferAgainLeavesItsContents) {
  MakeBuffer(api(), session_, "kept", 8);
  EXPECT_EQ(ReadFloats(api(), Name("buffers", "kept")), std::vector<float>({0, 0}));
  ASSERT_THAT(WriteBytes(api(), Name("buffers", "kept"), std::string("\0\0\x80\x3f", 4)), IsOk());
  MakeBuffer(api(), session_, "kept", 8);
  EXPECT_EQ(ReadFloats(api(), Name("buffers", "kept")), std::vector<float>({1, 0}));
}

TEST_F(SessionLifecycleTest, BuffersAreCreatedAllOrNone) {
  v1::CreateBuffersRequest request;
  request.set_parent(session_);
  const uint64_t bytes = GetChip(api(), 1).memory_total_bytes() / 8 * 5;
  for (const char* id : {"fits", "does-not"}) {
    v1::BufferSpec& spec = *request.add_buffers();
    spec.set_buffer_id(id);
    spec.set_chip("chips/1");
    spec.set_bytes(bytes);
  }
  EXPECT_THAT(Call(*api().buffer, &v1::BufferService::Stub::CreateBuffers, request),
              HasReason(reason::kChipMemoryExhausted));
  EXPECT_EQ(GetChip(api(), 1).memory_used_bytes(), 0u);
  request.mutable_buffers()->RemoveLast();
  EXPECT_THAT(Call(*api().buffer, &v1::BufferService::Stub::CreateBuffers, request), IsOk());
  // Untouched memory is not resident.
  EXPECT_LT(daemon().ResidentBytes(), bytes);
}

TEST_F(SessionLifecycleTest, AsManyDomainsAsTheNodeSays) {
  const uint64_t limit = GetNode(api()).limits().max_session_domains();
  ASSERT_GT(limit, 0u);
  const auto create = [&](const std::string& id) {
    v1::CreateDomainRequest request;
    request.set_parent(session_);
    request.set_domain_id(id);
    request.add_chips("chips/0");
    request.set_signal_count(1);
    return Call(*api().domain, &v1::DomainService::Stub::CreateDomain, request).status();
  };
  for (uint64_t i = 0; i < limit; ++i) {
    ASSERT_THAT(create(absl::StrCat("d", i)), IsOk());
  }
  const absl::Status refused = create("more");
  EXPECT_THAT(refused, HasReason(reason::kDomainLimit));
  const absl::optional<ErrorDetail> detail = GetErrorDetail(refused);
  ASSERT_TRUE(detail.has_value() && detail->quota.has_value());
  EXPECT_EQ(detail->quota->name, "max_session_domains");
  EXPECT_EQ(detail->quota->limit, limit);
  EXPECT_EQ(detail->quota->usage, limit);
}

}  // namespace
}  // namespace pto::testing
