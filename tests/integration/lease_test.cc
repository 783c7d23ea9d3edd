// Exclusive leases of chips.

#include <signal.h>
#include <sys/wait.h>

#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/types/optional.h"
#include "client/client.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"
#include "tests/harness/daemon_process.h"
#include "tests/harness/process.h"
#include "tests/harness/ptoctl.h"
#include "tests/harness/runfile.h"
#include "tests/integration/world.h"

namespace pto::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class LeaseTest : public ::testing::Test {
 protected:
  Api& api() { return daemon_.api(); }

  absl::StatusOr<v1::ChipLease> Lease(const std::string& session, uint32_t count,
                                      absl::Duration wait = {}) {
    v1::LeaseChipsRequest request;
    request.set_name(session);
    request.set_count(count);
    request.mutable_wait()->set_seconds(absl::ToInt64Seconds(wait));
    return Call(*api().session, &v1::SessionService::Stub::LeaseChips, request);
  }

  absl::Status TrySubmit(const std::string& session, uint32_t chip) {
    return Call(*api().run, &v1::RunService::Stub::SubmitRun,
                SubmitRequest(session, Spin(absl::Microseconds(1), chip)))
        .status();
  }

  bool IsLeased(uint32_t chip) { return !GetChip(api(), chip).lease().empty(); }

  // Sessions that are not renewed expire soon, whatever they requested.
  DaemonProcess daemon_{{"--sim-chips=2", "--session-default-ttl=2s", "--session-max-ttl=2s"}};
};

TEST_F(LeaseTest, OthersAreKeptOffAndThoseWithTheLeaseAreNot) {
  const std::string holder = MakeSession(api());
  const std::string other = MakeSession(api());
  const auto lease = Lease(holder, 1);
  ASSERT_THAT(lease, IsOk());
  EXPECT_EQ(lease->state(), v1::ChipLease::GRANTED);
  EXPECT_THAT(lease->chips(), ElementsAre("chips/0"));
  EXPECT_EQ(GetChip(api(), 0).lease(), holder);
  EXPECT_THAT(TrySubmit(other, 0), HasReason(reason::kChipLeased));
  EXPECT_THAT(TrySubmit(other, 1), IsOk());
  EXPECT_THAT(TrySubmit(holder, 0), IsOk());
  v1::CreateSessionRequest request;
  request.set_session_id(UniqueId("member"));
  request.set_lease(holder);
  const auto member = Call(*api().session, &v1::SessionService::Stub::CreateSession, request);
  ASSERT_THAT(member, IsOk());
  EXPECT_EQ(member->lease(), holder);
  EXPECT_THAT(TrySubmit(member->name(), 0), IsOk());
  DeleteSession(api(), holder);
  EXPECT_THAT(TrySubmit(other, 0), IsOk());
  EXPECT_FALSE(IsLeased(0));
}

TEST_F(LeaseTest, WaitsForRunsOfOthersWhichMayEnd) {
  const std::string other = MakeSession(api());
  const v1::Run run = Submit(api(), other, Spin(absl::Minutes(10), 1));
  WaitUntilRunning(api(), run.name());
  const std::string holder = MakeSession(api());
  const auto waiting = Lease(holder, 2);
  ASSERT_THAT(waiting, IsOk());
  EXPECT_EQ(waiting->state(), v1::ChipLease::WAITING);
  EXPECT_THAT(TrySubmit(other, 1), HasReason(reason::kChipLeased));
  EXPECT_EQ(GetRun(api(), run.name()).state(), v1::Run::RUNNING);
  CancelRun(api(), run.name());
  const auto granted = Lease(holder, 2, absl::Seconds(50));
  ASSERT_THAT(granted, IsOk());
  EXPECT_EQ(granted->state(), v1::ChipLease::GRANTED);
}

TEST_F(LeaseTest, ItEndsWithItsSession) {
  ASSERT_THAT(Lease(MakeSession(api()), 2), IsOk());
  EXPECT_TRUE(IsLeased(1));
  // Not renewed.
  EXPECT_TRUE(Eventually([&] { return !IsLeased(1); }));
}

TEST_F(LeaseTest, TheCommandHasItsChipsAndEndsAsItDid) {
  const ProgramResult result =
      RunPtoctl(daemon_.address(), {"chips", "lease", "-n", "2", "--", "sh", "-c",
                                    "echo \"$PTOD_CHIPS $PTOD_ADDRESS $PTOD_LEASE\"; exit 7"});
  EXPECT_EQ(result.exit_code, 7) << result.err;
  EXPECT_THAT(result.out, HasSubstr(absl::StrCat("0-1 ", daemon_.address(), " sessions/")));
  EXPECT_FALSE(IsLeased(0));
}

