// Traces of real runs: their contents, and files that a viewer accepts.

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
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"
#include "tests/harness/daemon_process.h"
#include "tests/harness/directory.h"
#include "tests/harness/ptoctl.h"

namespace pto::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;

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
  // Six tasks on each chip, and four tasks on all four chips.
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

TEST_F(TraceTest, Afterwards) {
  const std::string job = Runfile("client/examples/ffn.txtpb");
  const ProgramResult submitted = Ptoctl({"runs", "submit", job, "--detach", "-q"});
  ASSERT_EQ(submitted.exit_code, 0) << submitted.err;
  const std::string run(absl::StripAsciiWhitespace(submitted.out));
  ASSERT_EQ(Ptoctl({"runs", "wait", run}).exit_code, 0);
  const ProgramResult result =
      Ptoctl({"runs", "trace", run, "-o", Path("ffn.json"), "--svg", Path("ffn.svg")});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, Not(HasSubstr("note")));
  const trace::ChromeContents contents = Check("ffn.json");
  EXPECT_EQ(contents.slices, 6u);
  EXPECT_GE(contents.flows, 2u * 5);
  EXPECT_THAT(ReadFile(Path("ffn.json")), HasSubstr("matmul"));
  EXPECT_THAT(ReadFile(Path("ffn.svg")), HasSubstr("matmul"));
}

// A run that writes no task events cannot be drawn, and its tasks are not kept.
TEST_F(TraceTest, SaysWhatIsNotKnown) {
  absl::StatusOr<Session> session = client_.CreateSession();
  ASSERT_THAT(session, IsOk());
  GraphBuilder graph;
  const TaskRef first = graph.Task("noop", 0, {}).Name("first");
  graph.Task("noop", 0, {}).After(first);
  pto::RunOptions options;
  options.event_level = v1::TASK_FAILED;
  const absl::StatusOr<pto::Run> run = session->Submit(graph, options);
  ASSERT_THAT(run, IsOk());
  ASSERT_THAT(run->Wait(), IsOk());
  const absl::StatusOr<trace::RunTrace> trace = trace::CollectTrace(client_, run->name());
  ASSERT_THAT(trace, IsOk());
  EXPECT_THAT(trace->tasks, IsEmpty());
  EXPECT_THAT(trace->notes,
              ElementsAre(HasSubstr("only 0 have events"), HasSubstr("are not known")));
}

TEST_F(TraceTest, NamesThatSayNoForm) {
  for (const char* name : {"trace", "trace.txt", "json"}) {
    const ProgramResult result = Ptoctl({"runs", "trace", "r-1", "-o", Path(name)});
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, HasSubstr(".json, .html or .svg"));
  }
  EXPECT_EQ(Ptoctl({"runs", "trace", "r-1", "-o", Path("x.json")}).exit_code, 1);
}

const trace::Task* Find(const trace::RunTrace& trace, absl::string_view name) {
  for (const trace::Task& task : trace.tasks) {
    if (task.name == name) return &task;
  }
  return nullptr;
}

