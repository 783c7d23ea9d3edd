// What ptoctl shows of a daemon and of graphs, in all its formats.

#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"
#include "tests/integration/ptoctl_testing.h"

namespace pto::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST_F(PtoctlTest, ShowsTheNode) {
  const v1::Node node = GetNode(api());
  EXPECT_THAT(Output({"node", "info"}),
              AllOf(HasSubstr(node.boot_id()), HasSubstr(absl::StrCat(node.pid()))));
  EXPECT_EQ(FromJson<v1::Node>(Output({"node", "info", "-o", "json"})).boot_id(), node.boot_id());
  EXPECT_EQ(Output({"node", "info", "-q"}), node.boot_id() + "\n");
}

TEST_F(PtoctlTest, ShowsTheConfiguration) {
  const auto all = FromJson<v1::Config>(Output({"config", "show", "-o", "json"}));
  EXPECT_GT(all.settings_size(), 30);
  const auto changed = FromJson<v1::Config>(Output({"config", "show", "--changed", "-o", "json"}));
  EXPECT_GT(changed.settings_size(), 0);
  EXPECT_LT(changed.settings_size(), all.settings_size());
  for (const v1::Config::Setting& setting : changed.settings()) {
    EXPECT_EQ(setting.source(), v1::Config::Setting::FLAG) << setting.name();
  }
  EXPECT_THAT(Output({"config", "show"}),
              AllOf(ContainsRegex("sim_chips.count +4 +flag\n"),
                    ContainsRegex("session.default_ttl +30s +default\n")));
}

TEST_F(PtoctlTest, ListsChips) {
  const std::vector<std::string> lines = Lines(Output({"chips", "ls"}));
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_THAT(lines[0], HasSubstr("CHIP"));
  EXPECT_THAT(lines[4], AllOf(HasSubstr("chips/3"), HasSubstr("ACTIVE"), HasSubstr("sim")));
  const auto list = ListFromJson<v1::ListChipsResponse>("chips", Output({"chips", "ls", "-ojson"}));
  ASSERT_EQ(list.chips_size(), 4);
  EXPECT_EQ(list.chips(2).aiv_cores(), 48u);
  EXPECT_EQ(Output({"-q", "chips", "ls"}), "chips/0\nchips/1\nchips/2\nchips/3\n");
}

TEST_F(PtoctlTest, ListsKernels) {
  EXPECT_THAT(Output({"kernels", "ls"}), AllOf(HasSubstr("matmul"), HasSubstr("spin")));
  const auto list = ListFromJson<v1::ListKernelsResponse>(
      "kernels", Output({"kernels", "ls", "--output", "json"}));
  EXPECT_GE(list.kernels_size(), 10);
}

TEST_F(PtoctlTest, ListsAndRemovesSessions) {
  const std::string kept = MakeSession(api());
  const std::string removed = MakeSession(api());
  EXPECT_THAT(Output({"sessions", "ls"}), AllOf(HasSubstr(kept), HasSubstr(removed)));
  EXPECT_EQ(Output({"sessions", "rm", removed, "-q"}), removed + "\n");
  const auto list =
      ListFromJson<v1::ListSessionsResponse>("sessions", Output({"sessions", "ls", "-o", "json"}));
  EXPECT_GE(list.sessions_size(), 1);
  EXPECT_FALSE(SessionLives(api(), removed));
  // By id, with one that does not exist: the other is still removed.
  const ProgramResult result =
      Ptoctl({"sessions", "rm", "never-was", kept.substr(sizeof "sessions/" - 1)});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("SESSION_UNKNOWN"));
  EXPECT_FALSE(SessionLives(api(), kept));
}

TEST_F(PtoctlTest, SelectsSessionsByLabels) {
  v1::CreateSessionRequest request;
  request.set_session_id("labelled");
  (*request.mutable_labels())["job"] = "a=b";
  (*request.mutable_labels())["team"] = "x";
  ASSERT_THAT(Call(*api().session, &v1::SessionService::Stub::CreateSession, request), IsOk());
  MakeSession(api());
  const auto list = [&](const std::vector<std::string>& labels) {
    std::vector<std::string> args = {"sessions", "ls", "-o", "name"};
    for (const std::string& label : labels) args.insert(args.end(), {"-l", label});
    return Output(args);
  };
  EXPECT_EQ(list({"job=a=b"}), "sessions/labelled\n");
  EXPECT_EQ(list({"job=a=b", "team=x"}), "sessions/labelled\n");
  EXPECT_EQ(list({"job=a=b", "team=y"}), "");
  EXPECT_EQ(list({"job="}), "");
  EXPECT_EQ(Ptoctl({"sessions", "ls", "-l", "job"}).exit_code, 2);
}

