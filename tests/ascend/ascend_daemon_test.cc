// `ptod --backend=ascend` as its users see it, on the fake CANN.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/client.h"
#include "client/graph_builder.h"
#include "client/session.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"
#include "tests/harness/daemon_process.h"
#include "tests/harness/ptoctl.h"

namespace pto::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<std::string> Flags(const std::string& cann, uint32_t sim_chips = 0) {
  std::vector<std::string> flags = {
      "--backend=ascend", absl::StrCat("--cann-path=", cann),
      absl::StrCat("--chip-host=", Runfile("runtime/chip/ascend/host/ptod_chip_host"))};
  if (sim_chips > 0) flags.push_back(absl::StrCat("--sim-chips=", sim_chips));
  return flags;
}

std::string FakeCann(const std::string& layout = "9") {
  return Runfile("tests/fake_cann/cann-" + layout);
}

class AscendDaemonTest : public ::testing::Test {
 protected:
  void SetUp() override {
    static int number = 0;
    const std::string folder = absl::StrCat(std::getenv("TEST_TMPDIR"), "/machine-", ++number);
    mkdir(folder.c_str(), 0700);
    setenv("FAKE_CANN_DIR", folder.c_str(), 1);
    setenv("FAKE_CANN_PLAN", "", 1);
  }

  static Session MakeSession(const DaemonProcess& daemon) {
    auto client = Client::Connect(daemon.address());
    EXPECT_THAT(client, IsOk());
    auto session = client->CreateSession();
    EXPECT_THAT(session, IsOk());
    return *std::move(session);
  }
};

