// Runs are executed once, in time, and have one outcome.

#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "runtime/base/status_matchers.h"
#include "tests/integration/lifecycle.h"

namespace pto::testing {
namespace {

using RunLifecycleTest = LifecycleTest;
using Stub = v1::RunService::Stub;

// For runs that spin ten minutes unless they are ended.
constexpr absl::Duration kMuchLessThanItSpins = absl::Seconds(30);

// Fills buffer `out` (16 bytes), then spins.
v1::GraphSpec SpinWithBuffer() {
  v1::GraphSpec graph = Fill(4, 1.0);
  *graph.add_tasks() = Spin(absl::Minutes(10)).tasks(0);
  graph.mutable_tasks(1)->add_after("0");
  return graph;
}

TEST_F(RunLifecycleTest, OneIdIsOneRunHoweverOftenItIsSubmitted) {
  const uint64_t before = GetChip(api(), 0).completed_tasks();
  const v1::SubmitRunRequest request = SubmitRequest(session_, Chain(50), "once");
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      Api own(daemon().address());
      for (int n = 0; n < 5; ++n) {
        const auto run = Call(*own.run, &Stub::SubmitRun, request);
        ASSERT_THAT(run, IsOk());
        EXPECT_EQ(run->name(), Name("runs", "once"));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(WaitForRun(api(), Name("runs", "once")).state(), v1::Run::SUCCEEDED);
  EXPECT_EQ(GetChip(api(), 0).completed_tasks(), before + 50);
  const auto again = Call(*api().run, &Stub::SubmitRun, request);
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(again->state(), v1::Run::SUCCEEDED);
  EXPECT_THAT(Call(*api().run, &Stub::SubmitRun, SubmitRequest(session_, Chain(51), "once")),
              HasReason(reason::kIdConflict));
}

TEST_F(RunLifecycleTest, IdsThatLookLikeTheDaemonsOwnAreFree) {
  const std::string own = Submit(api(), session_, Noops(1)).name();
  for (const char* id : {"r-0", "r-1", "r-2", "r-100", "r-3"}) {
    const auto run = Call(*api().run, &Stub::SubmitRun, SubmitRequest(session_, Chain(2), id));
    if (own == Name("runs", id)) {
      EXPECT_THAT(run, HasReason(reason::kIdConflict));
    } else {
      EXPECT_THAT(run, IsOk()) << id;
    }
  }
  EXPECT_NE(Submit(api(), session_, Noops(1)).name(), own);
}

TEST_F(RunLifecycleTest, AReplyCanWaitForTheEnd) {
  v1::SubmitRunRequest request = SubmitRequest(session_, Spin(absl::Milliseconds(20)));
  request.mutable_wait()->set_seconds(50);
  const auto run = Call(*api().run, &Stub::SubmitRun, request);
  ASSERT_THAT(run, IsOk());
  EXPECT_EQ(run->state(), v1::Run::SUCCEEDED);
  EXPECT_GE(run->run_ns(), 20'000'000);
  EXPECT_TRUE(run->has_end_time());
}

TEST_F(RunLifecycleTest, AWaitThatIsOverReturnsTheRunAsItIs) {
  const v1::Run run = Submit(api(), session_, Spin(absl::Minutes(10)));
  WaitUntilRunning(api(), run.name());
  v1::WaitRunRequest request;
  request.set_name(run.name());
  request.mutable_timeout()->set_nanos(1);
  const auto now = Call(*api().run, &Stub::WaitRun, request);
  ASSERT_THAT(now, IsOk());
  EXPECT_EQ(now->state(), v1::Run::RUNNING);
  EXPECT_FALSE(now->has_end_time());
}

TEST_F(RunLifecycleTest, ACancelledRunEndsSoonThoughItsKernelRuns) {
  const v1::Run run = Submit(api(), session_, Spin(absl::Minutes(10)));
  WaitUntilRunning(api(), run.name());
  v1::CancelRunRequest request;
  request.set_name(run.name());
  request.set_reason("enough");
  const absl::Time start = absl::Now();
  const auto cancelling = Call(*api().run, &Stub::CancelRun, request);
  ASSERT_THAT(cancelling, IsOk());
  EXPECT_TRUE(cancelling->state() == v1::Run::CANCELLING ||
              cancelling->state() == v1::Run::CANCELLED);
  const v1::Run ended = WaitForRun(api(), run.name());
  EXPECT_LT(absl::Now() - start, kMuchLessThanItSpins);
  EXPECT_EQ(ended.state(), v1::Run::CANCELLED);
  EXPECT_THAT(ErrorOf(ended), HasReason(reason::kRunCancelled));
  EXPECT_NE(ended.error().message().find("enough"), std::string::npos);
  // Repeating it changes nothing.
  const auto again = Call(*api().run, &Stub::CancelRun, request);
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(again->state(), v1::Run::CANCELLED);
  // A run of a session that was just deleted may still be releasing its core.
  EXPECT_TRUE(Eventually([&] { return GetChip(api(), 0).busy_cores() == 0; }));
}

TEST_F(RunLifecycleTest, ARunThatTakesTooLongFails) {
  v1::SubmitRunRequest request = SubmitRequest(session_, Spin(absl::Minutes(10)));
  request.mutable_options()->mutable_timeout()->set_nanos(50'000'000);
  request.mutable_wait()->set_seconds(50);
  const absl::Time start = absl::Now();
  const auto run = Call(*api().run, &Stub::SubmitRun, request);
  ASSERT_THAT(run, IsOk());
  EXPECT_LT(absl::Now() - start, kMuchLessThanItSpins);
  EXPECT_EQ(run->state(), v1::Run::FAILED);
  EXPECT_THAT(ErrorOf(*run), HasReason(reason::kRunDeadline));
}

TEST_F(RunLifecycleTest, AFailureStopsOnlyWhatNeedsIt) {
  const v1::Run run =
      Submit(api(), session_, Proto<v1::GraphSpec>(R"pb(
               tasks { name: 'good' kernel: 'noop' chip: 'chips/0' }
               tasks {
                 name: 'bad'
                 kernel: 'fail'
                 chip: 'chips/0'
                 scalars { i64: 42 }
                 after: 'good'
               }
               tasks {
                 name: 'needs-both'
                 kernel: 'noop'
                 chip: 'chips/1'
                 after: [ 'good', 'bad' ]
               }
               tasks { name: 'needs-that' kernel: 'noop' chip: 'chips/0' after: 'needs-both' }
               tasks {
                 name: 'other'
                 kernel: 'spin'
                 chip: 'chips/1'
                 scalars { i64: 1000 }
                 after: 'good'
               }
               tasks { name: 'after-other' kernel: 'noop' chip: 'chips/0' after: 'other' }
             )pb"));
  const v1::Run other = Submit(api(), session_, Chain(100));
  const v1::Run ended = WaitForRun(api(), run.name());
  EXPECT_EQ(ended.state(), v1::Run::FAILED);
  EXPECT_EQ(ended.tasks_total(), 6u);
  EXPECT_EQ(ended.tasks_done(), 3u);
  EXPECT_EQ(ended.tasks_failed(), 1u);
  EXPECT_EQ(ended.tasks_skipped(), 2u);
  EXPECT_THAT(ErrorOf(ended), HasReason(reason::kKernelFailed));
  EXPECT_NE(ended.error().message().find("42"), std::string::npos) << ended.error().message();
  EXPECT_NE(ended.error().message().find("bad"), std::string::npos) << ended.error().message();
  EXPECT_EQ(WaitForRun(api(), other.name()).state(), v1::Run::SUCCEEDED);
}

// The cause of a failure is reported first, and failures that follow from it name it.
TEST_F(RunLifecycleTest, WhatFollowsFromAFailureNamesIt) {
  for (const char* id : {"d1", "d2"}) {
    ASSERT_THAT(Call(*api().domain, &v1::DomainService::Stub::CreateDomain,
                     Proto<v1::CreateDomainRequest>(
                         absl::StrCat("parent: '", session_, "' domain_id: '", id,
                                      "' chips: ['chips/0', 'chips/1'] signal_count: 1"))),
                IsOk());
  }
  const auto wait = [](const std::string& name, const std::string& domain) {
    return absl::StrCat("tensors { name: '", name, "' buffer: 'domains/", domain,
                        "/ranks/0/signals' dtype: I64 shape: 1 } tasks { kernel: 'wait' args: '",
                        name, "' scalars { compare: GE } scalars { i64: 1 } scalars { i64: 0 } }");
  };
  // One run waits in both domains; its end revokes the second one, too. Another run waits only
  // there.
  const std::string victim =
      Submit(api(), session_, Proto<v1::GraphSpec>(wait("a", "d1") + wait("b", "d2")), "victim")
          .name();
  WaitUntilRunning(api(), victim);
  const std::string last =
      Submit(api(), session_, Proto<v1::GraphSpec>(wait("b", "d2")), "last").name();
  ASSERT_THAT(Call(*api().domain, &v1::DomainService::Stub::RevokeDomain,
                   Proto<v1::RevokeDomainRequest>(
                       absl::StrCat("name: '", session_, "/domains/d1' reason: 'a test'"))),
              IsOk());
  EXPECT_THAT(ErrorOf(WaitForRun(api(), victim)), HasReason(reason::kDomainRevoked));
  const v1::Run ended = WaitForRun(api(), last);
  const absl::Status error = ErrorOf(ended);
  EXPECT_THAT(error, HasReason(reason::kDomainRevoked));
  EXPECT_THAT(std::string(error.message()), ::testing::HasSubstr(victim));
  EXPECT_THAT(std::string(error.message()), ::testing::HasSubstr("d1 was revoked: a test"));
  EXPECT_THAT(GetErrorDetail(error)->metadata,
              ::testing::Contains(::testing::Pair("cause_run", victim)));
}

TEST_F(RunLifecycleTest, AResetNeedsForceWhileRunsUseTheChip) {
  const v1::Run here = Submit(api(), session_, Spin(absl::Minutes(10), 0));
  const v1::Run there = Submit(api(), session_, Spin(absl::Minutes(10), 1));
  WaitUntilRunning(api(), here.name());
  WaitUntilRunning(api(), there.name());
  MakeBuffer(api(), session_, "kept", 4);
  ASSERT_THAT(WriteBytes(api(), Name("buffers", "kept"), std::string("\0\0\x80\x3f", 4)), IsOk());
  v1::ResetChipRequest request;
  request.set_name("chips/0");
  EXPECT_THAT(Call(*api().node, &v1::NodeService::Stub::ResetChip, request),
              HasReason(reason::kChipBusy));
  EXPECT_EQ(GetRun(api(), here.name()).state(), v1::Run::RUNNING);
  request.set_force(true);
  const auto chip = Call(*api().node, &v1::NodeService::Stub::ResetChip, request);
  ASSERT_THAT(chip, IsOk());
  EXPECT_EQ(chip->state(), v1::Chip::ACTIVE);
  const v1::Run ended = WaitForRun(api(), here.name());
  EXPECT_EQ(ended.state(), v1::Run::FAILED);
  EXPECT_THAT(ErrorOf(ended), HasReason(reason::kChipReset));
  EXPECT_EQ(GetRun(api(), there.name()).state(), v1::Run::RUNNING);
  EXPECT_EQ(ReadFloats(api(), Name("buffers", "kept")), std::vector<float>({1}));
  // The chip accepts work again, and resetting an idle chip needs no force.
  EXPECT_EQ(WaitForRun(api(), Submit(api(), session_, Noops(3)).name()).state(),
            v1::Run::SUCCEEDED);
  request.set_force(false);
  EXPECT_THAT(Call(*api().node, &v1::NodeService::Stub::ResetChip, request), IsOk());
}

TEST_F(RunLifecycleTest, ABufferInUseIsLeftAlone) {
  MakeBuffer(api(), session_, "out", 16);
  const v1::Run run = Submit(api(), session_, SpinWithBuffer());
  v1::GetBufferRequest get;
  get.set_name(Name("buffers", "out"));
  const auto buffer = Call(*api().buffer, &v1::BufferService::Stub::GetBuffer, get);
  ASSERT_THAT(buffer, IsOk());
  EXPECT_EQ(buffer->in_use(), 1u);
  EXPECT_THAT(WriteBytes(api(), Name("buffers", "out"), "abcd"), HasReason(reason::kBufferInUse));
  grpc::ClientContext context;
  v1::ReadBufferRequest read;
  read.set_name(Name("buffers", "out"));
  const auto reader = api().buffer->ReadBuffer(&context, read);
  v1::ReadBufferResponse response;
  EXPECT_FALSE(reader->Read(&response));
  EXPECT_THAT(FromGrpcStatus(reader->Finish()), HasReason(reason::kBufferInUse));
  CancelRun(api(), run.name());
  WaitForRun(api(), run.name());
  EXPECT_THAT(WriteBytes(api(), Name("buffers", "out"), "abcd"), IsOk());
}

TEST_F(RunLifecycleTest, ABufferDeletedInUseGoesWithTheRun) {
  MakeBuffer(api(), session_, "out", 4096);
  const v1::Run run = Submit(api(), session_, SpinWithBuffer());
  v1::DeleteBuffersRequest request;
  request.add_names(Name("buffers", "out"));
  const auto deleted = Call(*api().buffer, &v1::BufferService::Stub::DeleteBuffers, request);
  ASSERT_THAT(deleted, IsOk());
  ASSERT_EQ(deleted->deferred_size(), 1);
  EXPECT_EQ(deleted->deferred(0), Name("buffers", "out"));
  EXPECT_EQ(GetChip(api(), 0).memory_used_bytes(), 4096u);
  // Its name is free immediately.
  v1::GetBufferRequest get;
  get.set_name(Name("buffers", "out"));
  EXPECT_THAT(Call(*api().buffer, &v1::BufferService::Stub::GetBuffer, get),
              HasReason(reason::kBufferUnknown));
  CancelRun(api(), run.name());
  WaitForRun(api(), run.name());
  EXPECT_TRUE(Eventually([&] { return GetChip(api(), 0).memory_used_bytes() == 0; }));
  EXPECT_THAT(Call(*api().buffer, &v1::BufferService::Stub::DeleteBuffers, request),
              HasReason(reason::kBufferUnknown));
  request.set_allow_missing(true);
  EXPECT_THAT(Call(*api().buffer, &v1::BufferService::Stub::DeleteBuffers, request), IsOk());
}

TEST(BusyNodeTest, QueuedRunsCanBeCancelledAndTooManyAreRefused) {
  DaemonProcess daemon({"--sim-chips=1", "--executor-threads=1", "--max-session-active-runs=2"});
  Api& api = daemon.api();
  const std::string session = MakeSession(api);
  const v1::Run running = Submit(api, session, Spin(absl::Minutes(10)));
  WaitUntilRunning(api, running.name());
  const v1::Run queued = Submit(api, session, Noops(5));
  EXPECT_EQ(GetRun(api, queued.name()).state(), v1::Run::QUEUED);
  EXPECT_THAT(Call(*api.run, &Stub::SubmitRun, SubmitRequest(session, Noops(1))),
              HasReason(reason::kRunLimit));
  CancelRun(api, queued.name());
  const v1::Run cancelled = WaitForRun(api, queued.name());
  EXPECT_EQ(cancelled.state(), v1::Run::CANCELLED);
  EXPECT_EQ(cancelled.tasks_done(), 0u);
  EXPECT_EQ(GetRun(api, running.name()).state(), v1::Run::RUNNING);
  // There is room again.
  const v1::Run next = Submit(api, session, Noops(1));
  CancelRun(api, running.name());
  EXPECT_EQ(WaitForRun(api, next.name()).state(), v1::Run::SUCCEEDED);
}

}  // namespace
}  // namespace pto::testing
