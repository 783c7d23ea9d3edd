// ptoctl as a person uses it: commands, outputs and exit codes, against a real daemon.

#include <signal.h>

#include <cstring>
#include <string>
#include <vector>

#include "client/job/report.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"
#include "tests/harness/daemon_process.h"
#include "tests/integration/ptoctl_testing.h"
#include "tests/integration/world.h"

namespace pto::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// ---- jobs

TEST_F(PtoctlTest, RunsAllExamples) {
  for (const char* job : {"vector_add.json", "ffn.txtpb", "random_dag.json"}) {
    for (const bool packed : {false, true}) {
      std::vector<std::string> args = {"runs", "submit", Example(job), "-o", "json"};
      if (packed) args.push_back("--packed");
      const auto report = FromJson<job::v1::Report>(Output(args));
      ASSERT_EQ(report.runs_size(), 1) << job;
      EXPECT_EQ(report.runs(0).state(), v1::Run::SUCCEEDED) << job;
      EXPECT_EQ(report.runs(0).tasks_done(), report.runs(0).tasks_total()) << job;
      EXPECT_GE(report.checks_size(), 1) << job;
      for (const auto& check : report.checks()) EXPECT_TRUE(check.ok()) << check.text();
    }
  }
  EXPECT_THAT(Output({"runs", "submit", Example("vector_add.json")}),
              AllOf(HasSubstr("SUCCEEDED"), HasSubstr("check c0")));
  // Nothing is left behind.
  EXPECT_EQ(GetChip(api(), 0).memory_used_bytes(), 0u);
}

TEST_F(PtoctlTest, RunsTasksThatWaitCopyAndArePassedOver) {
  for (const bool packed : {false, true}) {
    std::vector<std::string> args = {"runs", "submit", Example("signals.txtpb"), "-o", "json"};
    if (packed) args.push_back("--packed");
    const auto report = FromJson<job::v1::Report>(Output(args));
    ASSERT_EQ(report.runs_size(), 1);
    EXPECT_EQ(report.runs(0).state(), v1::Run::SUCCEEDED);
    EXPECT_EQ(report.runs(0).tasks_done(), 8u);
    EXPECT_EQ(report.checks_size(), 3);
    for (const auto& check : report.checks()) EXPECT_TRUE(check.ok()) << check.text();
  }
}

TEST_F(PtoctlTest, RunsAJobInADomainAgainAndAgain) {
  for (const bool packed : {false, true}) {
    std::vector<std::string> args = {
        "runs", "submit", Example("domain_notify.txtpb"), "--repeat", "20", "-o", "json"};
    if (packed) args.push_back("--packed");
    const auto report = FromJson<job::v1::Report>(Output(args));
    ASSERT_EQ(report.runs_size(), 20);
    for (const v1::Run& run : report.runs()) EXPECT_EQ(run.state(), v1::Run::SUCCEEDED);
    EXPECT_EQ(report.checks_size(), 2);
    for (const auto& check : report.checks()) EXPECT_TRUE(check.ok()) << check.text();
  }
}

TEST_F(PtoctlTest, KeepsDomains) {
  const std::string session = MakeSession(api());
  const auto made = FromJson<v1::Domain>(
      Output({"domains", "create", "cli", "--session", session, "--chips", "2,0", "--buffer",
              "x:F32:16", "--buffer", "y:I64:1", "--signals", "2", "-o", "json"}));
  EXPECT_EQ(made.name(), session + "/domains/cli");
  EXPECT_THAT(made.chips(), ElementsAre("chips/2", "chips/0"));
  EXPECT_EQ(made.buffers_size(), 2);
  EXPECT_EQ(Output({"domains", "ls", "--session", session, "-q"}), made.name() + "\n");
  EXPECT_THAT(Output({"domains", "ls"}), HasSubstr(made.name()));
  EXPECT_THAT(Output({"domains", "show", "cli"}),
              AllOf(HasSubstr("ACTIVE"), HasSubstr("x F32 x 16")));
  EXPECT_EQ(Output({"domains", "notify", "cli", "1", "0", "5"}), "5\n");
  EXPECT_EQ(Output({"domains", "notify", made.name(), "1", "0", "2", "--add"}), "7\n");
  EXPECT_EQ(Output({"domains", "signals", "cli", "--rank", "1", "-q"}), "7\n0\n");
  EXPECT_THAT(Output({"domains", "signals", "cli"}), HasSubstr("1     chips/0  7 0\n"));
  EXPECT_THAT(Output({"domains", "revoke", "cli", "--reason", "test over"}),
              AllOf(HasSubstr("REVOKED"), HasSubstr("test over")));
  const ProgramResult refused = Ptoctl({"domains", "notify", "cli", "1", "0", "5"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, HasSubstr("DOMAIN_REVOKED"));
  EXPECT_EQ(Output({"domains", "rm", "cli", "-q"}), made.name() + "\n");
  const ProgramResult gone = Ptoctl({"domains", "show", "cli"});
  EXPECT_EQ(gone.exit_code, 1);
  EXPECT_THAT(gone.err, HasSubstr("there is no domain 'cli'"));
  for (const char* buffer : {"x", "x:F32", "x:F31:4", "x:F32:many"}) {
    EXPECT_EQ(Ptoctl({"domains", "create", "cli", "--session", session, "--chips", "0", "--buffer",
                      buffer})
                  .exit_code,
              2)
        << buffer;
  }
  DeleteSession(api(), session);
}

TEST_F(PtoctlTest, RunsAJobOnOtherChipsAndOftenEnough) {
  const auto report =
      FromJson<job::v1::Report>(Output({"runs", "submit", Example("vector_add.json"), "--chips",
                                        "3,3,3,3", "--repeat", "3", "-o", "json"}));
  EXPECT_EQ(report.runs_size(), 3);
  const std::string one_chip = File("missing.json", R"({"chips": ["7"], "graph": {"tasks": [
      {"kernel": "noop"}]}})");
  const ProgramResult missing = Ptoctl({"runs", "submit", one_chip});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_THAT(missing.err, HasSubstr("CHIP_UNKNOWN"));
}

