// One host of a chip of the fake, and what its process does wrong.
#include "runtime/chip/ascend/chip_host.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"

namespace pto::ascend {
namespace {

using ::pto::testing::HasReason;
using ::pto::testing::IsOk;
using ::testing::HasSubstr;

class ChipHostTest : public ::testing::Test {
 protected:
  void SetUp() override {
    static int number = 0;
    folder_ = absl::StrCat(std::getenv("TEST_TMPDIR"), "/host-", ++number);
    mkdir(folder_.c_str(), 0700);
    options_.name = "chips/0";
    options_.program = "runtime/chip/ascend/host/ptod_chip_host";
    options_.cann_path = "tests/fake_cann/cann-9";
    options_.environment = {"LD_LIBRARY_PATH=tests/fake_cann/cann-9/lib64",
                            absl::StrCat("FAKE_CANN_DIR=", folder_)};
    options_.start_timeout = absl::Seconds(20);
  }

  void SetPlan(const std::string& plan) {
    options_.environment.push_back(absl::StrCat("FAKE_CANN_PLAN=", plan));
  }

  void Start() {
    host_ = ChipHost::Start(options_);
    ASSERT_THAT(host_->AwaitReady(absl::Seconds(20)), IsOk());
  }

  // A program in place of the host: the host itself, until the file `other` is there.
  void StartScript(const std::string& other) {
    char here[4096];
    ASSERT_NE(getcwd(here, sizeof here), nullptr);
    const std::string path = folder_ + "/host.sh";
    std::ofstream(path) << "#!/bin/sh\nif [ -e " << folder_ << "/other ]; then " << other
                        << "; fi\nexec " << here << "/" << options_.program << " \"$@\"\n";
    ASSERT_EQ(chmod(path.c_str(), 0700), 0);
    options_.program = path;
    Start();
  }
  void SwitchToOther() { std::ofstream(folder_ + "/other") << "now"; }

  Request Allocation(uint64_t bytes = 64) const {
    Request request;
    request.kind = Request::kAllocate;
    request.epoch = host_->epoch();
    request.bytes = bytes;
    return request;
  }

  template <typename Condition>
  static bool Await(Condition condition) {
    const absl::Time until = absl::Now() + absl::Seconds(20);
    while (!condition()) {
      if (absl::Now() > until) return false;
      std::this_thread::yield();
    }
    return true;
  }