TEST(PtoctlDrainTest, WaitsUntilNoRunIsLeft) {
  DaemonProcess daemon({"--sim-chips=1"});
  const auto ptoctl = [&](const std::vector<std::string>& args) {
    return RunPtoctl(daemon.address(), args);
  };
  const v1::Run run =
      Submit(daemon.api(), MakeSession(daemon.api()), Spin(absl::Milliseconds(600)));
  EXPECT_THAT(ptoctl({"node", "drain", "--grace", "1m"}).out,
              HasSubstr("draining, 1 active runs left"));
  EXPECT_EQ(ptoctl({"node", "drain", "--wait", "--grace", "1m"}).out, "drained\n");
  EXPECT_EQ(GetRun(daemon.api(), run.name()).state(), v1::Run::SUCCEEDED);
  const ProgramResult refused = ptoctl({"graphs", "dot", Runfile("client/examples/ffn.txtpb")});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, HasSubstr("NODE_DRAINING"));
}

TEST_F(PtoctlTest, WritesACompletionForTheShell) {
  EXPECT_THAT(Output({"completion", "bash"}), AllOf(HasSubstr("complete"), HasSubstr("ptoctl")));
}

// ---- graphs

// The edges of a drawing, verbatim.
std::set<std::string> Arrows(const std::string& dot) {
  std::set<std::string> arrows;
  for (const std::string& line : Lines(dot)) {
    if (absl::StrContains(line, "->")) {
      arrows.insert(std::string(absl::StripAsciiWhitespace(line)));
    }
  }
  return arrows;
}

TEST_F(PtoctlTest, DrawsWhatTheDaemonFinds) {
  const std::string dot = Output({"graphs", "dot", Example("ffn.txtpb")});
  // No task of the file names its dependencies.
  EXPECT_THAT(Arrows(dot),
              ElementsAre("t0 -> t1;", "t1 -> t2;", "t2 -> t3;", "t3 -> t4;", "t4 -> t5;"));
  EXPECT_THAT(dot, AllOf(HasSubstr("digraph"), HasSubstr("layer-1\\nmatmul x4"),
                         HasSubstr("cluster_chip0")));
  EXPECT_THAT(Arrows(Output({"graphs", "dot", Example("vector_add.json")})), IsEmpty());
  // Nothing is left behind.
  EXPECT_THAT(Output({"sessions", "ls", "-q"}), Not(HasSubstr("ffn")));
}

TEST_F(PtoctlTest, DrawsTheFirstTasksOfALargeGraph) {
  const ProgramResult result =
      Ptoctl({"graphs", "dot", Example("random_dag.json"), "--max-tasks", "20"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("t19 ["), Not(HasSubstr("t20"))));
  EXPECT_THAT(result.out, HasSubstr("and 980 more tasks"));
  EXPECT_THAT(result.err, HasSubstr("only the first 20 of 1000 tasks are drawn"));
}

TEST_F(PtoctlTest, DrawsARegisteredGraph) {
  const std::string session = MakeSession(api());
  v1::RegisterGraphRequest request;
  request.set_parent(session);
  request.set_graph_id("chain");
  *request.mutable_graph() = Chain(25'000);
  ASSERT_THAT(Call(*api().run, &v1::RunService::Stub::RegisterGraph, request), IsOk());
  // More than a page.
  const std::string dot =
      Output({"graphs", "dot", session + "/graphs/chain", "--max-tasks", "30000"});
  EXPECT_EQ(Arrows(dot).size(), 24'999u);
  const ProgramResult unknown = Ptoctl({"graphs", "dot", session + "/graphs/nope"});
  EXPECT_EQ(unknown.exit_code, 1);
  EXPECT_THAT(unknown.err, HasSubstr("GRAPH_UNKNOWN"));
  EXPECT_EQ(Ptoctl({"graphs", "dot", "/nonexistent.json"}).exit_code, 2);
  DeleteSession(api(), session);
}

}  // namespace
}  // namespace pto::testing
