// What each principal has used: it agrees with the busy counters, survives kill -9, and nobody sees
// that of others.

#include <sys/types.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"
#include "tests/harness/api.h"
#include "tests/harness/as_user.h"
#include "tests/harness/daemon_process.h"
#include "tests/harness/directory.h"
#include "tests/harness/http_get.h"
#include "tests/harness/process.h"
#include "tests/harness/ptoctl.h"
#include "tests/integration/world.h"

namespace pto::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr uid_t kOne = 20'001;
constexpr uid_t kOther = 20'002;
constexpr uid_t kReader = 20'003;
constexpr uint32_t kBlocks = 20;
constexpr uint64_t kMiB = uint64_t{1} << 20;

std::string Name(uid_t user) { return absl::StrCat("uid-", user); }

class UsageTest : public ::testing::Test {
 protected:
  void SetUp() override {
    // In a sandbox whose user namespace has only one user nothing of this can be tried.
    ASSERT_TRUE(CanBecome(kOne)) << "this sandbox has only one user";
    OpenTo(daemon_.directory());
    Connect();
  }
  void Connect() {
    for (const uid_t user : {kOne, kOther, kReader}) {
      apis_[user] = std::make_unique<Api>(ChannelAs(user, daemon_.socket_path()));
    }
  }
  Api& As(uid_t user) { return *apis_[user]; }

  std::vector<std::string> Flags() {
    const std::string policy = files_.path() + "/policy";
    WriteFile(policy, absl::StrCat("grants { to: 'uid-", kReader, "' roles: READER }"));
    return {"--sim-chips=2",
            "--sim-memory=64M",
            "--state-dir=" + files_.path() + "/state",
            "--access-policy=" + policy,
            "--usage-interval=100ms",
            "--metrics-listen=unix:" + metrics_path(),
            "--drain-grace=0s"};
  }
  std::string metrics_path() const { return files_.path() + "/metrics"; }

  static std::map<std::string, v1::Usage> UsageOf(Api& api, const std::string& request = "") {
    const auto response =
        Call(*api.node, &v1::NodeService::Stub::ListUsage, Proto<v1::ListUsageRequest>(request));
    EXPECT_THAT(response, IsOk());
    std::map<std::string, v1::Usage> usage;
    if (!response.ok()) return usage;
    for (const v1::Usage& each : response->usage()) usage[each.principal()] = each;
    return usage;
  }
  double BusySeconds(uint32_t chip) {
    const std::string metrics = HttpGet(metrics_path(), "/metrics");
    const std::string name =
        absl::StrCat("ptod_chip_core_busy_seconds_total{chip=\"", chip, "\"} ");
    const size_t at = metrics.find(name);
    double seconds = -1;
    EXPECT_NE(at, std::string::npos) << metrics;
    if (at == std::string::npos) return seconds;
    const size_t begin = at + name.size();
    EXPECT_TRUE(
        absl::SimpleAtod(metrics.substr(begin, metrics.find('\n', begin) - begin), &seconds));
    return seconds;
  }

  // A run of the user that holds cores, and no thread, until it is cancelled.
  std::string Hold(uid_t user, const std::string& session, uint32_t chip) {
    MakeBuffer(As(user), session, "signal", 8, chip);
    v1::GraphSpec graph;
    v1::TensorSpec& signal = *graph.add_tensors();
    signal.set_name("signal");
    signal.set_dtype(v1::I64);
    v1::TaskSpec& task = *graph.add_tasks();
    task.set_kernel("hold");
    task.set_chip(absl::StrCat("chips/", chip));
    task.add_args("signal");
    task.add_scalars()->set_i64(1);
    task.mutable_launch()->set_core(v1::AIV);
    task.mutable_launch()->set_block_num(kBlocks);
    const v1::Run run = Submit(As(user), session, graph);
    EXPECT_TRUE(Eventually([&] { return GetChip(As(user), chip).busy_cores() == kBlocks; }));
    return run.name();
  }

  const Directory files_;
  DaemonProcess daemon_{Flags()};
  std::map<uid_t, std::unique_ptr<Api>> apis_;
};

// What the test waits for is time: nothing else makes usage.
void Pass(absl::Duration time) { absl::SleepFor(time); }

TEST_F(UsageTest, AgreesWithTheBusyCountersAndIsOfWhoRuns) {
  const std::string one = MakeSession(As(kOne));
  const std::string other = MakeSession(As(kOther));
  const std::string first = Hold(kOne, one, 0);
  const std::string second = Hold(kOther, other, 1);
  Pass(absl::Seconds(6));
  CancelRun(As(kOne), first);
  CancelRun(As(kOther), second);
  WaitForRun(As(kOne), first);
  WaitForRun(As(kOther), second);
  Submit(As(kOne), one, Noops(3));
  ASSERT_TRUE(Eventually([&] { return GetNode(As(kOne)).active_run_count() == 0; }));
  // A sample may be one period late at both ends.
  constexpr double kSlack = 0.05 * kBlocks;
  std::map<std::string, v1::Usage> usage = UsageOf(As(kReader));
  const double busy_one = BusySeconds(0);
  const double busy_other = BusySeconds(1);
  EXPECT_GT(busy_one, 5.5 * kBlocks);
  EXPECT_NEAR(usage[Name(kOne)].core_seconds(), busy_one, busy_one / 100 + kSlack);
  EXPECT_NEAR(usage[Name(kOther)].core_seconds(), busy_other, busy_other / 100 + kSlack);
  EXPECT_EQ(usage[Name(kOne)].runs(), 2u);
  EXPECT_EQ(usage[Name(kOther)].runs(), 1u);
}

