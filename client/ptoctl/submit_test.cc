// Commands against a fake daemon: what is sent, what is printed, and that nothing is left behind.

#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/job/npy.h"
#include "client/ptoctl/app.h"
#include "client/testing/fake_daemon.h"
#include "client/testing/temp_socket.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/status/grpc_status.h"
#include "runtime/base/error.h"

namespace pto::ptoctl {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// Its buffers keep their contents, as its check expects.
constexpr char kJob[] = R"({
  "chips": ["2"],
  "buffers": [{"name": "a", "dtype": "F32", "shape": [4], "init": {"iota": {}}},
              {"name": "z", "dtype": "F32", "shape": [4]}],
  "graph": {"tasks": [{"kernel": "copy", "args": ["a", "z"]}]},
  "options": {"timeout": "5s", "labels": {"k": "v"}},
  "outputs": [{"tensor": "a", "print": 2}],
  "checks": [{"tensor": "a", "values": {"iota": {}}}]
})";

class SubmitTest : public ::testing::Test {
 protected:
  struct Result {
    int code = 0;
    std::string out;
    std::string err;
  };

  Result Ptoctl(std::vector<std::string> args) {
    std::ostringstream out, err;
    args.insert(args.end(), {"--address", socket_.address()});
    Result result;
    result.code = Main(args, out, err, false);
    result.out = out.str();
    result.err = err.str();
    return result;
  }

  std::string JobFile(const std::string& text) {
    const std::string path = absl::StrCat(std::getenv("TEST_TMPDIR"), "/job.json");
    std::ofstream(path) << text;
    return path;
  }

  int calls(const std::string& rpc) { return daemon_.gate().calls(rpc); }

  testing::TempSocket socket_;
  testing::FakeDaemon daemon_{socket_.address()};
};

TEST_F(SubmitTest, RunsAJobAndLeavesNothing) {
  const Result result = Ptoctl({"runs", "submit", JobFile(kJob)});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, IsEmpty());
  EXPECT_THAT(result.out, HasSubstr("/runs/r1: SUCCEEDED"));
  EXPECT_THAT(result.out, HasSubstr("a: F32 4, min 0, max 3, mean 1.5: [0, 1, …]\n"));
  EXPECT_THAT(result.out, HasSubstr("check a: ok (4 elements, max error 0)\n"));
  EXPECT_EQ(calls("DeleteSession"), 1);
  const v1::SubmitRunRequest sent = daemon_.submitted();
  EXPECT_EQ(sent.graph().tasks(0).chip(), "chips/2");
  EXPECT_EQ(sent.graph().tensors_size(), 2);
  EXPECT_EQ(sent.options().timeout().seconds(), 5);
  EXPECT_EQ(sent.options().labels().at("k"), "v");
  // A new buffer is zeroed: only `a` is sent.
  EXPECT_EQ(calls("WriteBuffer"), 1);
}

TEST_F(SubmitTest, SavesWhatIsAskedFor) {
  const std::string path = absl::StrCat(std::getenv("TEST_TMPDIR"), "/a.npy");
  const Result result = Ptoctl({"runs", "submit", JobFile(kJob), "--out", "a=" + path});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("a: saved to " + path));
  const job::Array saved = job::ReadNpy(path).value();
  EXPECT_EQ(saved.Get(3), 3);
}

