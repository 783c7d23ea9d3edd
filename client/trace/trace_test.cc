// From the daemon's answers to the pictures of a run.

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/trace/chrome_check.h"
#include "client/trace/chrome_trace.h"
#include "client/trace/lanes.h"
#include "client/trace/loads.h"
#include "client/trace/run_trace.h"
#include "client/trace/swimlanes.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"

namespace pto::trace {
namespace {

using ::pto::testing::IsOk;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;

template <typename Message>
Message Proto(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

// Four tasks on two chips: `in` before a group on both chips and a wait, both before `out`, which
// is deferred.
Sources Small() {
  Sources sources;
  sources.run = Proto<v1::Run>(
      "name: 'sessions/s/runs/r' state: SUCCEEDED tasks_total: 4 tasks_done: 4 "
      "graph: 'sessions/s/graphs/g'");
  sources.events = {Proto<v1::Event>(
      "sequence: 3 tasks { run: 'sessions/s/runs/r' task: [0, 2, 1, 3] chip: [0, 1, 0, 1] "
      "core: [24, 0, 0, 25] start_ns: [1000, 2500, 2100, 6000] "
      "duration_ns: [1000, 500, 3000, 9000] deferred_ns: [0, 0, 0, 8000] }")};
  for (int i = 0; i < 3; ++i) {
    sources.chips.push_back(Proto<v1::Chip>(absl::StrCat("index: ", i, " clusters: 24")));
  }
  sources.kernels = {Proto<v1::Kernel>("name: 'kernels/wait' control: true"),
                     Proto<v1::Kernel>("name: 'kernels/add'")};
  sources.graph = Proto<v1::RunGraph>(
      "run: 'sessions/s/runs/r' task_count: 4 structure { kernels: 'add' kernels: 'wait' "
      "kernel: [0, 0, 1, 0] name: ['in', 'both \"<&', '', 'out'] chip: [0, 0, 1, 1] "
      "chip_count: [1, 2, 1, 1] member_chip: [0, 1] block_num: [1, 4, 1, 1] "
      "predicated: [false, false, false, false] next_count: [2, 1, 1, 0] next_ahead: [1, 2, 2, 1] "
      "}");
  return sources;
}

TEST(RunTraceTest, TellsWhenEachTaskWasWhat) {
  const RunTrace trace = MakeTrace(Small());
  ASSERT_EQ(trace.tasks.size(), 4u);
  EXPECT_THAT(trace.notes, IsEmpty());
  const Task& in = trace.tasks[0];
  EXPECT_EQ(in.name, "in");
  EXPECT_EQ(in.kernel, "add");
  EXPECT_EQ(in.ready_ns, 0);
  EXPECT_EQ(in.start_ns, 1000);
  EXPECT_EQ(in.returned_ns, 2000);
  EXPECT_EQ(in.end_ns, 2000);
  EXPECT_EQ(in.core, 24u);
  EXPECT_THAT(in.chips, ElementsAre(0));
  const Task& both = trace.tasks[1];
  EXPECT_EQ(both.index, 1u);
  EXPECT_EQ(both.ready_ns, 2000);
  EXPECT_EQ(both.blocks, 4u);
  EXPECT_THAT(both.chips, ElementsAre(0, 1));
  const Task& wait = trace.tasks[2];
  EXPECT_EQ(wait.name, "task 2");
  EXPECT_TRUE(wait.control);
  const Task& out = trace.tasks[3];
  EXPECT_EQ(out.ready_ns, 5100);
  EXPECT_EQ(out.returned_ns, 7000);
  EXPECT_EQ(out.end_ns, 15000);
  EXPECT_THAT(trace.edges, ElementsAre(Pair(0, 1), Pair(0, 2), Pair(1, 3), Pair(2, 3)));
}

TEST(RunTraceTest, SaysWhatIsMissing) {
  Sources sources = Small();
  sources.graph.Clear();
  sources.run.set_state(v1::Run::RUNNING);
  sources.events.insert(sources.events.begin(),
                        Proto<v1::Event>("sequence: 1 dropped { last_sequence: 2 count: 2 }"));
  const RunTrace trace = MakeTrace(sources);
  EXPECT_EQ(trace.tasks[0].name, "task 0");
  EXPECT_EQ(trace.tasks[0].ready_ns, -1);
  EXPECT_THAT(trace.notes, ElementsAre(HasSubstr("2 events were dropped"),
                                       HasSubstr("are not known"), HasSubstr("not ended")));
  const std::string text = FormatChromeTrace(trace);
  ChromeContents contents;
  EXPECT_THAT(CheckChromeTrace(text, &contents), IsOk());
  EXPECT_THAT(text, HasSubstr("2 events were dropped"));
  EXPECT_THAT(FormatSvg(trace), HasSubstr("2 events were dropped"));
}

TEST(RunTraceTest, SaysThatNotAllTasksHaveEvents) {
  Sources sources = Small();
  sources.run.set_tasks_done(40);
  EXPECT_THAT(MakeTrace(sources).notes, ElementsAre(HasSubstr("only 4 have events")));
}

// In an open run the first segments may be forgotten, and others arrive late.
TEST(RunTraceTest, TasksThatCameLater) {
  Sources sources = Small();
  sources.graph = Proto<v1::RunGraph>(
      "task_count: 4 structure { first_task: 1 kernels: 'add' kernel: [0, 0, 0] "
      "name: ['both', '', 'out'] chip: [0, 1, 1] chip_count: [1, 1, 1] block_num: [1, 1, 1] "
      "predicated: [false, false, false] next_count: [1, 1, 0] next_ahead: [2, 1] } "
      "blocks { first_task: 0 submitted_ns: 100 } blocks { first_task: 2 submitted_ns: 2400 } "
      "blocks { first_task: 3 submitted_ns: 5900 }");
  const RunTrace trace = MakeTrace(sources);
  EXPECT_EQ(trace.tasks[0].name, "task 0");
  EXPECT_EQ(trace.tasks[0].submitted_ns, 0);
  EXPECT_EQ(trace.tasks[0].ready_ns, -1);
  EXPECT_EQ(trace.tasks[1].name, "both");
  EXPECT_EQ(trace.tasks[1].submitted_ns, 100);
  EXPECT_EQ(trace.tasks[2].submitted_ns, 2400);
  EXPECT_EQ(trace.tasks[2].ready_ns, 2400);
  // Its predecessors had ended before it arrived.
  EXPECT_EQ(trace.tasks[3].submitted_ns, 5900);
  EXPECT_EQ(trace.tasks[3].ready_ns, 5900);
  EXPECT_THAT(trace.edges, ElementsAre(Pair(1, 3), Pair(2, 3)));
  EXPECT_THAT(trace.notes, ElementsAre("names and edges of tasks 1 to 3 only"));
  EXPECT_THAT(FormatChromeTrace(trace), HasSubstr("\"submitted_ns\":5900,\"ready_ns\":5900"));
}

// A stuck run: one task runs, one is deferred, some are ready, and one waits for them.
Sources Hung() {
  Sources sources = Small();
  sources.run = Proto<v1::Run>(
      "name: 'sessions/s/runs/r' state: RUNNING tasks_total: 9 tasks_done: 1 "
      "create_time { seconds: 100 nanos: 999990000 }");
  sources.events = {Proto<v1::Event>(
      "sequence: 3 tasks { run: 'sessions/s/runs/r' task: 0 chip: 0 core: 24 start_ns: 1000 "
      "duration_ns: 1000 }")};
  sources.graph.clear_structure();
  sources.explained = Proto<v1::ExplainRunResponse>(
      "time { seconds: 101 nanos: 10000 } more_blocked: 3 "
      "blocked { task: 0 kind: KERNEL reason: 'it has ended meanwhile' } "
      "blocked { task: 1 kind: KERNEL kernel: 'add' task_name: 'long' chip: 'chips/1' "
      "          reason: 'its kernel runs' age { nanos: 15000 } task_count: 1 } "
      "blocked { task: 2 kind: SIGNAL kernel: 'add' chip: 'chips/1' reason: 'signal 3' "
      "          deferred: true age { nanos: 12000 } task_count: 1 } "
      "blocked { task: 3 kind: CORES kernel: 'add' reason: 'cores' age { nanos: 4000 } "
      "          task_count: 5 } "
      "blocked { task: 8 kind: PREDECESSORS kernel: 'add' reason: 'tasks 1 \\\"and\\\" 2' }");
  return sources;
}

TEST(RunTraceTest, ShowsWhatHasNotEnded) {
  const RunTrace trace = MakeTrace(Hung());
  EXPECT_EQ(trace.end_ns, 20'000);
  ASSERT_EQ(trace.tasks.size(), 5u);
  const Task& runs = trace.tasks[1];
  EXPECT_EQ(runs.name, "long");
  EXPECT_EQ(runs.phase, Task::Phase::kRunning);
  EXPECT_EQ(runs.start_ns, 5000);
  EXPECT_EQ(runs.returned_ns, 20'000);
  EXPECT_THAT(runs.chips, ElementsAre(1));
  const Task& deferred = trace.tasks[2];
  EXPECT_EQ(deferred.phase, Task::Phase::kDeferred);
  EXPECT_EQ(deferred.returned_ns, 8000);
  EXPECT_EQ(deferred.end_ns, 20'000);
  EXPECT_EQ(trace.tasks[3].phase, Task::Phase::kReady);
  EXPECT_EQ(trace.tasks[4].phase, Task::Phase::kWaiting);
  EXPECT_THAT(trace.notes, ElementsAre(HasSubstr("are not known"), HasSubstr("3 more tasks"),
                                       HasSubstr("not ended")));
  const std::vector<Load> loads = CountLoads(trace, 1000);
  EXPECT_EQ(loads.back().time_ns, 20'000);
  EXPECT_EQ(loads.back().ready, 5);
  EXPECT_EQ(loads.back().running, 1);
  EXPECT_EQ(loads.back().deferred, 1);
  std::vector<std::string> lanes;
  for (const Lane& lane : PlaceTasks(trace).lanes) {
    lanes.push_back(absl::StrCat(lane.chip, " ", lane.name));
  }
  EXPECT_THAT(lanes, ElementsAre("0 AIV 0", "0 not ended", "1 not ended", "1 not ended (2)"));
  ChromeContents contents;
  const std::string text = FormatChromeTrace(trace);
  ASSERT_THAT(CheckChromeTrace(text, &contents), IsOk()) << text;
  EXPECT_EQ(contents.slices, 5u);
  EXPECT_EQ(contents.async, 1u);
  EXPECT_THAT(text, HasSubstr("\"phase\":\"running\",\"waits_for\":\"its kernel runs\""));
  EXPECT_THAT(FormatSvg(trace), HasSubstr("NOT ENDED, deferred for at least 12 us\nsignal 3"));
}

TEST(LanesTest, EachKindHasItsPlace) {
  const Lanes lanes = PlaceTasks(MakeTrace(Small()));
  std::vector<std::string> names;
  for (const Lane& lane : lanes.lanes) names.push_back(absl::StrCat(lane.chip, " ", lane.name));
  EXPECT_THAT(names,
              ElementsAre("0 AIV 0", "0 several cores", "1 AIV 1", "1 several cores", "1 no core"));
  EXPECT_EQ(lanes.slices.size(), 5u);
}

TEST(LoadsTest, CountsTasksInEachState) {
  const std::vector<Load> loads = CountLoads(MakeTrace(Small()), 1000);
  const auto at = [&](int64_t ns) {
    Load now;
    for (const Load& load : loads) {
      if (load.time_ns <= ns) now = load;
    }
    return std::make_tuple(now.ready, now.running, now.deferred);
  };
  EXPECT_EQ(at(0), std::make_tuple(1, 0, 0));
  EXPECT_EQ(at(1000), std::make_tuple(0, 1, 0));
  EXPECT_EQ(at(2000), std::make_tuple(2, 0, 0));
  EXPECT_EQ(at(2600), std::make_tuple(0, 2, 0));
  EXPECT_EQ(at(6500), std::make_tuple(0, 1, 0));
  EXPECT_EQ(at(8000), std::make_tuple(0, 0, 1));
  EXPECT_EQ(at(15000), std::make_tuple(0, 0, 0));
}

TEST(ChromeTraceTest, IsAsPerfettoWantsIt) {
  const std::string text = FormatChromeTrace(MakeTrace(Small()));
  ChromeContents contents;
  ASSERT_THAT(CheckChromeTrace(text, &contents), IsOk()) << text;
  EXPECT_EQ(contents.slices, 5u);
  EXPECT_EQ(contents.flows, 8u);
  EXPECT_EQ(contents.async, 1u);
  EXPECT_GT(contents.counters, 5u);
  EXPECT_EQ(contents.processes, 3u);
  EXPECT_EQ(contents.threads, 5u);
  EXPECT_THAT(text, HasSubstr(R"("name":"both \"\u003c&")"));
  EXPECT_THAT(text, HasSubstr(R"("started_ns":6000,"returned_ns":7000,"completed_ns":15000)"));
}

TEST(ChromeTraceTest, MemoryIsAsItWas) {
  Sources sources = Small();
  EXPECT_THAT(FormatChromeTrace(MakeTrace(sources)), Not(HasSubstr("memory used")));
  sources.run.mutable_create_time()->set_seconds(100);
  sources.run.mutable_end_time()->set_seconds(100);
  sources.run.mutable_end_time()->set_nanos(16'000);
  sources.graph.MergeFrom(Proto<v1::RunGraph>(
      "memory { chip: 0 used_bytes: 4096 } memory { chip: 0 time_ns: 3000 used_bytes: 8192 } "
      "memory { chip: 1 used_bytes: 64 }"));
  const std::string text = FormatChromeTrace(MakeTrace(sources));
  const auto point = [](int chip, const char* time, uint64_t bytes) {
    return HasSubstr(absl::StrCat("\"name\":\"memory used\",\"pid\":", chip + 2,
                                  ",\"tid\":0,\"ts\":", time, ",\"args\":{\"bytes\":", bytes, "}"));
  };
  EXPECT_THAT(text, point(0, "0.000", 4096));
  EXPECT_THAT(text, point(0, "3.000", 8192));
  EXPECT_THAT(text, point(0, "16.000", 8192));
  EXPECT_THAT(text, point(1, "0.000", 64));
  EXPECT_THAT(text, point(1, "16.000", 64));
}

TEST(ChromeTraceTest, DrawsNoMoreEdgesThanAsked) {
  ChromeOptions options;
  options.max_edges = 3;
  const std::string text = FormatChromeTrace(MakeTrace(Small()), options);
  ChromeContents contents;
  ASSERT_THAT(CheckChromeTrace(text, &contents), IsOk());
  EXPECT_EQ(contents.flows, 6u);
  EXPECT_THAT(text, HasSubstr("of 4 edges 3 are drawn"));
}

// For any times, the output follows the rules.
TEST(ChromeTraceTest, RandomRuns) {
  for (uint32_t seed = 0; seed < 30; ++seed) {
    std::mt19937 random(seed);
    Sources sources = Small();
    sources.events.clear();
    sources.graph.Clear();
    v1::GraphStructure& structure = *sources.graph.mutable_structure();
    structure.add_kernels("add");
    structure.add_kernels("wait");
    v1::TaskEvents& tasks = *sources.events.emplace_back().mutable_tasks();
    tasks.set_run(sources.run.name());
    const uint32_t count = 1 + random() % 200;
    for (uint32_t i = 0; i < count; ++i) {
      tasks.add_task(i);
      tasks.add_outcome(static_cast<v1::TaskEvents::Outcome>(1 + random() % 4));
      tasks.add_chip(random() % 3);
      tasks.add_core(random() % 72);
      tasks.add_start_ns(random() % 5000);
      tasks.add_duration_ns(random() % 3 == 0 ? 0 : random() % 1000);
      tasks.add_deferred_ns(random() % 4 == 0 ? random() % (tasks.duration_ns(i) + 1) : 0);
      structure.add_kernel(random() % 2);
      structure.add_name("");
      structure.add_chip(tasks.chip(i));
      structure.add_chip_count(random() % 5 == 0 ? 2 : 1);
      for (uint32_t c = 0; c < 2 && structure.chip_count(i) > 1; ++c) {
        structure.add_member_chip((tasks.chip(i) + c) % 3);
      }
      structure.add_block_num(1 + random() % 2);
      structure.add_predicated(false);
      structure.add_next_count(i + 1 < count ? 1 : 0);
      if (i + 1 < count) structure.add_next_ahead(1 + random() % (count - i - 1));
    }
    sources.graph.set_task_count(count);
    const RunTrace trace = MakeTrace(sources);
    ChromeContents contents;
    const std::string text = FormatChromeTrace(trace);
    ASSERT_THAT(CheckChromeTrace(text, &contents), IsOk()) << "seed " << seed << "\n" << text;
    EXPECT_THAT(FormatSvg(trace), HasSubstr("</svg>"));
  }
}

// The check itself can fail.
TEST(ChromeCheckTest, SeesWhatIsWrong) {
  const std::string good = FormatChromeTrace(MakeTrace(Small()));
  const auto fault = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    ChromeContents contents;
    return std::string(CheckChromeTrace(text, &contents).message());
  };
  EXPECT_THAT(fault("traceEvents", "events"), HasSubstr("no array traceEvents"));
  EXPECT_THAT(fault("]}\n", "]"), Not(IsEmpty()));
  EXPECT_THAT(fault("\"dur\":1.000", "\"long\":1.000"), HasSubstr("no number dur"));
  EXPECT_THAT(fault("\"dur\":1.000", "\"dur\":-1.000"), HasSubstr("negative"));
  EXPECT_THAT(fault("\"ph\":\"X\"", "\"ph\":\"Y\""), Not(IsEmpty()));
  EXPECT_THAT(fault("\"ph\":\"e\"", "\"ph\":\"b\""), HasSubstr("begins twice"));
  EXPECT_THAT(fault("\"ph\":\"b\"", "\"ph\":\"e\""), HasSubstr("did not begin"));
  EXPECT_THAT(fault("\"bp\":\"e\",", ""), HasSubstr("no string bp"));
  EXPECT_THAT(fault("\"ph\":\"s\"", "\"ph\":\"f\",\"bp\":\"e\""), HasSubstr("comes twice"));
  EXPECT_THAT(fault("thread_name", "thread_gone"), HasSubstr("has no name"));
  // A slice that is shorter than the start of its arrow.
  EXPECT_THAT(fault("\"dur\":1.000", "\"dur\":0.100"), HasSubstr("has no slice"));
}

TEST(ChromeCheckTest, SeesSlicesThatOverlap) {
  const std::string text = R"({"traceEvents":[
      {"ph":"M","name":"process_name","pid":1,"tid":0,"ts":0,"args":{"name":"p"}},
      {"ph":"M","name":"thread_name","pid":1,"tid":1,"ts":0,"args":{"name":"t"}},
      {"ph":"X","name":"a","pid":1,"tid":1,"ts":1.0,"dur":2.0,"args":{}},
      {"ph":"X","name":"b","pid":1,"tid":1,"ts":2.999,"dur":1.0,"args":{}}]})";
  ChromeContents contents;
  EXPECT_THAT(std::string(CheckChromeTrace(text, &contents).message()), HasSubstr("overlap"));
}

TEST(SwimlanesTest, ShowsTasksAndNeedsNothingElse) {
  const RunTrace trace = MakeTrace(Small());
  const std::string svg = FormatSvg(trace);
  EXPECT_THAT(svg, HasSubstr("both &quot;&lt;&amp;"));
  EXPECT_THAT(svg, HasSubstr("chip 1"));
  EXPECT_THAT(svg, HasSubstr("several cores"));
  EXPECT_THAT(svg, HasSubstr("class=\"deferred\""));
  const std::string html = FormatHtml(trace);
  EXPECT_THAT(html, HasSubstr("<svg"));
  for (const char* foreign : {"src=", "href=", "url(", "import"}) {
    EXPECT_THAT(html, Not(HasSubstr(foreign)));
  }
}

// Even a run with very many tasks must give a picture that opens.
TEST(SwimlanesTest, DrawsNarrowBarsTogether) {
  RunTrace trace = MakeTrace(Small());
  trace.edges.clear();
  Task task = trace.tasks[0];
  trace.tasks.clear();
  for (uint32_t i = 0; i < 200'000; ++i) {
    task.index = i;
    task.start_ns = 10 * int64_t{i};
    task.returned_ns = task.end_ns = task.start_ns + 9;
    trace.tasks.push_back(task);
  }
  EXPECT_LT(FormatSvg(trace).size(), 2'000'000u);
}

TEST(SwimlanesTest, NoTasksAtAll) {
  RunTrace trace;
  trace.run.set_name("sessions/s/runs/r");
  EXPECT_THAT(FormatSvg(trace), HasSubstr("</svg>"));
  ChromeContents contents;
  EXPECT_THAT(CheckChromeTrace(FormatChromeTrace(trace), &contents), IsOk());
}

}  // namespace
}  // namespace pto::trace
