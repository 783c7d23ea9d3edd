#include "client/ptoctl/command.h"

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pto::ptoctl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

using Reading = Command::Reading;

// `tool [--quiet] [--timeout D] (jobs (ls | run ...) | now)`, with an option of every type.
struct Tool {
  Tool() {
    root.AddVersion("tool 1.2");
    root.AddFlag("-q,--quiet", &quiet, "Say less");
    root.AddOption("--timeout", &timeout, "Longest time");
    root.Footer("Exit codes: 0.");
    jobs.AddCommand("ls", "List jobs").Action(Do("ls"));
    run.AddOption("FILE", &file, "What to run").Required();
    run.AddOption("--out", &outs, "What to save").Repeated();
    run.AddOption("--tag", &tags, "Its labels");
    run.AddOption("--repeat", &repeat, "How often").Range(1, 10);
    run.AddOption("--offset", &offset, "From where");
    run.AddOption("-n,--count", &count, "How many").Positive();
    run.AddOption("--bytes", &bytes, "How large").Range(uint64_t{1}, uint64_t{1} << 32);
    run.AddOption("--rank", &rank, "Which one");
    run.AddOption("--ttl", &ttl, "Its life");
    run.AddOption("--form", &form, "Its form").OneOf({"table", "json"});
    run.AddOption("--name", &name, "Its name").Check([](const std::string& given) {
      return given == "bad" ? "not that one" : "";
    });
    run.AddChoice(
        "--priority", {{"low", 1}, {"high", 3}}, [this](int given) { priority = given; },
        "How urgent");
    run.AddFlag("--detach,-d", &detach, "Do not wait").Excludes({"--out", "--repeat"});
    run.Footer("Examples:\n  tool jobs run x").Action(Do("run"));
    root.AddCommand("now", "What is").Action(Do("now"));
  }

  std::function<absl::Status()> Do(const std::string& what) {
    return [this, what] {
      done.push_back(what);
      return absl::OkStatus();
    };
  }

  bool quiet = false;
  bool detach = false;
  absl::optional<absl::Duration> timeout;
  std::string file, form, name;
  std::vector<std::string> outs, tags;
  int repeat = 1;
  int64_t offset = 0;
  uint32_t count = 1;
  uint64_t bytes = 0;
  absl::optional<uint32_t> rank;
  absl::Duration ttl = absl::Hours(1);
  int priority = 0;
  std::vector<std::string> done;

  Command root{"tool", "Does things."};
  Command& jobs = root.AddCommand("jobs", "What is to be done");
  Command& run = jobs.AddCommand("run", "Run a job");
};

TEST(CommandTest, SetsValuesOfAllTypes) {
  Tool tool;
  std::vector<std::string> args = {"jobs", "run", "x"};
  for (const std::vector<std::string>& option : std::vector<std::vector<std::string>>{
           {"--out", "a"},
           {"--out", "b"},
           {"--tag", "c", "d", "e"},
           {"-n", "4"},
           {"--rank", "0"},
           {"--ttl", "200ms"},
           {"--repeat", "10"},
           {"--name", "good"},
           {"--offset", "-5"},
           {"--form=json"},
           {"--bytes", "4294967296"},
           {"--priority", "HIGH"},
       }) {
    args.insert(args.end(), option.begin(), option.end());
  }
  const Reading reading = tool.root.Parse(args);
  EXPECT_EQ(reading.kind, Reading::kAction) << reading.text;
  EXPECT_EQ(tool.file, "x");
  EXPECT_THAT(tool.outs, ElementsAre("a", "b"));
  EXPECT_THAT(tool.tags, ElementsAre("c", "d", "e"));
  EXPECT_EQ(tool.count, 4u);
  EXPECT_EQ(tool.rank, 0u);
  EXPECT_EQ(tool.ttl, absl::Milliseconds(200));
  EXPECT_EQ(tool.repeat, 10);
  EXPECT_EQ(tool.name, "good");
  EXPECT_EQ(tool.offset, -5);
  EXPECT_EQ(tool.form, "json");
  EXPECT_EQ(tool.bytes, uint64_t{1} << 32);
  EXPECT_EQ(tool.priority, 3);
}