  std::string folder_;
  ChipHostOptions options_;
  std::shared_ptr<ChipHost> host_;
};

TEST_F(ChipHostTest, AProcessThatDoesNotBecomeReadyAgainIsKilled) {
  options_.start_timeout = absl::Seconds(3);
  StartScript("exec sleep 1000");
  SwitchToOther();
  ASSERT_EQ(kill(host_->pid(), SIGKILL), 0);
  EXPECT_TRUE(Await([&] { return host_->starts() == 3; })) << "the second was given up";
  EXPECT_THAT(host_->trouble(), HasSubstr("it did not become ready"));
}

TEST_F(ChipHostTest, AProcessThatIsKilledTakesNothingAnyMore) {
  Start();
  const uint64_t epoch = host_->epoch();
  const Request request = Allocation();
  host_->KillProcess("by the test");
  // At once, and not when the process is gone.
  EXPECT_THAT(host_->trouble(), HasSubstr("by the test"));
  EXPECT_EQ(host_->epoch(), epoch + 1);
  EXPECT_THAT(host_->Call(request), HasReason(reason::kHostLost));
  EXPECT_TRUE(Await([&] { return host_->trouble().empty(); }));
  EXPECT_EQ(host_->epoch(), epoch + 1);
  EXPECT_THAT(host_->Call(request), HasReason(reason::kDeviceFailed)) << "of a former epoch";
  EXPECT_THAT(host_->Call(Allocation()), IsOk());
}

TEST_F(ChipHostTest, AnAnswerMayBeTheLastOwner) {
  Start();
  const pid_t pid = host_->pid();
  auto last = std::make_shared<std::shared_ptr<ChipHost>>(host_);
  host_->Send(Allocation(), [last](const Reply&) {
    // All others are gone before this.
    while (last->use_count() > 1) std::this_thread::yield();
    last->reset();
  });
  host_.reset();
  EXPECT_TRUE(Await([&] { return kill(pid, 0) != 0 && errno == ESRCH; })) << "it has ended";
}

TEST_F(ChipHostTest, ACallHasADeadlineAndWhatComesLaterIsUndone) {
  // The third: one of the probe, and the arena.
  SetPlan("aclrtMalloc:3=delay,1000");
  options_.call_timeout = absl::Milliseconds(100);
  Start();
  std::atomic<uint64_t> late{0};
  const absl::StatusOr<uint64_t> value =
      host_->Call(Allocation(), [&](ChipHost&, uint64_t address) { late = address; });
  EXPECT_THAT(value, HasReason(reason::kDeviceFailed));
  EXPECT_THAT(std::string(value.status().message()), HasSubstr("did not answer within 100ms"));
  EXPECT_TRUE(Await([&] { return late != 0; }));
  EXPECT_EQ(host_->starts(), 1u);
}

TEST_F(ChipHostTest, AChipThatIsNotWellIsFoundByAProbe) {
  // The first is that of the start.
  SetPlan("aclrtQueryDeviceStatus:3=corrupt");
  options_.probe_interval = absl::Milliseconds(20);
  Start();
  const uint64_t epoch = host_->epoch();
  EXPECT_TRUE(Await([&] { return host_->epoch() > epoch && host_->trouble().empty(); }));
  EXPECT_EQ(host_->starts(), 1u) << "it was reset";
  EXPECT_EQ(host_->faults().count, 1u);
  EXPECT_THAT(host_->faults().last, HasSubstr("abnormal"));
}

TEST_F(ChipHostTest, ARecoveryLooksForFaultsAndDoesNotPause) {
  SetPlan("aclrtQueryDeviceStatus:2=corrupt");
  options_.first_pause = absl::Hours(1);
  options_.longest_pause = absl::Hours(1);
  options_.probe_interval = absl::Hours(1);
  Start();
  const uint64_t epoch = host_->epoch();
  EXPECT_EQ(host_->trouble(), "") << "nobody has looked";
  EXPECT_THAT(host_->Recover(absl::Seconds(20)), IsOk());
  EXPECT_EQ(host_->epoch(), epoch + 1) << "it was reset";
  EXPECT_THAT(host_->Recover(absl::Seconds(20)), IsOk());
  EXPECT_EQ(host_->epoch(), epoch + 1) << "it was well";
  ASSERT_EQ(kill(host_->pid(), SIGKILL), 0);
  ASSERT_TRUE(Await([&] { return !host_->trouble().empty(); }));
  EXPECT_THAT(host_->Recover(absl::Seconds(20)), IsOk());
  EXPECT_EQ(host_->starts(), 2u);
}

TEST_F(ChipHostTest, AProcessThatDoesNotAnswerAProbeIsKilled) {
  SetPlan("aclrtQueryDeviceStatus:3=hang");
  options_.probe_interval = absl::Milliseconds(20);
  options_.answer_timeout = absl::Milliseconds(300);
  Start();
  EXPECT_TRUE(Await([&] { return host_->starts() == 2; }));
}

TEST_F(ChipHostTest, ALaunchHasADeadlineOfTheDaemon) {
  SetPlan("aclrtMalloc:3=hang");
  options_.launch_slack = absl::Milliseconds(100);
  Start();
  host_->Send(Allocation(), [](const Reply&) {});
  Request launch;
  launch.kind = Request::kLaunch;
  launch.epoch = host_->epoch();
  launch.timeout_ns = 1;
  std::atomic<bool> answered{false};
  host_->Send(launch, [&](const Reply& reply) {
    EXPECT_THAT(reply.status, HasReason(reason::kHostLost));
    answered = true;
  });
  EXPECT_TRUE(Await([&] { return answered.load(); }));
}

TEST_F(ChipHostTest, MoreRequestsThanTheRingHoldsAreAllAnswered) {
  Start();
  constexpr int kRequests = 5000;
  std::atomic<int> answered{0};
  const absl::Time begin = absl::Now();
  for (int i = 0; i < kRequests; ++i) {
    // As large as a request can be, and refused.
    Request request;
    request.kind = Request::kLaunch;
    request.epoch = host_->epoch();
    request.tensors.resize(host::kPtoMaxTensors);
    host_->Send(std::move(request), [&](const Reply&) { ++answered; });
  }
  EXPECT_TRUE(Await([&] { return answered == kRequests; }));
  // A ring that is looked at twice a second would take longer.
  EXPECT_LT(absl::Now() - begin, absl::Seconds(10));
}

}  // namespace
}  // namespace pto::ascend