// A task whose kernel returns at once and which ends when a client notifies a signal: its trace is
// available before and after its end.
TEST_F(TraceTest, ADeferredTask) {
  absl::StatusOr<Session> session = client_.CreateSession();
  ASSERT_THAT(session, IsOk());
  DomainSpec spec;
  spec.chips = {0};
  spec.signal_count = 1;
  absl::StatusOr<Domain> domain = session->CreateDomain(spec);
  ASSERT_THAT(domain, IsOk());
  constexpr int64_t kOne[] = {1};
  GraphBuilder graph;
  const TensorRef signal = graph.Tensor("signal", domain->Signals(0).value(), v1::I64, kOne);
  TaskRef first = graph.Task("noop", 0, {});
  first.Name("first");
  TaskRef later = graph.Task("defer", 0, {signal}).Scalar(1);
  later.Name("later").After(first);
  graph.Task("noop", 0, {}).Name("behind").After(later);
  const absl::StatusOr<pto::Run> run = session->Submit(graph);
  ASSERT_THAT(run, IsOk());

  absl::StatusOr<trace::RunTrace> trace;
  const trace::Task* task = nullptr;
  do {
    trace = trace::CollectTrace(client_, run->name());
    ASSERT_THAT(trace, IsOk());
    task = Find(*trace, "later");
  } while (task == nullptr || task->phase != trace::Task::Phase::kDeferred);
  EXPECT_THAT(trace->notes, ElementsAre(HasSubstr("had not ended")));
  EXPECT_EQ(task->kernel, "defer");
  EXPECT_THAT(task->waits_for, HasSubstr("signal"));
  const int64_t seen_at_ns = trace->end_ns;
  EXPECT_GT(seen_at_ns, task->start_ns);
  ASSERT_EQ(Ptoctl({"runs", "trace", run->name(), "-o", Path("hung.json")}).exit_code, 0);
  EXPECT_EQ(Check("hung.json").async, 1u);
  EXPECT_THAT(ReadFile(Path("hung.json")), HasSubstr("deferred: later"));

  ASSERT_THAT(domain->Notify(0, 0, 1), IsOk());
  const absl::StatusOr<v1::Run> ended = run->Wait();
  ASSERT_THAT(ended, IsOk());
  EXPECT_EQ(ended->state(), v1::Run::SUCCEEDED);
  trace = trace::CollectTrace(client_, run->name());
  ASSERT_THAT(trace, IsOk());
  EXPECT_THAT(trace->notes, IsEmpty());
  task = Find(*trace, "later");
  ASSERT_NE(task, nullptr);
  EXPECT_TRUE(task->ended());
  // It had returned when the first trace was made, and ended later.
  EXPECT_LT(task->returned_ns, seen_at_ns);
  EXPECT_GT(task->end_ns, seen_at_ns);
  EXPECT_LE(task->start_ns, task->returned_ns);
  const trace::Task* const behind = Find(*trace, "behind");
  ASSERT_NE(behind, nullptr);
  EXPECT_GT(behind->ready_ns, seen_at_ns);
  EXPECT_EQ(trace->edges.size(), 2u);
  ASSERT_EQ(Ptoctl({"runs", "trace", run->name(), "-o", Path("ended.json")}).exit_code, 0);
  const trace::ChromeContents contents = Check("ended.json");
  EXPECT_EQ(contents.async, 1u);
  EXPECT_EQ(contents.flows, 2u * 2);
}

// Chip memory is a curve over time, not its value at the time of the request.
TEST_F(TraceTest, MemoryWhileItRan) {
  absl::StatusOr<Session> session = client_.CreateSession();
  ASSERT_THAT(session, IsOk());
  const absl::StatusOr<Buffer> word = session->CreateBuffer("word", 1, 4096);
  ASSERT_THAT(word, IsOk());
  GraphBuilder graph;
  const TensorRef signal = graph.Tensor("signal", *word, v1::I64, {}, {}, 0);
  graph.Task("hold", 1, {signal}).Scalar(1);
  const absl::StatusOr<pto::Run> run = session->Submit(graph);
  ASSERT_THAT(run, IsOk());
  absl::StatusOr<Buffer> more = session->CreateBuffer("more", 1, 8192);
  ASSERT_THAT(more, IsOk());
  ASSERT_THAT(run->Cancel(), IsOk());
  ASSERT_THAT(run->Wait(), IsOk());
  ASSERT_THAT(session->CreateBuffer("late", 1, 4096), IsOk());
  const absl::StatusOr<trace::RunTrace> trace = trace::CollectTrace(client_, run->name());
  ASSERT_THAT(trace, IsOk());
  ASSERT_EQ(trace->memory.size(), 2u);
  EXPECT_EQ(trace->memory[0].chip, 1u);
  EXPECT_EQ(trace->memory[0].time_ns, 0);
  EXPECT_EQ(trace->memory[0].bytes, 4096u);
  EXPECT_GT(trace->memory[1].time_ns, 0);
  EXPECT_LE(trace->memory[1].time_ns, trace->end_ns);
  EXPECT_EQ(trace->memory[1].bytes, 4096u + 8192);
}

