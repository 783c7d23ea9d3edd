#include "client/ptoctl/printer.h"

#include <algorithm>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/ptoctl/json_printer.h"
#include "client/ptoctl/name_printer.h"
#include "client/ptoctl/table_printer.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "google/protobuf/util/json_util.h"
#include "gtest/gtest.h"

namespace pto::ptoctl {
namespace {

using ::testing::HasSubstr;

template <typename T>
T Parse(const std::string& text) {
  T message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message));
  return message;
}

// 100 s after the start times of the messages below.
const absl::Time kNow = absl::FromUnixSeconds(1100);

v1::Chip Chip() {
  return Parse<v1::Chip>(R"(name: "chips/0" state: ACTIVE backend: "sim" clusters: 24
      aic_cores: 24 aiv_cores: 48 busy_cores: 3 memory_total_bytes: 68719476736
      memory_used_bytes: 1536 ready_tasks: 2 completed_tasks: 1000)");
}

v1::Run FailedRun() {
  return Parse<v1::Run>(R"(name: "sessions/s1/runs/r1" state: FAILED tasks_total: 4 tasks_done: 2
      tasks_failed: 1 tasks_skipped: 1 error { code: 13 message: "task 2 failed" }
      create_time { seconds: 1000 } start_time { seconds: 1000 } queue_ns: 1500 run_ns: 2500000)");
}

v1::Event TaskEvent(int tasks) {
  v1::Event event;
  event.set_sequence(5);
  for (int i = 0; i < tasks; ++i) {
    event.mutable_tasks()->add_task(i);
    event.mutable_tasks()->add_chip(1);
    event.mutable_tasks()->add_core(24);
    event.mutable_tasks()->add_start_ns(1000 * i);
    event.mutable_tasks()->add_duration_ns(2500);
  }
  return event;
}

std::string Table(const std::function<void(Printer&)>& print) {
  std::ostringstream out;
  TablePrinter printer(out, kNow);
  print(printer);
  return out.str();
}

std::string Json(const std::function<void(Printer&)>& print) {
  std::ostringstream out;
  JsonPrinter printer(out);
  print(printer);
  return out.str();
}

std::string Names(const std::function<void(Printer&)>& print) {
  std::ostringstream out;
  NamePrinter printer(out);
  print(printer);
  return out.str();
}

TEST(TablePrinterTest, Chips) {
  EXPECT_EQ(Table([](Printer& p) { p.Chips({Chip()}); }),
            "CHIP     STATE   BACKEND  AIC  AIV  BUSY  MEMORY  USED     READY  DONE\n"
            "chips/0  ACTIVE  sim      24   48   3     64 GiB  1.5 KiB  2      1000\n");
}

TEST(TablePrinterTest, Sessions) {
  const auto session = Parse<v1::Session>(R"(name: "sessions/s1" state: ACTIVE
      create_time { seconds: 1000 } expire_time { seconds: 1130 }
      labels { key: "b" value: "2" } labels { key: "a" value: "1" }
      usage { buffers: 3 device_bytes: 4096 active_runs: 1 finished_runs: 7 })");
  EXPECT_EQ(Table([&](Printer& p) { p.Sessions({session}); }),
            "SESSION      STATE   AGE     EXPIRES IN  BUFFERS  MEMORY  ACTIVE RUNS  FINISHED RUNS  "
            "LABELS\n"
            "sessions/s1  ACTIVE  1m 40s  30 s        3        4 KiB   1            7              "
            "a=1,b=2\n");
}

TEST(TablePrinterTest, Kernels) {
  const auto kernel = Parse<v1::Kernel>(R"(name: "kernels/axpy" description: "y += alpha x"
      default_core: AIV arguments { name: "x" direction: INPUT }
      arguments { name: "y" direction: INOUT same_as: ["x", "z"] }
      scalars { name: "alpha" type: FLOAT })");
  EXPECT_EQ(Table([&](Printer& p) { p.Kernels({kernel}); }),
            "KERNEL  CORE  ARGUMENTS                               DESCRIPTION\n"
            "axpy    AIV   (x in, y inout (may be x or z); alpha)  y += alpha x\n");
}

