// Traces of real runs: what happened, and files that a viewer takes.

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/client.h"
#include "client/trace/chrome_check.h"
#include "client/trace/collect.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"
#include "tests/harness/daemon_process.h"
#include "tests/harness/directory.h"
#include "tests/harness/ptoctl.h"

namespace pto::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class TraceTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) { return daemon_.directory() + "/" + name; }
  ProgramResult Ptoctl(const std::vector<std::string>& args) {
    return RunPtoctl(daemon_.address(), args);
  }
  trace::ChromeContents Check(const std::string& file) {
    trace::ChromeContents contents;
    EXPECT_THAT(trace::CheckChromeTrace(ReadFile(Path(file)), &contents), IsOk());
    return contents;
  }

  DaemonProcess daemon_{{"--sim-chips=4"}};
  Client client_ = *Client::Connect(daemon_.address());
};

TEST_F(TraceTest, OfAScenario) {
  const ProgramResult result = Ptoctl({"scenarios", "run", "moe_ep", "--trace", Path("moe.json")});
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  const trace::ChromeContents contents = Check("moe.json");
  // Six tasks on each chip, and four over all four of them.
  EXPECT_EQ(contents.slices, 6u * 4 + 4 * 4);
  EXPECT_EQ(contents.processes, 1u + 4);
  EXPECT_GT(contents.flows, 2u * 12);
  EXPECT_GT(contents.counters, 10u);
  const std::string text = ReadFile(Path("moe.json"));
  for (const char* name : {"pack 3", "dispatch", "experts 0", "combine", "all_to_all_v"}) {
    EXPECT_THAT(text, HasSubstr(name));
  }
  EXPECT_EQ(text.find("note 1"), std::string::npos);
}

TEST_F(TraceTest, OfAJobInEveryForm) {
  const std::string job = Runfile("client/examples/ffn.txtpb");
  for (const char* file : {"ffn.json", "ffn.svg", "ffn.html"}) {
    const ProgramResult result = Ptoctl({"runs", "submit", job, "--trace", Path(file)});
    ASSERT_EQ(result.exit_code, 0) << result.err;
  }
  EXPECT_EQ(Check("ffn.json").slices, 6u);
  EXPECT_THAT(ReadFile(Path("ffn.json")), HasSubstr("matmul"));
  EXPECT_THAT(ReadFile(Path("ffn.svg")), HasSubstr("</svg>"));
  EXPECT_THAT(ReadFile(Path("ffn.html")), HasSubstr("</html>"));
}

TEST_F(TraceTest, AfterwardsAndWithoutAGraph) {
  const std::string job = Runfile("client/examples/vector_add.json");
  const ProgramResult submitted = Ptoctl({"runs", "submit", job, "--detach", "-q"});
  ASSERT_EQ(submitted.exit_code, 0) << submitted.err;
  const std::string run(absl::StripAsciiWhitespace(submitted.out));
  ASSERT_EQ(Ptoctl({"runs", "wait", run}).exit_code, 0);
  const ProgramResult result =
      Ptoctl({"runs", "trace", run, "-o", Path("add.json"), "--svg", Path("add.svg")});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("4 tasks, 0 edges"));
  EXPECT_THAT(result.err, HasSubstr("registered graphs only"));
  const trace::ChromeContents contents = Check("add.json");
  EXPECT_EQ(contents.slices, 4u);
  EXPECT_EQ(contents.flows, 0u);
  EXPECT_THAT(ReadFile(Path("add.svg")), HasSubstr("registered graphs only"));
}

TEST_F(TraceTest, NamesThatSayNoForm) {
  for (const char* name : {"trace", "trace.txt", "json"}) {
    const ProgramResult result = Ptoctl({"runs", "trace", "r-1", "-o", Path(name)});
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, HasSubstr(".json, .html or .svg"));
  }
  EXPECT_EQ(Ptoctl({"runs", "trace", "r-1", "-o", Path("x.json")}).exit_code, 1);
}

// The interval between a kernel's return and the task's end, and the times around it.
TEST_F(TraceTest, ShowsWaitsAndWhoWaitsForWhom) {
  absl::StatusOr<Session> session = client_.CreateSession();
  ASSERT_THAT(session, IsOk());
  absl::StatusOr<Buffer> buffer = session->CreateBuffer("x", 0, 64);
  ASSERT_THAT(buffer, IsOk());
  GraphBuilder graph;
  const TensorRef signal = graph.Tensor("signal", *buffer, v1::I64, {}, {}, 0);
  TaskRef gate = graph.WaitFor(signal, v1::EQ, 1);
  gate.Name("gate");
  graph.Task("noop", 0, {}).Name("behind").After(gate);
  const absl::StatusOr<v1::Graph> registered = session->Register("g", graph);
  ASSERT_THAT(registered, IsOk());
  const absl::StatusOr<pto::Run> run = session->Launch(registered->name());
  ASSERT_THAT(run, IsOk());
  // So far nothing has ended.
  absl::StatusOr<trace::RunTrace> trace = trace::CollectTrace(client_, run->name());
  ASSERT_THAT(trace, IsOk());
  EXPECT_THAT(trace->tasks, IsEmpty());
  EXPECT_THAT(trace->notes, ElementsAre(HasSubstr("had not ended")));
  ASSERT_THAT(run->Cancel(), IsOk());
  ASSERT_THAT(run->Wait(), IsOk());
  EXPECT_THAT(trace::CollectTrace(client_, run->name()), IsOk());
}

// Tens of thousands of tasks: all of them, one at a time on each core.
TEST_F(TraceTest, OfManyTasks) {
  absl::StatusOr<Session> session = client_.CreateSession();
  ASSERT_THAT(session, IsOk());
  GraphBuilder graph;
  constexpr uint32_t kTasks = 20'000;
  std::vector<TaskRef> tasks;
  for (uint32_t i = 0; i < kTasks; ++i) {
    tasks.push_back(graph.Task("noop", i / 5000, {}));
    if (i > 10) tasks.back().After(tasks[i - 10]);
  }
  const absl::StatusOr<v1::Graph> registered = session->RegisterPacked("g", graph);
  ASSERT_THAT(registered, IsOk());
  const absl::StatusOr<pto::Run> run = session->Launch(registered->name());
  ASSERT_THAT(run, IsOk());
  ASSERT_THAT(run->Wait(), IsOk());
  const ProgramResult result =
      Ptoctl({"runs", "trace", run->name(), "-o", Path("many.json"), "--max-edges", "100"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const trace::ChromeContents contents = Check("many.json");
  EXPECT_EQ(contents.slices, kTasks);
  EXPECT_EQ(contents.flows, 200u);
}

}  // namespace
}  // namespace pto::testing