TEST(CommandTest, LeavesValuesThatAreNotGiven) {
  Tool tool;
  EXPECT_EQ(tool.root.Parse({"jobs", "run", "x"}).kind, Reading::kAction);
  EXPECT_FALSE(tool.quiet);
  EXPECT_FALSE(tool.timeout.has_value());
  EXPECT_FALSE(tool.rank.has_value());
  EXPECT_EQ(tool.ttl, absl::Hours(1));
  EXPECT_EQ(tool.repeat, 1);
  EXPECT_EQ(tool.priority, 0);
  EXPECT_THAT(tool.outs, IsEmpty());
}

TEST(CommandTest, GivesTheActionOfTheCommandThatWasReached) {
  for (const std::vector<std::string>& args :
       {std::vector<std::string>{"now"}, {"jobs", "ls"}, {"jobs", "run", "now"}}) {
    Tool tool;
    const Reading reading = tool.root.Parse(args);
    ASSERT_EQ(reading.kind, Reading::kAction) << reading.text;
    EXPECT_THAT(tool.done, IsEmpty());
    EXPECT_TRUE(reading.action().ok());
    EXPECT_THAT(tool.done, ElementsAre(args.size() == 3 ? "run" : args.back()));
  }
}

TEST(CommandTest, OptionsOfTheProgramMayFollowACommand) {
  Tool tool;
  EXPECT_EQ(tool.root.Parse({"jobs", "ls", "-q", "--timeout", "2"}).kind, Reading::kAction);
  EXPECT_TRUE(tool.quiet);
  EXPECT_EQ(tool.timeout, absl::Seconds(2));
}

TEST(CommandTest, SaysWhatIsMissing) {
  const std::pair<std::vector<std::string>, std::string> cases[] = {
      {{}, "A subcommand is required"},
      {{"jobs"}, "A subcommand is required"},
      {{"jobs", "run"}, "FILE is required"},
  };
  for (const auto& [args, text] : cases) {
    const Reading reading = Tool().root.Parse(args);
    EXPECT_EQ(reading.kind, Reading::kNotComplete);
    EXPECT_EQ(reading.text, text);
    EXPECT_FALSE(reading.action);
  }
}

TEST(CommandTest, SaysWhatIsWrong) {
  const std::pair<std::vector<std::string>, std::string> cases[] = {
      {{"--repeat", "11"}, "Value 11 not in range 1 to 10"},
      {{"--repeat", "x"}, "not in range"},
      {{"--bytes", "4294967297"}, "not in range 1 to 4294967296"},
      {{"-n", "0"}, "--count: expected a number above 0, got '0'"},
      {{"-n", "few"}, "expected a number above 0, got 'few'"},
      {{"--count", "4294967296"}, "Could not convert"},
      {{"--form", "xml"}, "xml not in {table,json}"},
      {{"--name", "bad"}, "not that one"},
      {{"--ttl", "soon"}, "--ttl: expected a duration such as 30s or 500ms, got 'soon'"},
      {{"--ttl", "0"}, "expected a duration"},
      {{"--ttl", "-1s"}, "expected a duration"},
      {{"--timeout", "soon"}, "--timeout: expected a duration"},
      {{"--priority", "medium"}, "--priority: expected low|high, got 'medium'"},
      {{"--priority", "2"}, "expected low|high, got '2'"},
      {{"--detach", "--out", "a"}, "--out excludes --detach"},
      {{"--repeat", "2", "-d"}, "excludes"},
      {{"--rank"}, "--rank"},
      {{"y"}, "y"},
  };
  for (const auto& [args, text] : cases) {
    std::vector<std::string> line = {"jobs", "run", "x"};
    line.insert(line.end(), args.begin(), args.end());
    const Reading reading = Tool().root.Parse(line);
    EXPECT_EQ(reading.kind, Reading::kNotUnderstood) << text;
    EXPECT_THAT(reading.text, HasSubstr(text));
    EXPECT_FALSE(reading.action);
  }
}

