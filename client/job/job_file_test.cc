#include "client/job/job_file.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"

namespace pto::job {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

struct Malformed {
  const char* text;
  // The beginning of the message.
  const char* message;
};

TEST(JobFileTest, ReadsJson) {
  absl::StatusOr<JobFile> file = ParseJob("dir/a.json", R"({
  "chips": ["0-3"],
  "buffers": [
    {"name": "a", "dtype": "F32", "shape": [4, "8"], "init": {"iota": {"step": 0.5}}}
  ],
  "graph": {
    "tasks": [{"kernel": "noop", "launch": {"blockNum": 2}}]
  },
  "options": {"timeout": "1.5s", "labels": {"x": "y"}},
  "checks": null
})");
  ASSERT_THAT(file, testing::IsOk());
  EXPECT_EQ(file->job.buffers(0).shape(1), 8);
  EXPECT_EQ(file->job.graph().tasks(0).launch().block_num(), 2u);
  EXPECT_EQ(file->job.options().timeout().nanos(), 500000000);
  EXPECT_EQ(file->places.Where("buffers[0].shape[1]"), "dir/a.json:4:48");
  EXPECT_EQ(file->places.Where("graph.tasks[0].launch.block_num"), "dir/a.json:7:45");
  // For a path that is not in the file, the nearest parent is used.
  EXPECT_EQ(file->places.Where("graph.tasks[0].chip"), "dir/a.json:7:15");
  EXPECT_EQ(file->places.Where("graph.tasks[7].chip"), "dir/a.json:7:5");
  EXPECT_EQ(file->places.Where("outputs[0]"), "dir/a.json:1:1");
}

TEST(JobFileTest, ReadsTextProtobuf) {
  absl::StatusOr<JobFile> file = ParseJob("a.txtpb", R"(# A comment.
chips: "0"
buffers {
  name: "a"
  shape: [4, 8]
  init { iota { start: 1 } }
}
graph {
  tasks { kernel: "noop" }
  tasks { kernel: "spin" scalars { i64: 5 } }
}
)");
  ASSERT_THAT(file, testing::IsOk());
  EXPECT_EQ(file->job.buffers(0).shape(1), 8);
  EXPECT_EQ(file->places.Where("buffers[0].name"), "a.txtpb:4:3");
  EXPECT_EQ(file->places.Where("graph.tasks[1].scalars[0]"), "a.txtpb:10:26");
}