TEST_F(UsageTest, MemoryCountsAsLongAsItIsHeld) {
  const std::string session = MakeSession(As(kOne));
  const absl::Time begin = absl::Now();
  MakeBuffer(As(kOne), session, "b", 8 * kMiB);
  const absl::Time held = absl::Now();
  Pass(absl::Seconds(2));
  const absl::Time asked = absl::Now();
  const double until = UsageOf(As(kOne))[Name(kOne)].memory_byte_seconds();
  EXPECT_GE(until, 8 * kMiB * absl::ToDoubleSeconds(asked - held));
  EXPECT_LE(until, 8 * kMiB * absl::ToDoubleSeconds(absl::Now() - begin));
  DeleteSession(As(kOne), session);
  const double all = UsageOf(As(kOne))[Name(kOne)].memory_byte_seconds();
  Pass(absl::Milliseconds(200));
  EXPECT_EQ(UsageOf(As(kOne))[Name(kOne)].memory_byte_seconds(), all);
}

TEST_F(UsageTest, SurvivesKills) {
  absl::Duration held;
  uint64_t runs = 0;
  for (int kill = 0; kill < 3; ++kill) {
    const std::string session = MakeSession(As(kOne));
    Hold(kOne, session, 0);
    const absl::Time begin = absl::Now();
    ++runs;
    Pass(absl::Seconds(2));
    // Accepted just before the kill: nothing was written of them.
    for (int i = 0; i < 50; ++i, ++runs) Submit(As(kOne), session, Noops(1));
    held += absl::Now() - begin;
    daemon_.Kill();
    daemon_.Restart();
    Connect();
    const v1::Usage usage = UsageOf(As(kOne))[Name(kOne)];
    EXPECT_EQ(usage.runs(), runs);
    const double expected = absl::ToDoubleSeconds(held) * kBlocks;
    // Of each life the last interval is missing, and the time until the run had its cores is not
    // counted.
    EXPECT_NEAR(usage.core_seconds(), expected, expected / 100 + (kill + 1) * 0.3 * kBlocks);
    EXPECT_GT(usage.memory_byte_seconds(), 0);
  }
  daemon_.Stop();
  daemon_.Restart();
  Connect();
  EXPECT_EQ(UsageOf(As(kOne))[Name(kOne)].runs(), runs);
}

TEST_F(UsageTest, OthersAreForReadersAndOperatorsOnly) {
  for (const uid_t user : {kOne, kOther}) {
    const std::string session = MakeSession(As(user));
    WaitForRun(As(user), Submit(As(user), session, Noops(1)).name());
  }
  const auto names = [](Api& api, const std::string& request = "") {
    std::vector<std::string> found;
    for (const auto& [name, usage] : UsageOf(api, request)) found.push_back(name);
    return found;
  };
  using ::testing::ElementsAre;
  using ::testing::IsEmpty;
  EXPECT_THAT(names(As(kOne)), ElementsAre(Name(kOne)));
  EXPECT_THAT(names(As(kOther)), ElementsAre(Name(kOther)));
  EXPECT_THAT(names(As(kReader)), ElementsAre(Name(kOne), Name(kOther)));
  EXPECT_THAT(names(daemon_.api()), ElementsAre(Name(kOne), Name(kOther)));
  // Somebody else is as nobody.
  EXPECT_THAT(names(As(kOne), "principal: 'uid-20002'"), IsEmpty());
  EXPECT_THAT(names(As(kOne), "principal: 'nobody'"), IsEmpty());
  EXPECT_THAT(names(As(kReader), "principal: 'uid-20002'"), ElementsAre(Name(kOther)));
  // A token of somebody else's list gives nothing.
  const auto page = Call(*As(kReader).node, &v1::NodeService::Stub::ListUsage,
                         Proto<v1::ListUsageRequest>("page_size: 1"));
  ASSERT_THAT(page, IsOk());
  ASSERT_NE(page->next_page_token(), "");
  EXPECT_THAT(names(As(kOne), absl::StrCat("page_token: '", page->next_page_token(), "'")),
              ElementsAre(Name(kOne)));
  EXPECT_THAT(names(As(kReader), absl::StrCat("page_token: '", page->next_page_token(), "'")),
              ElementsAre(Name(kOther)));
  // The test's own user is root.
  const ProgramResult shown =
      RunPtoctl(daemon_.address(), {"usage", "--by", "principal", "--since", "7d"});
  EXPECT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr(Name(kOne)));
  EXPECT_THAT(shown.out, HasSubstr("CORE SECONDS"));
  const ProgramResult one =
      RunPtoctl(daemon_.address(), {"usage", "--principal", Name(kOther), "-o", "json"});
  EXPECT_THAT(one.out, HasSubstr("\"runs\": \"1\""));
  EXPECT_THAT(one.out, Not(HasSubstr(Name(kOne))));
  EXPECT_EQ(RunPtoctl(daemon_.address(), {"usage", "--since", "long"}).exit_code, 2);
}

TEST_F(UsageTest, ADamagedRecordIsNoReasonNotToServe) {
  daemon_.Stop();
  WriteFile(files_.path() + "/state/usage.db",
            "this is no database, but much longer than a header"
            " of one would be, so that it is looked at at all");
  daemon_.Restart();
  Connect();
  MakeSession(As(kOne));
  EXPECT_TRUE(Eventually(
      [&] { return daemon_.Log().find("the record of usage is damaged") != std::string::npos; }));
  EXPECT_NE(ReadFile(files_.path() + "/state/usage.db.corrupt"), "");
}

}  // namespace
}  // namespace pto::testing