v1::Kernel UploadedKernel() {
  return Parse<v1::Kernel>(
      R"(name: "sessions/s1/kernels/scale" description: "Scales." default_core: AIV
      arguments { name: "x" direction: INPUT dtypes: F32 dtypes: F16 }
      arguments { name: "y" direction: OUTPUT dtypes: F32 same_as: "x" }
      scalars { name: "factor" type: FLOAT } scalars { name: "group" type: DOMAIN }
      waits: true abi: PTO file_name: "scale.so" file_bytes: 2048 signature: "in f32[] x"
      sha256: "\x01\xab" create_time { seconds: 1040 })");
}

TEST(TablePrinterTest, OneKernel) {
  EXPECT_EQ(Table([](Printer& p) { p.Kernel(UploadedKernel()); }),
            "kernel:       sessions/s1/kernels/scale\n"
            "description:  Scales.\n"
            "core:         AIV\n"
            "argument:     x in F32|F16\n"
            "argument:     y out F32, may be x\n"
            "scalar:       factor float\n"
            "scalar:       group domain\n"
            "notes:        waits\n"
            "abi:          PTO (kernel_entry)\n"
            "signature:    in f32[] x\n"
            "file:         scale.so, 2 KiB\n"
            "sha256:       01ab\n"
            "uploaded:     1m 0s ago\n");
}