TEST_F(PtoctlTest, SharesAsItIsTold) {
  Output({"runs", "submit", Example("ffn.txtpb"), "--priority", "low", "--weight", "1000"});
  const std::string run = Detach(SpinJob());
  v1::GetSessionRequest request;
  request.set_name(run.substr(0, run.find("/runs/")));
  const auto plain = Call(*api().session, &v1::SessionService::Stub::GetSession, request);
  ASSERT_THAT(plain, IsOk());
  EXPECT_EQ(plain->weight(), 1u);
  Output({"sessions", "rm", request.name()});
}

TEST_F(PtoctlTest, ShowsEventsAsTheyCome) {
  const std::string out = Output({"runs", "submit", Example("ffn.txtpb"), "--watch"});
  for (const char* text : {"QUEUED", "RUNNING", "SUCCEEDED", "layer-1", "sum", "DONE"}) {
    EXPECT_THAT(out, HasSubstr(text));
  }
}

TEST_F(PtoctlTest, SavesATensorForNumpy) {
  const std::string path = daemon_->directory() + "/c1.npy";
  Output({"runs", "submit", Example("vector_add.json"), "--out", "c1=" + path});
  const std::string file = ReadFile(path);
  ASSERT_GE(file.size(), 128u);
  EXPECT_EQ(file.substr(0, 6), "\x93NUMPY");
  EXPECT_EQ(file[6], 1);  // version 1.0
  EXPECT_EQ(file[7], 0);
  const size_t header =
      static_cast<unsigned char>(file[8]) + 256 * static_cast<unsigned char>(file[9]);
  EXPECT_EQ((10 + header) % 64, 0u);
  const std::string text = file.substr(10, header);
  EXPECT_THAT(text, AllOf(HasSubstr("'descr': '<f4'"), HasSubstr("'fortran_order': False"),
                          HasSubstr("'shape': (65536,)")));
  EXPECT_EQ(text.back(), '\n');
  ASSERT_EQ(file.size(), 10 + header + 65536 * sizeof(float));
  float last = 0;
  std::memcpy(&last, file.data() + file.size() - sizeof last, sizeof last);
  EXPECT_EQ(last, 65536.0f);
}

TEST_F(PtoctlTest, AJobInASessionThatExistsUsesItsBuffersAndLeavesThemThere) {
  const std::string session = MakeSession(api());
  MakeBuffer(api(), session, "out", 16);
  // As the job has it.
  Output({"domains", "create", "d", "--session", session, "--chips", "0", "--buffer", "w:F32:4"});
  WaitForRun(api(), Submit(api(), session, Fill(4, 7)).name());
  const std::string job = File("zeros.json", R"({
      "chips": ["0"],
      "domains": [{"name": "d", "buffers": [{"name": "w", "dtype": "F32", "shape": [4]}]}],
      "buffers": [{"name": "out", "dtype": "F32", "shape": [4], "init": {"zeros": true}},
                  {"name": "own", "dtype": "F32", "shape": [4]}],
      "graph": {"tasks": [{"kernel": "copy", "args": ["out", "own"]}]},
      "checks": [{"tensor": "own", "values": {"constant": 0}}]})");
  Output({"runs", "submit", job, "--session", session});
  v1::ListBuffersRequest request;
  request.set_parent(session);
  const auto left = Call(*api().buffer, &v1::BufferService::Stub::ListBuffers, request);
  ASSERT_TRUE(left.ok()) << left.status();
  ASSERT_EQ(left->buffers_size(), 1);
  EXPECT_EQ(left->buffers(0).name(), session + "/buffers/out");
  EXPECT_EQ(Output({"domains", "ls", "--session", session, "-q"}), session + "/domains/d\n");
  DeleteSession(api(), session);
}