std::string MapsOf(pid_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/maps"));
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST_F(AscendDaemonTest, WithoutCannItServesTheOthersAndSaysWhy) {
  DaemonProcess daemon(Flags("/nowhere", 2));
  EXPECT_THAT(daemon.Log(), AllOf(HasSubstr("there are no Ascend chips"),
                                  HasSubstr("/nowhere is not there"), HasSubstr("ptoctl doctor")));
  const ProgramResult chips = RunPtoctl(daemon.address(), {"-q", "chips", "ls"});
  EXPECT_EQ(chips.out, "chips/0\nchips/1\n");
}

TEST_F(AscendDaemonTest, WithoutAnyChipItStarts) {
  DaemonProcess daemon(Flags("/nowhere"));
  EXPECT_EQ(RunPtoctl(daemon.address(), {"-q", "chips", "ls"}).out, "");
  EXPECT_EQ(RunPtoctl(daemon.address(), {"node", "info"}).exit_code, 0);
}

TEST_F(AscendDaemonTest, AMixedNodeHasBuffersOnAllChips) {
  for (const char* const layout : {"8.1", "8.5", "9"}) {
    DaemonProcess daemon(Flags(FakeCann(layout), 2));
    const ProgramResult chips = RunPtoctl(daemon.address(), {"chips", "ls"});
    EXPECT_THAT(chips.out, AllOf(HasSubstr("chips/3"), HasSubstr("ascend"), HasSubstr("sim")));
    Session session = MakeSession(daemon);
    std::vector<uint32_t> numbers(700'000);
    std::iota(numbers.begin(), numbers.end(), 1);
    for (uint32_t chip = 0; chip < 4; ++chip) {
      const auto buffer =
          session.CreateBuffer(absl::StrCat("b", chip), chip, numbers.size() * sizeof(uint32_t));
      ASSERT_THAT(buffer, IsOk());
      ASSERT_THAT(buffer->Write(numbers), IsOk());
      const auto back = buffer->Read<uint32_t>(numbers.size());
      ASSERT_THAT(back, IsOk());
      EXPECT_EQ(*back, numbers) << "chips/" << chip;
    }
    EXPECT_THAT(MapsOf(daemon.pid()), Not(HasSubstr("libacl_rt"))) << "only hosts open CANN";
    EXPECT_THAT(MapsOf(daemon.pid()), Not(HasSubstr("libascendcl")));
  }
}

TEST_F(AscendDaemonTest, WhatAChipCannotDoIsRefusedByName) {
  DaemonProcess daemon(Flags(FakeCann(), 1));
  Session session = MakeSession(daemon);
  ASSERT_THAT(session.CreateBuffer("a", 0, 4096), IsOk());
  // Before anything runs, and with the name of the chip.
  const ProgramResult run = RunPtoctl(daemon.address(), {"scenarios", "run", "sync_start"});
  EXPECT_NE(run.exit_code, 0);
  EXPECT_THAT(run.out + run.err, HasSubstr("the memory of chips/0 is not visible to the host"));
}

TEST_F(AscendDaemonTest, TasksWithoutTensorsAndDomainsWithoutSignalsAreRefusedToo) {
  DaemonProcess daemon(Flags(FakeCann(), 1));
  Session session = MakeSession(daemon);
  for (uint32_t chip = 0; chip < 3; ++chip) {
    GraphBuilder graph;
    graph.Task("noop", chip, {});
    const auto run = session.Submit(graph);
    const auto domain = session.CreateDomain(
        {.id = absl::StrCat("d", chip), .chips = {chip}, .buffers = {{"x", v1::F32, 16}}});
    if (chip == 2) {
      EXPECT_THAT(run, IsOk()) << "it is simulated";
      EXPECT_THAT(domain, IsOk());
    } else {
      EXPECT_THAT(run, HasReason(reason::kNotAvailable));
      EXPECT_THAT(domain, HasReason(reason::kNotAvailable));
    }
  }
}

TEST_F(AscendDaemonTest, ResettingAChipKeepsItsBuffersUnlessItHasFailed) {
  DaemonProcess daemon(Flags(FakeCann()));
  Session session = MakeSession(daemon);
  const auto buffer = session.CreateBuffer("b", 0, 4096);
  ASSERT_THAT(buffer, IsOk());
  ASSERT_THAT(buffer->Write(std::vector<uint32_t>(4, 7)), IsOk());
  EXPECT_EQ(RunPtoctl(daemon.address(), {"chips", "reset", "0"}).exit_code, 0);
  const auto back = buffer->Read<uint32_t>(4);
  ASSERT_THAT(back, IsOk());
  EXPECT_EQ(*back, std::vector<uint32_t>(4, 7));
}

TEST_F(AscendDaemonTest, AFaultedChipRecoversWhileOthersServe) {
  setenv("FAKE_CANN_PLAN", "aclrtMemsetAsync@0:2=poison,507899", 1);
  DaemonProcess daemon(Flags(FakeCann(), 1));
  Session session = MakeSession(daemon);
  const auto before = session.CreateBuffer("before", 0, 4096);
  ASSERT_THAT(before, IsOk());
  const auto failed = session.CreateBuffer("failed", 0, 4096);
  EXPECT_THAT(failed, HasReason(reason::kDeviceFailed));
  EXPECT_THAT(std::string(failed.status().message()), HasSubstr("DRV_INTERNAL_ERROR 507899"));
  for (uint32_t chip = 1; chip < 3; ++chip) {
    EXPECT_THAT(session.CreateBuffer(absl::StrCat("other", chip), chip, 4096), IsOk());
  }
  // The reset comes by itself.
  const absl::Time until = absl::Now() + absl::Seconds(20);
  absl::Status again;
  do {
    again = session.CreateBuffer("again", 0, 4096).status();
  } while (!again.ok() && absl::Now() < until);
  EXPECT_THAT(again, IsOk());
  EXPECT_THAT(before->Read<uint32_t>(4), HasReason(reason::kDeviceFailed));
}

TEST_F(AscendDaemonTest, TheDoctorNeedsNoDaemon) {
  const ProgramResult found =
      RunPtoctl("unix:/nowhere", {"doctor", "-o", "json", "--cann-path", FakeCann(), "--chip-host",
                                  Runfile("runtime/chip/ascend/host/ptod_chip_host")});
  EXPECT_THAT(found.out, HasSubstr("2 devices Ascend910B3"));
  const ProgramResult lost = RunPtoctl("unix:/nowhere", {"doctor", "--chip-host", "/nowhere"});
  EXPECT_EQ(lost.exit_code, 2);
}

}  // namespace
}  // namespace pto::testing