TEST_F(LeaseTest, ToolsWithinTheCommandUseItsChips) {
  const std::string ptoctl = Runfile("client/ptoctl/ptoctl");
  const std::string job = daemon_.directory() + "/job.json";
  WriteFile(job,
            R"({"chips": ["0-1"], "graph": {"tasks": [{"kernel": "noop", "chip": "chips/1"}]}})");
  const ProgramResult inside = RunPtoctl(
      daemon_.address(), {"chips", "lease", "-n", "2", "--", ptoctl, "runs", "submit", job});
  EXPECT_EQ(inside.exit_code, 0) << inside.err;
  // A client renews it, however long ptoctl takes to start.
  absl::StatusOr<Client> client = Client::Connect(daemon_.address());
  ASSERT_THAT(client, IsOk());
  absl::StatusOr<Session> holder = client->CreateSession();
  ASSERT_THAT(holder, IsOk());
  ASSERT_THAT(holder->LeaseChips(2, absl::ZeroDuration()), IsOk());
  const ProgramResult outside = RunPtoctl(daemon_.address(), {"runs", "submit", job});
  EXPECT_EQ(outside.exit_code, 1);
  EXPECT_THAT(outside.err, HasSubstr("CHIP_LEASED"));
}

TEST_F(LeaseTest, ATurnThatDoesNotComeInTimeIsSaid) {
  absl::StatusOr<Client> client = Client::Connect(daemon_.address());
  ASSERT_THAT(client, IsOk());
  absl::StatusOr<Session> session = client->CreateSession();
  ASSERT_THAT(session, IsOk());
  ASSERT_THAT(session->LeaseChips(2, absl::ZeroDuration()), IsOk());
  const ProgramResult result = RunPtoctl(
      daemon_.address(), {"--timeout", "500ms", "chips", "lease", "-n", "1", "--", "true"});
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_THAT(result.err, HasSubstr("CLIENT_TIMEOUT"));
}

TEST_F(LeaseTest, CommandsThatWaitGetTheirTurnsInOrder) {
  absl::StatusOr<Client> client = Client::Connect(daemon_.address());
  ASSERT_THAT(client, IsOk());
  absl::StatusOr<Session> holder = client->CreateSession();
  ASSERT_THAT(holder, IsOk());
  ASSERT_THAT(holder->LeaseChips(2, absl::ZeroDuration()), IsOk());
  const std::string go = daemon_.directory() + "/go";
  // Reports which chips it has, and keeps them until it may exit.
  const auto start = [&](const std::string& name, const std::string& count) {
    Process::Options options;
    options.command = {
        Runfile("client/ptoctl/ptoctl"),
        "--address",
        daemon_.address(),
        "chips",
        "lease",
        "-n",
        count,
        "--",
        "sh",
        "-c",
        absl::StrCat("echo has $PTOD_CHIPS; until [ -e ", go, " ]; do sleep 0.01; done; exit 5")};
    options.out = daemon_.directory() + "/" + name + ".out";
    options.err = daemon_.directory() + "/" + name + ".err";
    return std::make_unique<Process>(options);
  };
  const auto said = [&](const std::string& file) {
    std::ifstream stream(daemon_.directory() + "/" + file);
    return std::string(std::istreambuf_iterator<char>(stream), {});
  };
  const std::unique_ptr<Process> first = start("first", "2");
  EXPECT_TRUE(Eventually([&] {
    return absl::StrContains(said("first.err"), "waiting for 2 chips, 0 requests are ahead");
  }));
  const std::unique_ptr<Process> second = start("second", "1");
  EXPECT_TRUE(Eventually([&] {
    return absl::StrContains(said("second.err"), "waiting for 1 chips, 1 requests are ahead");
  }));
  EXPECT_EQ(said("first.out"), "");

  ASSERT_THAT(holder->Close(), IsOk());
  EXPECT_TRUE(Eventually([&] { return said("first.out") == "has 0-1\n"; })) << said("first.err");
  // The second request is next, and its client sees that.
  EXPECT_TRUE(Eventually([&] {
    return absl::StrContains(said("second.err"), "waiting for 1 chips, 0 requests are ahead");
  }));
  EXPECT_EQ(said("second.out"), "");
  WriteFile(go, "");
  for (Process* const process : {first.get(), second.get()}) {
    const absl::optional<int> status = process->Wait(absl::Seconds(30));
    ASSERT_TRUE(status.has_value());
    EXPECT_TRUE(WIFEXITED(*status) && WEXITSTATUS(*status) == 5) << *status;
  }
  EXPECT_EQ(said("second.out"), "has 0\n");
  EXPECT_FALSE(IsLeased(0));
}

TEST_F(LeaseTest, WhenItIsKilledTheChipsAreFreeAfterAWhile) {
  Process::Options options;
  options.command = {Runfile("client/ptoctl/ptoctl"),
                     "--address",
                     daemon_.address(),
                     "chips",
                     "lease",
                     "-n",
                     "2",
                     "--",
                     "sleep",
                     "1000"};
  options.out = options.err = daemon_.directory() + "/ptoctl.log";
  Process ptoctl(options);
  EXPECT_TRUE(Eventually([&] { return IsLeased(0); }));
  ptoctl.Signal(SIGKILL);
  EXPECT_TRUE(ptoctl.Wait(absl::Seconds(30)).has_value());
  EXPECT_TRUE(Eventually([&] { return !IsLeased(0); }));
  // Its command was killed with it.
  EXPECT_TRUE(Eventually([&] { return !ptoctl.GroupExists(); }));
}

}  // namespace
}  // namespace pto::testing
