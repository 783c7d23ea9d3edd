// The health of chips as clients and probes see it: chips that fault and recover, chips that hang,
// and chips that are only busy.

#include <sched.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/types/optional.h"
#include "daemon/config/command_line.h"
#include "daemon/daemon.h"
#include "gmock/gmock.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "gtest/gtest.h"
#include "proto/status/status_proto.h"
#include "runtime/base/failpoint.h"
#include "runtime/base/status_matchers.h"
#include "tests/harness/daemon_process.h"
#include "tests/harness/failpoints.h"
#include "tests/harness/ptoctl.h"
#include "tests/harness/sanitizer.h"
#include "tests/integration/lifecycle.h"
#include "tests/integration/world.h"

namespace pto::testing {
namespace {

using grpc::health::v1::Health;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Pair;

constexpr uint32_t kChips = 4;
// The maximum time until a fault, and its end, is known.
constexpr absl::Duration kKnownWithin = absl::Seconds(kAddressSanitizer ? 10 : 2);

// A daemon in this process, so that the test can set failpoints while it runs.
class ChipHealthTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!kHasFailpoints) GTEST_SKIP() << "a release build has no failpoints";
    const std::string listen = absl::StrCat("--listen=unix:", directory_.path(), "/s");
    const char* const args[] = {"ptod", listen.c_str(), "--sim-chips=4", "--executor-threads=4"};
    const absl::StatusOr<daemon::CommandLine> line = daemon::ParseCommandLine(4, args, "test");
    ASSERT_THAT(line, IsOk());
    absl::StatusOr<std::unique_ptr<daemon::Daemon>> daemon = daemon::Daemon::Start(line->effective);
    ASSERT_THAT(daemon, IsOk());
    daemon_ = *std::move(daemon);
    api_ = std::make_unique<Api>(daemon_->addresses()[0]);
    health_ = Health::NewStub(api_->channel);
  }
  void TearDown() override { ASSERT_THAT(failpoint::Set(""), IsOk()); }

  Api& api() { return *api_; }
  ProgramResult Ptoctl(const std::vector<std::string>& args) {
    return RunPtoctl(daemon_->addresses()[0], args);
  }
  bool IsServing(const std::string& service) {
    HealthCheckRequest request;
    request.set_service(service);
    const auto response = Call(*health_, &Health::Stub::Check, request);
    EXPECT_THAT(response, IsOk()) << service;
    return response.ok() && response->status() == HealthCheckResponse::SERVING;
  }
  // Waits until a chip is, or is not, ready: in the health service and in the list of chips.
  void ExpectReady(uint32_t chip, bool ready) {
    const absl::Time begin = absl::Now();
    EXPECT_TRUE(Eventually([&] {
      return IsServing(absl::StrCat("chips/", chip)) == ready &&
             GetChip(api(), chip).state() == (ready ? v1::Chip::ACTIVE : v1::Chip::FAULTED);
    })) << chip;
    const absl::Duration took = absl::Now() - begin;
    EXPECT_LE(took, kKnownWithin) << chip;
    std::printf("chips/%u is %s after %s\n", chip, ready ? "ready" : "faulted",
                absl::FormatDuration(took).c_str());
  }

  const Directory directory_;
  std::unique_ptr<daemon::Daemon> daemon_;
  std::unique_ptr<Api> api_;
  std::unique_ptr<Health::Stub> health_;
};

TEST_F(ChipHealthTest, ReadinessFollowsAFaultAndItsEnd) {
  for (int round = 1; round <= 2; ++round) {
    ASSERT_THAT(failpoint::Set("chip.fault.2=error"), IsOk());
    ExpectReady(2, false);
    const v1::Chip faulted = GetChip(api(), 2);
    const absl::Status fault = StatusFromProto(faulted.fault());
    EXPECT_THAT(fault, HasReason(reason::kChipUnavailable));
    EXPECT_THAT(std::string(fault.message()), HasSubstr("chips/2 is FAULTED: "));
    EXPECT_EQ(faulted.fault_count(), static_cast<uint64_t>(round));
    for (const std::string other : {"chips/0", "chips/1", "chips/3", "pto.v1.RunService", ""}) {
      EXPECT_TRUE(IsServing(other)) << other;
    }
    EXPECT_THAT(Ptoctl({"chips", "ls"}).out, HasSubstr("chips/2  FAULTED"));
    EXPECT_THAT(Ptoctl({"chips", "ls", "-o", "json"}).out,
                AllOf(HasSubstr("\"fault\""), HasSubstr("CHIP_UNAVAILABLE"),
                      HasSubstr("does not answer a probe")));

    ASSERT_THAT(failpoint::Set(""), IsOk());
    ExpectReady(2, true);
    const v1::Chip again = GetChip(api(), 2);
    EXPECT_FALSE(again.has_fault());
    EXPECT_TRUE(again.has_last_fault());
    EXPECT_GE(again.health_time().seconds(), faulted.health_time().seconds());
  }
}