TEST_F(PtoctlTest, ACheckThatFailsFailsTheJob) {
  const std::string job = File("wrong.json", R"({
      "buffers": [{"name": "a", "dtype": "F32", "shape": [4]}],
      "graph": {"tasks": [{"kernel": "fill", "args": ["a"], "scalars": [{"f64": 2}]}]},
      "checks": [{"tensor": "a", "values": {"constant": 3}}]})");
  const ProgramResult result = Ptoctl({"runs", "submit", job});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, HasSubstr("SUCCEEDED"));
  EXPECT_THAT(result.err, HasSubstr("CHECK_FAILED"));
}

TEST_F(PtoctlTest, AKernelThatFailsFailsTheJob) {
  const std::string job = File("fail.json", R"({"graph": {"tasks": [
      {"name": "culprit", "kernel": "fail", "scalars": [{"i64": 9}]}]}})");
  const ProgramResult result = Ptoctl({"runs", "submit", job});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("KERNEL_FAILED"), HasSubstr("culprit")));
}

TEST_F(PtoctlTest, AMistakeInAJobHasItsPlace) {
  const struct {
    const char* text;
    const char* place;
  } kMistakes[] = {
      {"{\n  \"graph\": {\n    \"tasks\": [,]\n  }\n}\n", ":3:"},
      {"{\n  \"grpah\": {}\n}\n", ":2:"},
      {"{\n  \"graph\": {\"tasks\": [\n    {\"kernel\": 7}\n  ]}\n}\n", ":3:"},
      {"", ":"},
  };
  for (const auto& [text, place] : kMistakes) {
    const std::string path = File("bad.json", text);
    const ProgramResult result = Ptoctl({"runs", "submit", path});
    EXPECT_EQ(result.exit_code, 2) << text;
    EXPECT_THAT(result.err, HasSubstr(path + place));
  }
  const std::string text = File("bad.txtpb", "graph {\n  tsks { }\n}\n");
  const ProgramResult result = Ptoctl({"runs", "submit", text});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr(text + ":2:"));
  // Errors that only the daemon finds are traced back to the file.
  const std::string kernel =
      File("kernel.json", "{\"graph\": {\"tasks\": [\n {\"kernel\": \"x\"}]}}");
  const ProgramResult unknown = Ptoctl({"runs", "submit", kernel});
  EXPECT_EQ(unknown.exit_code, 1);
  EXPECT_THAT(unknown.err, AllOf(HasSubstr("KERNEL_UNKNOWN"), HasSubstr(kernel + ":2:")));
  EXPECT_EQ(Ptoctl({"runs", "submit", "/nonexistent.json"}).exit_code, 2);
}

