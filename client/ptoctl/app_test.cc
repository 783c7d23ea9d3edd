#include "client/ptoctl/app.h"

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "client/ptoctl/ptoctl_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pto::ptoctl {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

std::string TempFile(const std::string& name, const std::string& text) {
  const std::string path = absl::StrCat(std::getenv("TEST_TMPDIR"), "/", name);
  std::ofstream(path) << text;
  return path;
}

TEST(AppTest, HelpIsEverywhere) {
  const std::vector<std::vector<std::string>> commands = {{},
                                                          {"node"},
                                                          {"node", "info"},
                                                          {"chips"},
                                                          {"chips", "ls"},
                                                          {"chips", "lease"},
                                                          {"sessions"},
                                                          {"sessions", "ls"},
                                                          {"sessions", "rm"},
                                                          {"domains"},
                                                          {"domains", "create"},
                                                          {"domains", "ls"},
                                                          {"domains", "show"},
                                                          {"domains", "revoke"},
                                                          {"domains", "rm"},
                                                          {"domains", "notify"},
                                                          {"domains", "signals"},
                                                          {"kernels"},
                                                          {"kernels", "ls"},
                                                          {"kernels", "new"},
                                                          {"kernels", "check"},
                                                          {"kernels", "register"},
                                                          {"kernels", "describe"},
                                                          {"kernels", "rm"},
                                                          {"hosts"},
                                                          {"hosts", "ls"},
                                                          {"hosts", "describe"},
                                                          {"graphs"},
                                                          {"graphs", "dot"},
                                                          {"runs"},
                                                          {"runs", "submit"},
                                                          {"runs", "stream"},
                                                          {"runs", "ls"},
                                                          {"runs", "get"},
                                                          {"runs", "wait"},
                                                          {"runs", "cancel"},
                                                          {"runs", "events"},
                                                          {"config"},
                                                          {"config", "show"},
                                                          {"errors"},
                                                          {"errors", "ls"},
                                                          {"errors", "show"},
                                                          {"completion"},
                                                          {"completion", "bash"}};
  for (std::vector<std::string> command : commands) {
    command.push_back("--help");
    const Result result = Ptoctl(command);
    EXPECT_EQ(result.code, 0);
    EXPECT_THAT(result.err, IsEmpty());
    EXPECT_THAT(result.out, HasSubstr("Usage: ptoctl"));
    if (command.size() == 3) {
      EXPECT_THAT(result.out, HasSubstr("Examples:"));
    }
  }
}

TEST(AppTest, Version) {
  const Result result = Ptoctl({"--version"});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out, StartsWith("ptoctl "));
}

TEST(AppTest, WrongCommandLinesAreUsageErrors) {
  const std::pair<std::vector<std::string>, std::string> cases[] = {
      {{}, "Usage: ptoctl"},
      {{"runs"}, "Usage: ptoctl runs"},
      {{"chpis", "ls"}, "unknown command 'chpis' (USAGE)\n  hint: did you mean 'chips'?"},
      {{"frobnicate"}, "unknown command 'frobnicate' (USAGE)\n  hint: see `ptoctl --help`"},
      {{"-o", "json", "chpis"}, "unknown command 'chpis'"},
      {{"runs", "sumbit"}, "did you mean 'submit'?"},
      {{"runs", "get"}, "RUN is required"},
      {{"runs", "get", "a", "b"}, "b"},
      {{"runs", "submit", "x.json", "--wacth"},
       "unknown option '--wacth' (USAGE)\n  hint: did you mean '--watch'?"},
      {{"runs", "submit", "x.json", "--detach", "--watch"}, "--watch"},
      {{"runs", "submit", "x.json", "--repeat", "0"}, "--repeat"},
      {{"runs", "submit", "x.json", "--ttl", "never"}, "expected a duration such as 30s"},
      {{"chips", "ls", "-o", "xml"}, "xml"},
      {{"chips", "ls", "--timeout", "soon"},
       "expected a duration such as 30s or 500ms, got 'soon'"},
      {{"chips", "ls", "--timeout", "-1s"}, "expected a duration"},
      {{"chips", "ls", "--timeout"}, "--timeout"},
      {{"sessions", "rm"}, "expected a session name or --all"},
      {{"sessions", "rm", "a", "--all"}, "not both"},
      {{"kernels", "new"}, "NAME is required"},
      {{"kernels", "register"}, "FILE is required"},
      {{"kernels", "register", "k.so", "--signature", "a", "--signature-file", "b"}, "--signature"},
      {{"kernels", "check", "k.so", "--runs", "0"}, "--runs"},
      {{"kernels", "rm"}, "NAME is required"},
      {{"hosts", "describe"}, "SESSION is required"},
      {{"errors", "show"}, "REASON is required"},
      {{"errors", "show", "kernel_unknwon"}, "did you mean 'KERNEL_UNKNOWN'?"},
  };
  for (const auto& [args, message] : cases) {
    const Result result = Ptoctl(args);
    EXPECT_EQ(result.code, 2) << message;
    EXPECT_THAT(result.out, IsEmpty());
    EXPECT_THAT(result.err, HasSubstr(message));
  }
}

TEST(AppTest, MalformedJobsAreUsageErrors) {
  const std::string path = TempFile("bad.json", "{\n  \"graph\": {\"tasks\": [\n    {\"kernal\"");
  const Result syntax = Ptoctl({"runs", "submit", path});
  EXPECT_EQ(syntax.code, 2);
  EXPECT_THAT(syntax.err, StartsWith(absl::StrCat("ptoctl: error: ", path, ":3:")));

  const std::string unknown = TempFile(
      "unknown.json", "{\"graph\": {\"tasks\": [\n{\"kernel\": \"add\", \"args\": [\"a\"]}]}}");
  const Result name = Ptoctl({"runs", "submit", unknown});
  EXPECT_EQ(name.code, 2);
  EXPECT_EQ(name.err, absl::StrCat("ptoctl: error: ", unknown,
                                   ":2:28: there is no tensor or buffer 'a' (JOB_INVALID)\n"
                                   "  at: graph.tasks[0].args[0]\n"));

  const Result missing = Ptoctl({"runs", "submit", "/nowhere/x.json"});
  EXPECT_EQ(missing.code, 2);
  EXPECT_THAT(missing.err, HasSubstr("/nowhere/x.json: cannot read file: No such file"));
}