std::vector<v1::Host> TwoHosts() {
  return {Parse<v1::Host>(R"(session: "sessions/s1" state: READY pid: 4711 kernel_count: 2
      running_blocks: 3 mapped_bytes: 4096 private_bytes: 1048576 restarts: 1
      last_death: "SIGSEGV in kernel 'scale'" last_restart_time { nanos: 40000000 }
      sandbox { name: "network" in_force: true detail: "no sockets" }
      sandbox { name: "file_system" detail: "needs Landlock" })"),
          Parse<v1::Host>(R"(session: "sessions/s2" state: PAUSED
      sandbox { name: "network" in_force: true })")};
}

TEST(TablePrinterTest, Hosts) {
  EXPECT_EQ(
      Table([](Printer& p) { p.Hosts(TwoHosts()); }),
      "SESSION      STATE   PID   KERNELS  BLOCKS  MAPPED  PRIVATE  RESTARTS  SANDBOX\n"
      "sessions/s1  READY   4711  2        3       4 KiB   1 MiB    1         without file_system\n"
      "sessions/s2  PAUSED  -     0        0       0 B     0 B      0         complete\n");
  EXPECT_EQ(Table([](Printer& p) { p.Host(TwoHosts()[0]); }),
            "session:            sessions/s1\n"
            "state:              READY\n"
            "pid:                4711\n"
            "kernels:            2\n"
            "running blocks:     3\n"
            "memory:             1 MiB of its own, 4 KiB of the session mapped\n"
            "restarts:           1\n"
            "last death:         SIGSEGV in kernel 'scale'\n"
            "last restart:       took 40 ms\n"
            "network:            in force: no sockets\n"
            "file_system:        NOT in force: needs Landlock\n");
}

job::v1::KernelReport CheckedKernel() {
  return Parse<job::v1::KernelReport>(R"(file: "k.so" kernel: "k" seed: 7 cases: 40
      refused_cases: 2 refusal: "too long" calls: 900
      findings { problem: "outside-view" tensor: "z" text: "wrote 0 bytes behind z" place: "K at k.cc:7"
                 case: 3 input: "z f32[4]" cases: 2 })");
}

TEST(TablePrinterTest, CheckedKernels) {
  EXPECT_EQ(Table([](Printer& p) { p.KernelReport(CheckedKernel()); }),
            "k: 38 inputs, 900 calls of blocks, seed 7: 1 problem\n"
            "2 more inputs were refused by the kernel, the first with: too long\n"
            "outside-view: wrote 0 bytes behind z\n"
            "  in K at k.cc:7\n"
            "  input 3: z f32[4]\n"
            "  and 1 more input\n");
}

TEST(TablePrinterTest, Domains) {
  const auto domain = Parse<v1::Domain>(R"(name: "sessions/s1/domains/d1" state: REVOKED
      chips: ["chips/2", "chips/0"] window_bytes: 4096
      buffers { name: "x" dtype: F32 count: 16 } signal_count: 2 epoch: 7
      error { message: "gone" })");
  EXPECT_EQ(Table([&](Printer& p) { p.Domains({domain}); }),
            "DOMAIN                  STATE    CHIPS  WINDOW  BUFFERS  SIGNALS  EPOCH  ERROR\n"
            "sessions/s1/domains/d1  REVOKED  2,0    4 KiB   1        2        7      gone\n");
  EXPECT_EQ(Table([&](Printer& p) { p.Domain(domain); }),
            "domain:    sessions/s1/domains/d1\n"
            "state:     REVOKED\n"
            "chips:     2,0\n"
            "window:    4 KiB\n"
            "buffer:    x F32 x 16\n"
            "signals:   2\n"
            "epoch:     7\n"
            "error:     gone\n");
  const auto signals = Parse<v1::ReadSignalsResponse>("values: [3, 18446744073709551615]");
  EXPECT_EQ(Table([&](Printer& p) { p.Signals(domain, 1, {signals}); }),
            "RANK  CHIP     SIGNALS\n"
            "1     chips/0  3 -1\n");
  EXPECT_EQ(Table([&](Printer& p) { p.Notified(Parse<v1::NotifyResponse>("value: 5")); }), "5\n");
}

TEST(TablePrinterTest, Runs) {
  EXPECT_EQ(Table([](Printer& p) { p.Runs({FailedRun()}); }),
            "RUN                  STATE   TASKS  AGE     TIME    ERROR\n"
            "sessions/s1/runs/r1  FAILED  2/4    1m 40s  2.5 ms  task 2 failed\n");
  EXPECT_EQ(Table([](Printer& p) { p.Runs({}); }), "RUN  STATE  TASKS  AGE  TIME  ERROR\n");
}

TEST(TablePrinterTest, Explanations) {
  const auto explanation = Parse<v1::ExplainRunResponse>(R"(verdict: DEADLOCKED
      since_last_progress { seconds: 2 } run: "sessions/s1/runs/r1" state: RUNNING tasks_total: 9
      tasks_done: 6 summary: "Nothing helps" more_blocked: 3
      blocked { task: 4 task_name: "hear" kernel: "wait" kind: SIGNAL has_have: true
                have: 18446744073709551615 want: 1 age { seconds: 2 } reason: "waits" }
      blocked { task: 5 kernel: "noop" kind: PREDECESSORS can_be_satisfied: true task_count: 2
                reason: "waits for task 4" })");
  EXPECT_EQ(Table([&](Printer& p) { p.Explanation(explanation); }),
            "run:       sessions/s1/runs/r1\n"
            "verdict:   DEADLOCKED\n"
            "state:     RUNNING, 6/9 tasks done\n"
            "idle for:  2 s\n"
            "summary:   Nothing helps\n"
            "TASK  NAME  KERNEL  KIND          HAVE  WANT  AGE  CAN END  WHY\n"
            "4     hear  wait    SIGNAL        -1    1     2 s  NO       waits\n"
            "5 +1  -     noop    PREDECESSORS  -     -     -    yes      waits for task 4\n"
            "3 more are blocked\n");
}

TEST(TablePrinterTest, OneRun) {
  EXPECT_EQ(Table([](Printer& p) { p.Run(FailedRun()); }),
            "run:       sessions/s1/runs/r1\n"
            "state:     FAILED\n"
            "tasks:     2/4 done, 1 failed, 1 skipped\n"
            "created:   1970-01-01T00:16:40.000Z\n"
            "queued:    1.5 us\n"
            "ran:       2.5 ms\n"
            "error:     task 2 failed\n");
}

TEST(TablePrinterTest, ErrorsOfARunInOrderWithTheirReasons) {
  v1::Run run = FailedRun();
  v1::ErrorInfo info;
  info.set_reason("KERNEL_FAILED");
  run.mutable_error()->add_details()->PackFrom(info);
  run.add_more_errors()->set_message("task 3 failed too");
  run.set_errors_unlisted(5);
  EXPECT_THAT(Table([&](Printer& p) { p.Run(run); }),
              HasSubstr("error:     task 2 failed (KERNEL_FAILED)\n"
                        "error:     task 3 failed too\n"
                        "errors:    5 more: ptoctl runs events sessions/s1/runs/r1\n"));
}

TEST(TablePrinterTest, Node) {
  const auto node = Parse<v1::Node>(R"(version: "1.0.0" boot_id: "b1" api_min: 1 api_max: 1
      capabilities: "sim" chip_count: 4 executor_count: 2 start_time { seconds: 1000 } pid: 42
      limits { max_graph_tasks: 1000000 max_buffer_bytes: 1073741824 })");
  EXPECT_EQ(Table([&](Printer& p) { p.Node(node); }),
            "version:           1.0.0\n"
            "api:               1\n"
            "boot:              b1\n"
            "pid:               42\n"
            "up:                1m 40s\n"
            "state:             active\n"
            "chips:             4\n"
            "executors:         2\n"
            "sessions:          0\n"
            "active runs:       0\n"
            "capabilities:      sim\n"
            "tasks in a graph:  at most 1000000\n"
            "bytes in a buffer: at most 1 GiB\n");
}

TEST(TablePrinterTest, Config) {
  const auto config = Parse<v1::Config>(R"(
      settings { name: "state_dir" source: DEFAULT flag: "--state-dir" }
      settings { name: "session.default_ttl" value: "30s" source: FLAG })");
  EXPECT_EQ(Table([&](Printer& p) { p.Config(config); }),
            "SETTING              VALUE  SOURCE\n"
            "state_dir            -      default\n"
            "session.default_ttl  30s    flag\n");
}

TEST(TablePrinterTest, Events) {
  const auto graph =
      Parse<v1::GraphSpec>(R"(tasks { name: "load" kernel: "copy" } tasks { kernel: "add" })");
  const auto started = Parse<v1::Event>(
      R"(sequence: 3 run { name: "sessions/s1/runs/r1" state: RUNNING tasks_total: 2 })");
  const auto dropped = Parse<v1::Event>(R"(sequence: 9 dropped { last_sequence: 12 count: 4 })");
  const auto errors = Parse<v1::Event>(R"(sequence: 8 errors { run: "sessions/s1/runs/r1"
      errors { message: "task 4 failed" } errors { message: "task 5 failed" } })");
  EXPECT_EQ(Table([&](Printer& p) {
              p.Event(started, &graph);
              p.Event(TaskEvent(3), &graph);
              p.Event(errors, &graph);
              p.Event(dropped, &graph);
              p.EndOfEvents();
            }),
            "     3 sessions/s1/runs/r1 RUNNING 0/2 tasks\n"
            "  task 0 load              DONE     chip 1 core 24  +0 ns  2.5 us\n"
            "  task 1 add               DONE     chip 1 core 24  +1 us  2.5 us\n"
            "  task 2                   DONE     chip 1 core 24  +2 us  2.5 us\n"
            "     8 sessions/s1/runs/r1 error: task 4 failed\n"
            "     8 sessions/s1/runs/r1 error: task 5 failed\n"
            "     9 4 events were dropped\n");
}