TEST(CommandTest, ARepeatedOptionLeavesTheWordsThatFollow) {
  Tool tool;
  // CLI11 itself keeps only the last words, as many as it still needs.
  EXPECT_EQ(tool.root.Parse({"jobs", "run", "--out", "a", "--out", "b", "x", "-q"}).kind,
            Reading::kAction);
  EXPECT_THAT(tool.outs, ElementsAre("a", "b"));
  EXPECT_EQ(tool.file, "x");
}

TEST(CommandTest, AnswersQuestions) {
  const Reading version = Tool().root.Parse({"--version"});
  EXPECT_EQ(version.kind, Reading::kQuestion);
  EXPECT_EQ(version.text, "tool 1.2\n");

  const Reading help = Tool().root.Parse({"jobs", "run", "--help"});
  EXPECT_EQ(help.kind, Reading::kQuestion);
  EXPECT_THAT(help.text, StartsWith("Run a job\nUsage: tool jobs run [OPTIONS] FILE\n"));
  EXPECT_THAT(help.text, HasSubstr("  --ttl DURATION "));
  EXPECT_THAT(help.text, HasSubstr("  --tag STRING ... "));
  EXPECT_THAT(help.text, HasSubstr("  --out STRING Excludes: --detach\n"));
  EXPECT_THAT(help.text, HasSubstr("  --repeat N:1-10 Excludes: --detach\n"));
  EXPECT_THAT(help.text, HasSubstr("  --bytes N:1-4294967296 "));
  EXPECT_THAT(help.text, HasSubstr("  --priority low|high "));
  EXPECT_THAT(help.text, HasSubstr("  --form table|json "));
  EXPECT_THAT(help.text, HasSubstr("Arguments:\n  FILE (required) "));
  EXPECT_THAT(help.text, HasSubstr("Examples:\n  tool jobs run x"));
}

TEST(CommandTest, AFooterIsOfOneCommandAlone) {
  EXPECT_THAT(Tool().root.Help(), HasSubstr("Exit codes: 0."));
  // It was added after the program got its footer.
  EXPECT_THAT(Tool().root.Parse({"now", "--help"}).text, Not(HasSubstr("Exit codes")));
}

TEST(CommandTest, KnowsWhatIsInIt) {
  const Tool tool;
  EXPECT_EQ(tool.run.name(), "run");
  EXPECT_EQ(tool.run.parent(), &tool.jobs);
  EXPECT_EQ(tool.root.parent(), nullptr);
  EXPECT_EQ(tool.run.Path(), "tool jobs run");
  EXPECT_THAT(tool.jobs.Help(), HasSubstr("Usage: tool jobs "));
  ASSERT_EQ(tool.root.commands().size(), 2u);
  EXPECT_EQ(tool.root.commands()[1]->name(), "now");
  EXPECT_THAT(tool.root.OptionNames(),
              ElementsAre("--help", "-h", "--version", "--quiet", "-q", "--timeout"));
  EXPECT_THAT(tool.root.PositionalNames(), IsEmpty());
  EXPECT_THAT(tool.run.PositionalNames(), ElementsAre("FILE"));
}

TEST(CommandTest, FindsOptionsHereAndAbove) {
  const Tool tool;
  ASSERT_TRUE(tool.run.FindOption("--ttl").has_value());
  EXPECT_TRUE(tool.run.FindOption("--ttl")->TakesValue());
  ASSERT_TRUE(tool.run.FindOption("-q").has_value());
  EXPECT_FALSE(tool.run.FindOption("-q")->TakesValue());
  EXPECT_FALSE(tool.root.FindOption("--ttl").has_value());
}

}  // namespace
}  // namespace pto::ptoctl