TEST_F(ChipHealthTest, WithoutAnyChipNoRunsAreTakenButTheDaemonIsAlive) {
  ASSERT_THAT(failpoint::Set("chip.fault=error"), IsOk());
  for (uint32_t chip = 0; chip < kChips; ++chip) ExpectReady(chip, false);
  EXPECT_TRUE(Eventually([&] { return !IsServing("pto.v1.RunService"); }));
  EXPECT_TRUE(IsServing(""));
  ASSERT_THAT(failpoint::Set(""), IsOk());
  for (uint32_t chip = 0; chip < kChips; ++chip) ExpectReady(chip, true);
  EXPECT_TRUE(Eventually([&] { return IsServing("pto.v1.RunService"); }));
}

TEST_F(ChipHealthTest, AFaultFailsTheRunsOfItsChipAndThoseOfOthersFinish) {
  const std::string session = MakeSession(api());
  std::vector<std::string> runs;
  for (uint32_t chip = 0; chip < kChips; ++chip) {
    // The other runs end while chip 2 is faulted; the run on chip 2 would not.
    runs.push_back(
        Submit(api(), session, Spin(chip == 2 ? absl::Minutes(10) : absl::Seconds(3), chip))
            .name());
  }
  for (const std::string& run : runs) WaitUntilRunning(api(), run);
  const std::string queued = Submit(api(), session, Spin(absl::Minutes(10), 2)).name();

  ASSERT_THAT(failpoint::Set("chip.fault.2=error"), IsOk());
  for (const std::string& run : {runs[2], queued}) {
    const absl::Status error = ErrorOf(WaitForRun(api(), run));
    EXPECT_THAT(error, HasReason(reason::kChipUnavailable));
    EXPECT_EQ(error.message(), "chips/2 is FAULTED: it does not answer a probe");
    EXPECT_THAT(GetErrorDetail(error)->metadata, Contains(Pair("chip", "chips/2")));
    EXPECT_THAT(GetErrorDetail(error)->hint, HasSubstr("ptoctl chips reset"));
  }
  EXPECT_THAT(Call(*api().run, &v1::RunService::Stub::SubmitRun,
                   SubmitRequest(session, Spin(absl::Microseconds(1), 2))),
              HasReason(reason::kChipUnavailable));
  for (const uint32_t chip : {0u, 1u, 3u}) {
    EXPECT_EQ(WaitForRun(api(), runs[chip]).state(), v1::Run::SUCCEEDED) << chip;
    EXPECT_EQ(
        WaitForRun(api(), Submit(api(), session, Spin(absl::Microseconds(1), chip)).name()).state(),
        v1::Run::SUCCEEDED)
        << chip;
  }
  // A reset does not help while the fault persists.
  const ProgramResult useless = Ptoctl({"chips", "reset", "2"});
  EXPECT_EQ(useless.exit_code, 1);
  EXPECT_THAT(useless.out, HasSubstr("FAULTED"));
  EXPECT_THAT(useless.err, HasSubstr("CHIP_UNAVAILABLE"));

  ASSERT_THAT(failpoint::Set(""), IsOk());
  const ProgramResult reset = Ptoctl({"chips", "reset", "2"});
  EXPECT_EQ(reset.exit_code, 0) << reset.err;
  EXPECT_THAT(reset.out, HasSubstr("chips/2  ACTIVE"));
  // A new domain over all four chips; the scenario checks its results.
  const ProgramResult ring = Ptoctl({"scenarios", "run", "allreduce_ring", "--chips", "0-3"});
  EXPECT_EQ(ring.exit_code, 0) << ring.err;
  EXPECT_TRUE(Eventually([&] { return IsServing("chips/2"); }));
}