TEST(TablePrinterTest, DoesNotFloodTheTerminal) {
  v1::Event event = TaskEvent(1000);
  for (int i = 0; i < 1000; ++i) {
    event.mutable_tasks()->add_outcome(i == 900 ? v1::TaskEvents::FAILED : v1::TaskEvents::DONE);
  }
  const std::string text = Table([&](Printer& p) {
    p.Event(event, nullptr);
    p.EndOfEvents();
  });
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 50 + 1 + 1 + 1);
  EXPECT_THAT(text, HasSubstr("task 900                 FAILED"));
  EXPECT_THAT(text, HasSubstr("1000 tasks ended, 949 of them not shown\n"));
}

TEST(TablePrinterTest, Report) {
  const auto report = Parse<job::v1::Report>(
      absl::StrCat(R"pb(
                     session: "sessions/s1"
                     outputs {
                       tensor: "c"
                       dtype: F32
                       shape: 2
                       max: 1
                       mean: 0.5
                       first: [ 0, 1 ]
                       saved: "c.npy"
                     }
                     checks { tensor: "c" ok: true text: "ok (2 elements, max error 0)" }
                     runs {)pb",
                   FailedRun().DebugString(), "}"));
  EXPECT_EQ(Table([&](Printer& p) { p.Report(report); }),
            "sessions/s1/runs/r1: FAILED, 2/4 tasks in 2.5 ms (queued 1.5 us)\n"
            "c: F32 2, min 0, max 1, mean 0.5: [0, 1]\n"
            "c: saved to c.npy\n"
            "check c: ok (2 elements, max error 0)\n");
}