TEST(JobFileTest, SaysWhereJsonIsMalformed) {
  const Malformed cases[] = {
      {"", "f.json:1:1: expected a value, got the end"},
      {"[]", "f.json:1:1: expected an object, got an array"},
      {"{\n  \"chips\": [\"0\",]\n}", "f.json:2:17: expected a value, got ']'"},
      {"{\n  \"chips\": [\"0\"\n}", "f.json:3:1: expected ',' or ']', got '}'"},
      {"{\n  \"chips\": [\"0\"]\n", "f.json:1:1: this '{' is never closed; expected a '}'"},
      {"{\n  \"chips\": [\n", "f.json:2:12: this '[' is never closed; expected a ']'"},
      {"{\"chips\" [\"0\"]}", "f.json:1:10: expected ':' after \"chips\", got '['"},
      {"{chips: 1}", "f.json:1:2: expected a name in quotes or '}', got 'chips'"},
      {"{\"chips\": [\"0\"],}", "f.json:1:17: expected a name in quotes, got '}'"},
      {"{\"chips\": [\"0\"]} x", "f.json:1:18: expected the end of the file, got 'x'"},
      {"{\"chips\": [\"0\n\"]}", "f.json:1:12: expected '\"' before the end of the line"},
      {"{\"chips\": [\"\\q\"]}", "f.json:1:13: expected one of \" \\ / b f n r t u"},
      {"{\"chips\": [01]}", "f.json:1:13: expected ',' or ']', got '1'"},
      {"{\"chips\": [1.]}", "f.json:1:14: expected a digit after '.', got ']'"},
      {"{\"chips\": [nul]}", "f.json:1:12: expected a value, got 'nul'"},
      {"{\"chips\": [\"0\"], \"chips\": []}", "f.json:1:18: \"chips\" is given twice"},
      {"{\n\"chips\": \"0\"}", "f.json:2:10: expected an array for \"chips\", got a string '0'"},
      {"{\n \"bufers\": []}", "f.json:2:2: unknown name \"bufers\"; expected \"buffers\"?"},
      {"{\"x\": 1}", "f.json:1:2: unknown name \"x\"; expected one of chips, buffers, graph,"},
      {"{\"buffers\": [\n {\"dtype\": \"F33\"}]}",
       "f.json:2:12: expected one of F32, F16, BF16, F64, I8, I16, I32, I64, U8, U16, U32, U64, "
       "BOOL, got a string 'F33'"},
      {"{\"buffers\": [{\"shape\": [1.5]}]}",
       "f.json:1:25: expected an integer, got a number '1.5'"},
      {"{\"buffers\": [{\"shape\": [\"x\"]}]}",
       "f.json:1:25: expected an integer, got a string 'x'"},
      {"{\"buffers\": [{\"chip\": -1}]}",
       "f.json:1:23: expected a non-negative integer, got a number '-1'"},
      {"{\"buffers\": [{\"name\": 5}]}", "f.json:1:23: expected a string, got a number '5'"},
      {"{\"buffers\": [{\"init\": 0}]}", "f.json:1:23: expected an object, got a number '0'"},
      {"{\"buffers\": [{\"init\": {\"zeros\": 1}}]}", "f.json:1:33: expected true or false, got"},
      {"{\"buffers\": [{\"init\": {\"constant\": []}}]}", "f.json:1:36: expected a number, got an"},
      {"{\"options\": {\"timeout\": 3}}", "f.json:1:25: expected a duration such as \"1.5s\""},
      {"{\"options\": {\"labels\": {\"a\": 3}}}", "f.json:1:30: expected a string, got a number"},
      {"{\"buffers\": [{\"shape\": [\"NaN\"]}]}", "f.json:1:25: expected an integer, got a string"},
      // Only protobuf detects these.
      {"{\"buffers\": [\n{\"shape\": [1e400]}]}", "f.json:"},
      {"{\"buffers\": [\n{\"shape\": [1e30]}]}", "f.json:"},
      {"{\"options\":\n {\"timeout\": \"3\"}}", "f.json:2:3: near here: "},
      {"{\"buffers\": [\n{\"chip\": 5000000000}]}", "f.json:2:2: near here: "},
      {"{\"buffers\": [\n{\"init\":\n{\"zeros\": true, \"constant\": 1}}]}", "f.json:"},
  };
  for (const Malformed& bad : cases) {
    const absl::Status status = ParseJob("f.json", bad.text).status();
    EXPECT_THAT(status, testing::HasReason(reason::kJobInvalid)) << bad.text;
    EXPECT_THAT(std::string(status.message()), StartsWith(bad.message)) << bad.text;
  }
}

TEST(JobFileTest, RefusesDeepNesting) {
  const std::string deep = "{\"chips\": " + std::string(100000, '[');
  EXPECT_THAT(std::string(ParseJob("f.json", deep).status().message()), HasSubstr("nested deeper"));
}

TEST(JobFileTest, SaysWhereTextIsMalformed) {
  const Malformed cases[] = {
      {"chips: 5", "f.txtpb:1:8: Expected string, got: 5"},
      {"chips: \"0\"\nbufers {}", "f.txtpb:2:1: unknown name \"bufers\"; expected \"buffers\"?"},
      {"buffers {\n  name: \"a\"\n", "f.txtpb:3:1: "},
      {"buffers {\n  dtype: F33\n}", "f.txtpb:2:10: Unknown enumeration value"},
      {"buffers {\n  shape: 1.5\n}", "f.txtpb:2:10: Expected integer"},
  };
  for (const Malformed& bad : cases) {
    const absl::Status status = ParseJob("f.txtpb", bad.text).status();
    EXPECT_THAT(status, testing::HasReason(reason::kJobInvalid)) << bad.text;
    EXPECT_THAT(std::string(status.message()), StartsWith(bad.message)) << bad.text;
  }
}

TEST(JobFileTest, NamesFilesThatCannotBeRead) {
  EXPECT_EQ(std::string(LoadJobFile("/nowhere/f.json").status().message()),
            "/nowhere/f.json: cannot read file: No such file or directory");
  EXPECT_THAT(std::string(LoadJobFile("/tmp").status().message()),
              HasSubstr("/tmp: cannot read file: Is a directory"));
  EXPECT_EQ(std::string(ParseJob("f.yaml", "").status().message()),
            "f.yaml: expected a file name ending in .json, .txtpb, .textproto or .pbtxt");
}

}  // namespace
}  // namespace pto::job