TEST_F(ChipHealthTest, AResetByPtoctlNeedsForceWhileRunsUseTheChip) {
  const std::string run = Submit(api(), MakeSession(api()), Spin(absl::Minutes(10), 1)).name();
  WaitUntilRunning(api(), run);
  const ProgramResult refused = Ptoctl({"chips", "reset", "chips/1"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, HasSubstr("CHIP_BUSY"));
  const ProgramResult forced = Ptoctl({"chips", "reset", "0", "1", "--force"});
  EXPECT_EQ(forced.exit_code, 0) << forced.err;
  EXPECT_THAT(forced.out, AllOf(HasSubstr("chips/0  ACTIVE"), HasSubstr("chips/1  ACTIVE")));
  EXPECT_THAT(ErrorOf(WaitForRun(api(), run)), HasReason(reason::kChipReset));
  EXPECT_EQ(Ptoctl({"chips", "reset", "9"}).exit_code, 1);
  EXPECT_EQ(Ptoctl({"chips", "reset"}).exit_code, 2);
}

TEST(ChipStallTest, AQueueThatHangsIsAFaultUntilItGoesOn) {
  if (!kHasFailpoints) GTEST_SKIP() << "a release build has no failpoints";
  const Directory directory;
  const std::string release = directory.path() + "/release";
  const DaemonFailpoints failpoints(absl::StrCat("engine.scheduler=hold:", release, "*1"));
  DaemonProcess daemon({"--sim-chips=2", "--stall-after=500ms"});
  Api& api = daemon.api();
  const std::string session = MakeSession(api);
  const std::string run = Submit(api, session, Spin(absl::Microseconds(1))).name();
  EXPECT_TRUE(Eventually([&] { return !daemon.IsServing("chips/0"); }));
  // The daemon, which does not hang itself, reports what hangs.
  const v1::Chip chip = GetChip(api, 0);
  EXPECT_EQ(chip.state(), v1::Chip::FAULTED);
  EXPECT_THAT(chip.fault().message(), HasSubstr("its queue has not answered"));
  EXPECT_TRUE(Eventually([&] { return absl::StrContains(daemon.Log(), "chip is faulted"); }));
  EXPECT_TRUE(daemon.IsServing(""));
  EXPECT_TRUE(daemon.IsServing("chips/1"));
  v1::ResetChipRequest reset;
  reset.set_name("chips/0");
  reset.set_force(true);
  EXPECT_THAT(Call(*api.node, &v1::NodeService::Stub::ResetChip, reset),
              HasReason(reason::kChipUnavailable));
  EXPECT_THAT(Call(*api.run, &v1::RunService::Stub::SubmitRun, SubmitRequest(session, Noops(1))),
              HasReason(reason::kChipUnavailable));
  std::ofstream(release) << "go";
  EXPECT_TRUE(Eventually([&] { return daemon.IsServing("chips/0"); }));
  EXPECT_TRUE(WaitForRun(api, run).has_end_time());
  EXPECT_EQ(WaitForRun(api, Submit(api, session, Noops(10)).name()).state(), v1::Run::SUCCEEDED);
  EXPECT_TRUE(Eventually([&] { return GetChip(api, 0).has_last_progress_time(); }));
}

// Threads and processes started while this object exists share one CPU.
class OnOneCpu {
 public:
  OnOneCpu() {
    EXPECT_EQ(sched_getaffinity(0, sizeof(before_), &before_), 0);
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu) {
      if (CPU_ISSET(cpu, &before_)) CPU_SET(cpu, &one);
    }
    EXPECT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  }
  ~OnOneCpu() { EXPECT_EQ(sched_setaffinity(0, sizeof(before_), &before_), 0); }

 private:
  cpu_set_t before_;
};

// Overload from many clients, with runs that wait and kernels that take long.
TEST(SaturatedTest, ABusyDaemonIsReadyAllTheTime) {
  absl::optional<OnOneCpu> on_one_cpu;
  on_one_cpu.emplace();
  DaemonProcess daemon({"--sim-chips=4", "--stall-after=1s"});
  on_one_cpu.reset();
  Api& api = daemon.api();
  std::atomic<bool> done{false};
  std::atomic<uint64_t> runs{0};
  std::vector<std::thread> clients;
  for (uint32_t i = 0; i < 8; ++i) {
    clients.emplace_back([&, i] {
      Api own(daemon.address());
      const std::string session = MakeSession(own);
      while (!done) {
        std::string last;
        for (int k = 0; k < 50 && !done; ++k) {
          last = Submit(own, session,
                        k % 10 == 0 ? Spin(absl::Milliseconds(20), i % kChips) : Chain(200))
                     .name();
          ++runs;
        }
        if (last.empty()) break;
        EXPECT_EQ(WaitForRun(own, last).state(), v1::Run::SUCCEEDED);
      }
    });
  }
  // Half of the cores of one chip wait for a signal that nobody sends, for longer than the stall
  // time.
  const std::string waiting = MakeSession(api);
  MakeBuffer(api, waiting, "signal", 8, 3);
  v1::GraphSpec hold = Proto<v1::GraphSpec>(R"pb(
    tensors { name: 'signal' dtype: I64 }
    tasks {
      kernel: 'hold'
      chip: 'chips/3'
      args: 'signal'
      scalars { i64: 1 }
      launch { core: AIV block_num: 24 }
    })pb");
  const std::string held = Submit(api, waiting, hold).name();
  const absl::Time until = absl::Now() + absl::Seconds(4);
  uint64_t checks = 0;
  while (absl::Now() < until && !::testing::Test::HasFailure()) {
    for (const std::string service :
         {"", "pto.v1.RunService", "chips/0", "chips/1", "chips/2", "chips/3"}) {
      EXPECT_TRUE(daemon.IsServing(service)) << service << " after " << checks << " checks";
      ++checks;
    }
  }
  done = true;
  for (std::thread& client : clients) client.join();
  std::printf("%lu checks during %lu runs\n", static_cast<unsigned long>(checks),
              static_cast<unsigned long>(runs.load()));
  EXPECT_EQ(GetRun(api, held).state(), v1::Run::RUNNING);
  for (uint32_t chip = 0; chip < kChips; ++chip) {
    EXPECT_EQ(GetChip(api, chip).fault_count(), 0u) << chip;
    EXPECT_EQ(GetChip(api, chip).state(), v1::Chip::ACTIVE) << chip;
  }
}

}  // namespace
}  // namespace pto::testing