TEST_F(SubmitTest, RepeatsFromTheStart) {
  const Result result = Ptoctl({"runs", "submit", JobFile(kJob), "--repeat", "3"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(calls("SubmitRun"), 3);
  EXPECT_EQ(calls("WriteBuffer"), 1 + 2 + 2);
  EXPECT_THAT(result.out, HasSubstr("/runs/r3: SUCCEEDED"));
}

TEST_F(SubmitTest, FailsWhenACheckDoesNotHold) {
  const std::string text =
      absl::StrCat(std::string(kJob).substr(0, std::string(kJob).rfind(']')),
                   R"(, {"tensor": "z", "equals": "a", "tolerance": {"absolute": 1}}]})");
  const Result result = Ptoctl({"runs", "submit", JobFile(text)});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.out, HasSubstr("check z: FAILED: 2 of 4 elements differ, the first at [2]: "
                                    "got 0, expected 2 (max error 3)"));
  EXPECT_THAT(result.err, StartsWith("ptoctl: error: 1 of 2 checks failed (CHECK_FAILED)"));
  EXPECT_EQ(calls("DeleteSession"), 1);
}

TEST_F(SubmitTest, FindsWhatTheDaemonRefusesInTheFile) {
  daemon_.gate().FailNext(
      "SubmitRun",
      ToGrpcStatus(Error(reason::kKernelUnknown, "no such kernel").At("graph.tasks[0].kernel")));
  const std::string path = JobFile(kJob);
  const Result result = Ptoctl({"runs", "submit", path});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.out, IsEmpty());
  EXPECT_THAT(result.err, HasSubstr("no such kernel (KERNEL_UNKNOWN)\n"));
  EXPECT_THAT(result.err, HasSubstr(absl::StrCat("  at: graph.tasks[0].kernel (", path, ":5:")));
  EXPECT_EQ(calls("DeleteSession"), 1);
}

TEST_F(SubmitTest, GivesUpInTime) {
  daemon_.HoldRuns(true);
  const Result result = Ptoctl({"runs", "submit", JobFile(kJob), "--timeout", "500ms"});
  EXPECT_EQ(result.code, 4);
  EXPECT_THAT(result.err, HasSubstr("(CLIENT_TIMEOUT)"));
  EXPECT_EQ(calls("DeleteSession"), 1);
}

TEST_F(SubmitTest, CtrlCCancelsTheRunAndCleansUp) {
  daemon_.HoldRuns(true);
  std::thread user([this] {
    EXPECT_TRUE(daemon_.gate().WaitForCalls("WaitRun", 1));
    kill(getpid(), SIGINT);
  });
  const Result result = Ptoctl({"runs", "submit", JobFile(kJob)});
  user.join();
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.out, HasSubstr("/runs/r1: CANCELLED"));
  EXPECT_THAT(result.err,
              HasSubstr("interrupted; cancellation of the run was requested (INTERRUPTED)"));
  EXPECT_EQ(calls("CancelRun"), 1);
  EXPECT_EQ(calls("DeleteSession"), 1);
}

TEST_F(SubmitTest, DetachedRunsLiveOn) {
  const Result detached = Ptoctl({"runs", "submit", JobFile(kJob), "--detach", "-q"});
  EXPECT_EQ(detached.code, 0) << detached.err;
  ASSERT_THAT(detached.out, StartsWith("sessions/"));
  const std::string run = detached.out.substr(0, detached.out.size() - 1);
  const std::string session = run.substr(0, run.find("/runs/"));
  EXPECT_TRUE(daemon_.HasSession(session));
  EXPECT_EQ(calls("DeleteSession"), 0);

  EXPECT_THAT(Ptoctl({"runs", "get", run}).out, HasSubstr("state:     SUCCEEDED"));
  EXPECT_EQ(Ptoctl({"runs", "wait", run}).code, 0);
  // The run was cancelled, and waiting for it reports that.
  EXPECT_EQ(Ptoctl({"runs", "cancel", run, "--reason", "enough"}).code, 0);
  const Result waited = Ptoctl({"runs", "wait", run});
  EXPECT_EQ(waited.code, 1);
  EXPECT_THAT(waited.err, HasSubstr("enough (RUN_CANCELLED)"));

  EXPECT_EQ(Ptoctl({"sessions", "rm", session.substr(session.find('/') + 1)}).code, 0);
  EXPECT_FALSE(daemon_.HasSession(session));
  const Result gone = Ptoctl({"runs", "get", run});
  EXPECT_EQ(gone.code, 1);
  EXPECT_THAT(gone.err, HasSubstr("(SESSION_ENDED)"));
}

TEST_F(SubmitTest, ListsAllPages) {
  EXPECT_EQ(Ptoctl({"chips", "ls", "-q"}).out, "chips/0\nchips/1\n");
}

}  // namespace
}  // namespace pto::ptoctl