TEST_F(PtoctlTest, ADryRunNeedsNoDaemon) {
  const ProgramResult result = RunPtoctl(
      "unix:/nonexistent/socket", {"runs", "submit", Example("random_dag.json"), "--dry-run"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

// ---- runs

TEST_F(PtoctlTest, ARunCanBeFollowedAndCancelled) {
  const std::string run = Detach(SpinJob());
  ASSERT_THAT(run, HasSubstr("/runs/"));
  const std::string id = run.substr(run.rfind('/') + 1);
  EXPECT_EQ(Output({"runs", "ls", "--active", "-q"}), run + "\n");
  EXPECT_THAT(Output({"runs", "ls"}), HasSubstr(run));
  WaitUntilRunning(api(), run);
  EXPECT_THAT(Output({"runs", "get", id}), HasSubstr("RUNNING"));
  // It does not end in time.
  const ProgramResult early = Ptoctl({"runs", "wait", run, "--timeout", "200ms"});
  EXPECT_EQ(early.exit_code, 4);
  EXPECT_THAT(early.err, HasSubstr("CLIENT_TIMEOUT"));
  Output({"runs", "cancel", run, "--reason", "had enough"});
  const ProgramResult ended = Ptoctl({"runs", "wait", run});
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_THAT(ended.out, HasSubstr("CANCELLED"));
  EXPECT_THAT(ended.err, AllOf(HasSubstr("RUN_CANCELLED"), HasSubstr("had enough")));
  EXPECT_EQ(FromJson<v1::Run>(Output({"runs", "get", run, "-o", "json"})).state(),
            v1::Run::CANCELLED);
  const std::string events = Output({"runs", "events", run, "--follow"});
  for (const char* state : {"QUEUED", "RUNNING", "CANCELLED"}) {
    EXPECT_THAT(events, HasSubstr(state));
  }
  EXPECT_THAT(Output({"runs", "events", run, "--after", "1"}), Not(HasSubstr("QUEUED")));
  for (const std::string& line : Lines(Output({"runs", "events", run, "-o", "json"}))) {
    EXPECT_GT(FromJson<v1::Event>(line).sequence(), 0u);
  }
  Output({"sessions", "rm", run.substr(0, run.find("/runs/"))});
}

TEST_F(PtoctlTest, WaitsForARunThatEndsWell) {
  const std::string run = Detach(Example("vector_add.json"));
  EXPECT_THAT(Output({"runs", "wait", run}), HasSubstr("SUCCEEDED"));
  Output({"sessions", "rm", run.substr(0, run.find("/runs/"))});
}

TEST_F(PtoctlTest, ARunThatIsNotThereIsAnError) {
  for (const char* verb : {"get", "wait", "cancel", "events"}) {
    for (const char* name : {"nope", "sessions/nope/runs/nope", "sessions/nope"}) {
      const ProgramResult result = Ptoctl({"runs", verb, name});
      EXPECT_EQ(result.exit_code, 1) << verb << " " << name;
      EXPECT_THAT(result.err, HasSubstr("ptoctl: error:"));
      EXPECT_THAT(result.out, IsEmpty());
    }
  }
}

TEST_F(PtoctlTest, CtrlCCancelsTheRunAndLeavesNothing) {
  Process::Options options;
  options.command = {Runfile("client/ptoctl/ptoctl"), "runs", "submit", SpinJob()};
  options.environment = {{"PTOD_ADDRESS", daemon_->address()}};
  options.out = daemon_->directory() + "/out";
  options.err = daemon_->directory() + "/err";
  Process process(options);
  ASSERT_TRUE(Eventually([] { return GetChip(api(), 0).busy_cores() == 1; }));
  process.Signal(SIGINT);
  const absl::optional<int> status = process.Wait(absl::Seconds(30));
  ASSERT_TRUE(status.has_value());
  EXPECT_EQ(DescribeWaitStatus(*status), "exit code 1");
  EXPECT_THAT(ReadFile(options.err), HasSubstr("INTERRUPTED"));
  EXPECT_TRUE(Eventually([] {
    return GetChip(api(), 0).busy_cores() == 0 && GetNode(api()).active_run_count() == 0;
  }));
}

// ---- other exit codes

TEST_F(PtoctlTest, AWrongCommandLineIsTwo) {
  for (const std::vector<std::string>& args : std::vector<std::vector<std::string>>{
           {},
           {"chpis"},
           {"runs"},
           {"runs", "get"},
           {"chips", "ls", "--colour"},
           {"chips", "ls", "-o", "xml"},
           {"chips", "ls", "--timeout", "soon"},
           {"graphs", "dot"},
           {"graphs", "dot", Example("ffn.txtpb"), "--max-tasks", "0"},
           {"runs", "submit", Example("ffn.txtpb"), "--priority", "most"},
           {"runs", "submit", Example("ffn.txtpb"), "--weight", "1001"},
           {"runs", "submit", Example("ffn.txtpb"), "--out", "y"},
           {"runs", "submit", Example("ffn.txtpb"), "--chips", "a"}}) {
    const ProgramResult result = Ptoctl(args);
    EXPECT_EQ(result.exit_code, 2) << ::testing::PrintToString(args);
    EXPECT_THAT(result.err, Not(IsEmpty()));
    EXPECT_THAT(result.out, IsEmpty());
  }
}

TEST_F(PtoctlTest, NoDaemonIsThree) {
  for (const char* address : {"unix:/nonexistent/socket", "127.0.0.1:1"}) {
    const ProgramResult result = Ptoctl({"chips", "ls", "--address", address, "--timeout", "20s"});
    EXPECT_EQ(result.exit_code, 3) << result.err;
    EXPECT_THAT(result.err, AllOf(HasSubstr("DAEMON_UNREACHABLE"), HasSubstr(address)));
  }
}

TEST_F(PtoctlTest, ADaemonThatDoesNotAnswerIsFour) {
  daemon_->Pause();
  const ProgramResult result = Ptoctl({"chips", "ls", "--timeout", "300ms"});
  daemon_->Resume();
  EXPECT_EQ(result.exit_code, 4) << result.err;
  EXPECT_THAT(result.err, HasSubstr("CLIENT_TIMEOUT"));
}

}  // namespace
}  // namespace pto::testing