// A packed graph has no names, but everything else.
TEST_F(TraceTest, OfAPackedRun) {
  absl::StatusOr<Session> session = client_.CreateSession();
  ASSERT_THAT(session, IsOk());
  const absl::StatusOr<Buffer> buffer = session->CreateBuffer("x", 0, 64);
  ASSERT_THAT(buffer, IsOk());
  GraphBuilder graph;
  constexpr int64_t kShape[] = {16};
  const TensorRef x = graph.Tensor("x", *buffer, v1::F32, kShape);
  graph.Task("fill", 0, {x}).Scalar(1.0);
  // A dependency found from memory accesses.
  graph.Task("scale", 0, {x, x}).Scalar(2.0);
  const absl::StatusOr<pto::Run> run = session->SubmitPacked(graph);
  ASSERT_THAT(run, IsOk());
  ASSERT_THAT(run->Wait(), IsOk());
  const absl::StatusOr<trace::RunTrace> trace = trace::CollectTrace(client_, run->name());
  ASSERT_THAT(trace, IsOk());
  EXPECT_THAT(trace->notes, IsEmpty());
  ASSERT_EQ(trace->tasks.size(), 2u);
  EXPECT_EQ(trace->tasks[0].kernel, "fill");
  EXPECT_EQ(trace->tasks[1].kernel, "scale");
  EXPECT_THAT(trace->edges, ElementsAre(Pair(0, 1)));
  EXPECT_EQ(trace->tasks[0].ready_ns, 0);
  EXPECT_GT(trace->tasks[1].ready_ns, 0);
}

// Each segment of an open run has its own arrival time.
TEST_F(TraceTest, OfAnOpenRun) {
  absl::StatusOr<Session> session = client_.CreateSession();
  ASSERT_THAT(session, IsOk());
  absl::StatusOr<pto::OpenRun> run = session->BeginOpenRun();
  ASSERT_THAT(run, IsOk());
  const TaskRef first = run->graph().Task("noop", 0, {});
  ASSERT_THAT(run->Flush(), IsOk());
  // The second task is sent only when the first is known to have ended.
  const std::string name = run->name();
  absl::StatusOr<trace::RunTrace> trace;
  do {
    trace = trace::CollectTrace(client_, name);
    // The daemon may not have seen it yet.
    if (!trace.ok()) {
      ASSERT_THAT(trace, HasReason(reason::kRunUnknown));
    }
  } while (!trace.ok() || trace->tasks.empty() || !trace->tasks[0].ended());
  // It does not have to wait, so there is no edge.
  const TaskRef second = run->graph().Task("spin", 0, {}).Scalar(1).After(first);
  run->graph().Task("noop", 0, {}).After(second);
  ASSERT_THAT(run->Finish(), IsOk());
  trace = trace::CollectTrace(client_, name);
  ASSERT_THAT(trace, IsOk());
  EXPECT_THAT(trace->notes, IsEmpty());
  ASSERT_EQ(trace->tasks.size(), 3u);
  EXPECT_EQ(trace->tasks[1].kernel, "spin");
  EXPECT_LE(trace->tasks[0].submitted_ns, trace->tasks[0].start_ns);
  EXPECT_GT(trace->tasks[1].submitted_ns, trace->tasks[0].end_ns);
  EXPECT_EQ(trace->tasks[1].ready_ns, trace->tasks[1].submitted_ns);
  EXPECT_THAT(trace->edges, ElementsAre(Pair(1, 2)));
}

// Tens of thousands of tasks: all are there, one at a time on each core.
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