TEST(JsonPrinterTest, ListsAreArrays) {
  EXPECT_EQ(Json([](Printer& p) { p.Chips({}); }), "[]\n");
  const std::string text = Json([](Printer& p) { p.Chips({Chip(), Chip()}); });
  EXPECT_THAT(text, HasSubstr("[\n{\n \"name\": \"chips/0\",\n \"index\": 0,\n"));
  EXPECT_THAT(text, HasSubstr("\"memoryTotalBytes\": \"68719476736\""));
  EXPECT_THAT(text, HasSubstr("},\n{"));
}

TEST(JsonPrinterTest, MessagesComeBack) {
  v1::Run run;
  const std::string text = Json([](Printer& p) { p.Run(FailedRun()); });
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(text, &run).ok()) << text;
  EXPECT_EQ(run.SerializeAsString(), FailedRun().SerializeAsString());
}

TEST(JsonPrinterTest, EventsAreLines) {
  const std::string text = Json([](Printer& p) {
    p.Event(TaskEvent(1), nullptr);
    p.Event(TaskEvent(2), nullptr);
  });
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
  EXPECT_THAT(text, HasSubstr("{\"sequence\":\"5\",\"tasks\":{"));
}

TEST(JsonPrinterTest, ReportAfterEventsIsALineToo) {
  const std::string text = Json([](Printer& p) {
    p.Event(TaskEvent(1), nullptr);
    p.Report({});
  });
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
  EXPECT_GT(Json([](Printer& p) { p.Report({}); }).find("\n \"session\""), 0u);
}

TEST(JsonPrinterTest, WritesDetailsOfErrors) {
  v1::Run run;
  v1::ErrorInfo info;
  info.set_reason("KERNEL_FAILED");
  run.mutable_error()->add_details()->PackFrom(info);
  EXPECT_THAT(Json([&](Printer& p) { p.Run(run); }), HasSubstr("\"reason\": \"KERNEL_FAILED\""));
}

TEST(NamePrinterTest, PrintsNamesOnly) {
  EXPECT_EQ(Names([](Printer& p) { p.Chips({Chip()}); }), "chips/0\n");
  EXPECT_EQ(Names([](Printer& p) { p.Run(FailedRun()); }), "sessions/s1/runs/r1\n");
  EXPECT_EQ(
      Names([](Printer& p) { p.Explanation(Parse<v1::ExplainRunResponse>("verdict: STALLED")); }),
      "STALLED\n");
}

}  // namespace
}  // namespace pto::ptoctl