TEST(AppTest, DryRunNeedsNoDaemon) {
  const std::string path = TempFile("good.json", R"({"chips": ["0-1"],
      "buffers": [{"name": "a", "dtype": "F32"}], "graph": {"tasks": [{"kernel": "noop"}]}})");
  EXPECT_EQ(Ptoctl({"runs", "submit", path, "--dry-run"}).code, 0);
  EXPECT_EQ(Ptoctl({"runs", "submit", path, "--dry-run", "--chips", "4,5"}).code, 0);
  EXPECT_EQ(Ptoctl({"runs", "submit", path, "--dry-run", "--out", "a=a.npy"}).code, 0);
  const std::pair<std::vector<std::string>, std::string> cases[] = {
      {{"--chips", "4"}, "the job uses 2 chips, but 4 has only 1"},
      {{"--chips", "x"}, "--chips: chip list 'x': expected a chip"},
      {{"--out", "a"}, "--out a: expected NAME=FILE.npy"},
      {{"--out", "a=a.txt"}, "expected NAME=FILE.npy"},
      {{"--out", "b=b.npy"}, "there is no tensor or buffer 'b'"},
  };
  for (const auto& [options, message] : cases) {
    std::vector<std::string> args = {"runs", "submit", path, "--dry-run"};
    args.insert(args.end(), options.begin(), options.end());
    const Result result = Ptoctl(args);
    EXPECT_EQ(result.code, 2) << message;
    EXPECT_THAT(result.err, HasSubstr(message));
  }
}

TEST(AppTest, SaysWhenThereIsNoDaemon) {
  const std::vector<std::string> commands[] = {{"chips", "ls"}, {"node", "info"}, {"runs", "ls"}};
  for (std::vector<std::string> args : commands) {
    args.insert(args.end(), {"--address", "unix:/nowhere/ptod.sock", "--timeout", "1s"});
    const Result result = Ptoctl(args);
    EXPECT_EQ(result.code, 3);
    EXPECT_THAT(result.out, IsEmpty());
    EXPECT_THAT(result.err, HasSubstr("(DAEMON_UNREACHABLE)"));
    EXPECT_THAT(result.err, HasSubstr("hint: "));
  }
}

// The words that `ptoctl completion words` offers, without descriptions.
std::vector<std::string> Offered(std::vector<std::string> line) {
  line.insert(line.begin(), {"completion", "words", "--"});
  const Result result = Ptoctl(line);
  EXPECT_EQ(result.code, 0) << result.err;
  std::vector<std::string> words;
  for (const absl::string_view each : absl::StrSplit(result.out, '\n', absl::SkipEmpty())) {
    words.emplace_back(each.substr(0, each.find('\t')));
  }
  return words;
}

TEST(AppTest, CompletionKnowsCommandsOptionsAndValues) {
  EXPECT_THAT(Offered({}), AllOf(Contains("runs"), Contains("--address")));
  EXPECT_THAT(Offered({"runs"}), AllOf(Contains("submit"), Not(Contains("runs"))));
  EXPECT_THAT(Offered({"-o"}), Contains("json"));
  EXPECT_THAT(Offered({"-o", "json"}), Contains("runs"));
  EXPECT_THAT(Offered({"--output", "json", "chips"}), Contains("lease"));
  EXPECT_THAT(Offered({"runs", "submit"}), AllOf(Contains(":files"), Contains("--watch")));
  EXPECT_THAT(Offered({"runs", "submit", "x.json", "--priority"}),
              ElementsAre("low", "normal", "high"));
  EXPECT_THAT(Offered({"errors", "show"}), Contains("KERNEL_UNKNOWN"));
  EXPECT_THAT(Offered({"scenarios", "run"}), Contains("moe_ep"));
  EXPECT_THAT(Offered({"--tls-ca"}), ElementsAre(":files"));
  EXPECT_THAT(Offered({"runs", "submit", "--timeout"}), IsEmpty());
}

TEST(AppTest, CompletionIsAScriptThatBashTakes) {
  const Result result = Ptoctl({"completion", "bash"});
  EXPECT_EQ(result.code, 0);
  const std::string path = TempFile("completion.bash", result.out);
  EXPECT_EQ(std::system(absl::StrCat("bash -n ", path).c_str()), 0);
  // With a ptoctl that offers two words and files.
  const std::string script = absl::StrCat("source ", path, R"sh(
      compopt() { :; }
      ptoctl() { printf '%s\n' "$*" >asked; printf 'submit\tRun a job\nstream\n:files\n'; }
      try() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _ptoctl; echo "${COMPREPLY[*]}"; }
      cd "$(mktemp -d)" && touch subway
      [[ "$(try ptoctl runs sub)" == "submit subway" ]] || exit 11
      [[ "$(cat asked)" == "completion words -- runs" ]] || exit 12
      [[ "$(try ptoctl runs -s)" == "" ]] || exit 13
      rm -r "$PWD"
      )sh");
  const std::string try_path = TempFile("try.bash", script);
  EXPECT_EQ(std::system(absl::StrCat("bash ", try_path).c_str()) >> 8, 0);
}

}  // namespace
}  // namespace pto::ptoctl
