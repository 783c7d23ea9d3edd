#include "client/job/prepared_job.h"

#include <cstdlib>
#include <fstream>
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "client/job/npy.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"

namespace pto::job {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Eight lines; each case below changes one of them.
constexpr char kGood[] = R"({"chips": ["2-3"],
"buffers": [{"name": "a", "dtype": "F32", "shape": [4], "init": {"iota": {}}},
 {"name": "b", "chip": 1, "dtype": "I8", "shape": [2, 2], "init": {"constant": 3}}],
"graph": {"tensors": [{"name": "half", "buffer": "a", "shape": [2], "offset": 2}],
 "tasks": [{"name": "t", "kernel": "copy", "args": ["half", "half"]},
  {"kernel": "copy", "chip": "chips/1", "args": ["b", "b"], "after": ["t"]}]},
"references": [{"name": "r", "op": "SCALE", "inputs": ["a"], "scalar": 2}],
"outputs": [{"tensor": "b"}], "checks": [{"tensor": "a", "reference": "r"}]})";

absl::StatusOr<PreparedJob> Prepare(const std::string& text,
                                    absl::Span<const uint32_t> chips = {}) {
  absl::StatusOr<JobFile> file = ParseJob("f.json", text);
  if (!file.ok()) return file.status();
  return PrepareJob(*std::move(file), chips);
}

TEST(PreparedJobTest, SpellsOutTheGraph) {
  absl::StatusOr<PreparedJob> job = Prepare(kGood);
  ASSERT_THAT(job, testing::IsOk());
  EXPECT_THAT(job->chips, ElementsAre(2, 3));
  EXPECT_EQ(job->buffers[0].chip, 2u);
  EXPECT_EQ(job->buffers[1].chip, 3u);
  EXPECT_EQ(job->buffers[0].initial.Get(3), 3);
  EXPECT_EQ(job->buffers[1].initial.Get(3), 3);
  EXPECT_EQ(job->graph.tasks(0).chip(), "chips/2");
  EXPECT_EQ(job->graph.tasks(1).chip(), "chips/3");
  // The type of `half` comes from its buffer; `b` is used as a tensor, `a` is not used as a whole.
  ASSERT_EQ(job->graph.tensors_size(), 2);
  EXPECT_EQ(job->graph.tensors(0).dtype(), pto::v1::F32);
  EXPECT_EQ(job->graph.tensors(1).name(), "b");
  EXPECT_EQ(job->graph.tensors(1).dtype(), pto::v1::I8);
  EXPECT_THAT(job->graph.tensors(1).shape(), ElementsAre(2, 2));
  EXPECT_THAT(job->references.at("r").values, ElementsAre(0, 2, 4, 6));
  EXPECT_EQ(job->views.at("half").view.size(), 2);
  EXPECT_EQ(job->views.at("a").view.size(), 4);
}

// A job with a kernel that this text describes. The files are in the test's folder.
absl::StatusOr<PreparedJob> PrepareWithKernel(const std::string& kernel) {
  const std::string folder = std::getenv("TEST_TMPDIR");
  std::ofstream(folder + "/k.so") << "an object";
  std::ofstream(folder + "/k.sig") << "in f32[] x";
  const std::string text = absl::StrReplaceAll(
      kGood, {{R"("references")", absl::StrCat(R"("kernels": [)", kernel, R"(], "references")")}});
  absl::StatusOr<JobFile> file = ParseJob(folder + "/f.json", text);
  if (!file.ok()) return file.status();
  return PrepareJob(*std::move(file));
}

TEST(PreparedJobTest, ReadsKernels) {
  const absl::StatusOr<PreparedJob> job = PrepareWithKernel(
      R"({"file": "k.so"}, {"file": "k.so", "id": "k", "signature_file": "k.sig", "entry": "e"},
         {"file": "k.so", "id": "l", "signature": "in i8[] y"})");
  ASSERT_THAT(job, testing::IsOk());
  ASSERT_EQ(job->kernels.size(), 3u);
  EXPECT_EQ(job->kernels[0].file, absl::StrCat(std::getenv("TEST_TMPDIR"), "/k.so"));
  EXPECT_EQ(job->kernels[0].id, "");
  EXPECT_EQ(job->kernels[1].id, "k");
  EXPECT_EQ(job->kernels[1].signature, "in f32[] x");
  EXPECT_EQ(job->kernels[1].entry, "e");
  EXPECT_EQ(job->kernels[2].signature, "in i8[] y");
}

TEST(PreparedJobTest, NamesWhatIsWrongWithKernels) {
  const std::tuple<const char*, const char*> cases[] = {
      {R"({"id": "k"})", "expected the path of an object"},
      {R"({"file": "none.so"})", "there is no file"},
      {R"({"file": "."})", "is no file"},
      {R"({"file": "k.so", "id": "k"}, {"file": "k.so", "id": "k"})", "duplicate kernel 'k'"},
      {R"({"file": "k.so", "signature": "x", "signature_file": "k.sig"})", "not both"},
      {R"({"file": "k.so", "signature_file": "none.sig"})", "there is no file"},
      {R"({"file": "k.so", "name": "k"})", "unknown name"},
  };
  for (const auto& [kernel, message] : cases) {
    const absl::StatusOr<PreparedJob> job = PrepareWithKernel(kernel);
    EXPECT_THAT(job, testing::HasReason(reason::kJobInvalid)) << kernel;
    EXPECT_THAT(std::string(job.status().message()), HasSubstr(message));
    EXPECT_THAT(std::string(job.status().message()), HasSubstr("f.json:7:"));
  }
}

TEST(PreparedJobTest, MovesToOtherChips) {
  absl::StatusOr<PreparedJob> job = Prepare(kGood, {7, 7});
  ASSERT_THAT(job, testing::IsOk());
  EXPECT_EQ(job->graph.tasks(1).chip(), "chips/7");
  EXPECT_THAT(std::string(Prepare(kGood, {7}).status().message()),
              HasSubstr("f.json:1:2: the job uses 2 chips, but 7 has only 1"));
}

TEST(PreparedJobTest, SaysWhereTheJobIsWrong) {
  struct Case {
    const char* from;
    const char* to;
    const char* field;
    const char* message;
  };
  const Case cases[] = {
      {"\"2-3\"", "\"3-2\"", "chips[0]",
       "f.json:1:12: chip list '3-2': the range 3-2 is descending"},
      {"\"name\": \"a\"", "\"name\": \"A\"", "buffers[0].name",
       "f.json:2:14: expected 1 to 63 characters from"},
      {"\"name\": \"b\"", "\"name\": \"a\"", "buffers[1].name", "f.json:3:3: duplicate buffer 'a'"},
      {"\"chip\": 1", "\"chip\": 2", "buffers[1].chip",
       "f.json:3:16: the job has 2 chips; expected a position from 0 to 1, got 2"},
      {"\"dtype\": \"I8\", ", "", "buffers[1].dtype", "f.json:3:2: expected an element type"},
      {"[2, 2]", "[2, 0]", "buffers[1].shape[1]", "f.json:3:55: expected 1 or more, got 0"},
      {"[2, 2]", "[1,1,1,1,1,1]", "buffers[1].shape", "expected at most 5 dimensions, got 6"},
      {"[2, 2]", "[99999999, 99999999]", "buffers[1].shape", "exceed 8 GiB"},
      {"\"constant\": 3", "\"constant\": 300", "buffers[1].init.constant",
       "300 cannot be stored as I8"},
      {"\"constant\": 3", "\"inline\": {\"values\": [1, 2, 3]}", "buffers[1].init.inline.values",
       "expected 4 values for the shape 2x2, got 3"},
      {"\"constant\": 3", "\"inline\": {\"values\": [1, 2, 3, 0.5]}",
       "buffers[1].init.inline.values[3]", "0.5 cannot be stored as I8"},
      {"\"constant\": 3", "\"zeros\": false", "buffers[1].init.zeros", "expected true"},
      {"\"constant\": 3", "\"npy\": \"no.npy\"", "buffers[1].init.npy", "no.npy: cannot read file"},
      {"\"constant\": 3", "\"iota\": {\"start\": 125}", "buffers[1].init.iota",
       "128 cannot be stored as I8"},
      {"\"constant\": 3", "\"random\": {\"low\": 5, \"high\": 5}", "buffers[1].init.random.high",
       "expected a value above low (5), got 5"},
      {"{\"constant\": 3}", "{}", "buffers[1].init", "expected one of zeros, constant, iota"},
      {"\"buffer\": \"a\"", "\"buffer\": \"aa\"", "graph.tensors[0].buffer",
       "f.json:4:40: there is no buffer 'aa'; did you mean 'a'?"},
      {"\"buffer\": \"a\", ", "", "graph.tensors[0].name", "there is no buffer 'half'"},
      {"\"offset\": 2", "\"offset\": 3", "graph.tensors[0]",
       "extends beyond its buffer, which has space for 4 F32 elements"},
      {"\"offset\": 2", "\"offset\": -1", "graph.tensors[0].offset", "expected 0 or more, got -1"},
      {"\"offset\": 2", "\"strides\": [0]", "graph.tensors[0].strides[0]", "expected 1 or more"},
      {"\"offset\": 2", "\"strides\": [9223372036854775807]", "graph.tensors[0]", "extends beyond"},
      {"\"offset\": 2", "\"strides\": [1, 1]", "graph.tensors[0].strides",
       "expected one for each of 1 dimensions, got 2"},
      {"\"kernel\": \"copy\", \"args\"", "\"args\"", "graph.tasks[0].kernel",
       "f.json:5:12: expected a kernel name"},
      {"\"args\": [\"half\"", "\"args\": [\"hafl\"", "graph.tasks[0].args[0]",
       "f.json:5:53: there is no tensor or buffer 'hafl'"},
      {"\"chips/1\"", "\"1\"", "graph.tasks[1].chip",
       "expected a chip name, for example chips/0, got '1'"},
      {"\"chips/1\"", "\"chips/2\"", "graph.tasks[1].chip", "expected a position from 0 to 1"},
      {"\"chips/1\"", "\"chips/0\"", "graph.tasks[1].args[0]",
       "'b' is on chip position 1, but the task is on 0; a task can use only buffers of its own "
       "chip"},
      {"\"after\": [\"t\"]", "\"after\": [\"u\"]", "graph.tasks[1].after[0]",
       "there is no earlier task 'u'; did you mean 't'?"},
      {"\"after\": [\"t\"]", "\"after\": [\"0\"]", "graph.tasks[1].after[0]",
       "no earlier task '0'"},
      {"{\"kernel\": \"copy\", \"chip\"", "{\"kernel\": \"copy\", \"name\": \"t\", \"chip\"",
       "graph.tasks[1].name", "duplicate task 't'"},
      {"\"SCALE\"", "\"ADD\"", "references[0].inputs", "ADD takes 2 inputs, got 1"},
      {"\"inputs\": [\"a\"]", "\"inputs\": [\"r\"]", "references[0].inputs[0]",
       "there is no buffer or earlier reference 'r'"},
      {"\"name\": \"r\"", "\"name\": \"b\"", "references[0].name", "'b' is already used"},
      {"\"op\": \"SCALE\", ", "", "references[0].op", "expected an operation"},
      {"\"outputs\": [{\"tensor\": \"b\"}]", "\"outputs\": [{\"tensor\": \"c\"}]",
       "outputs[0].tensor", "there is no tensor or buffer 'c'"},
      {"\"reference\": \"r\"", "\"reference\": \"rr\"", "checks[0].reference",
       "there is no reference 'rr'; did you mean 'r'?"},
      {"\"tensor\": \"a\", \"reference\"", "\"tensor\": \"half\", \"reference\"",
       "checks[0].reference", "expected 2 elements to compare with 'half', got 4"},
      {"\"reference\": \"r\"", "\"equals\": \"half\"", "checks[0].equals",
       "expected 4 elements to compare with 'a', got 2"},
      {", \"reference\": \"r\"", "", "checks[0]", "expected one of values, equals, reference"},
      {"\"reference\": \"r\"", "\"replay\": false", "checks[0].replay", "expected true"},
      {"\"reference\": \"r\"", "\"replay\": true, \"tolerance\": {\"absolute\": -1}",
       "checks[0].tolerance", "non-negative"},
      {"\"reference\": \"r\"", "\"values\": {\"inline\": {\"values\": [1]}}",
       "checks[0].values.inline.values", "expected 4 values for the shape 4, got 1"},
  };
  for (const Case& bad : cases) {
    const std::string text = absl::StrReplaceAll(kGood, {{bad.from, bad.to}});
    ASSERT_NE(text, kGood) << bad.from;
    const absl::Status status = Prepare(text).status();
    EXPECT_THAT(status, testing::HasReason(reason::kJobInvalid)) << bad.to;
    EXPECT_THAT(std::string(status.message()), HasSubstr(bad.message));
    EXPECT_THAT(std::string(status.message()), HasSubstr("f.json:"));
    ASSERT_FALSE(status.ok()) << bad.to;
    EXPECT_EQ(GetErrorDetail(status)->field, bad.field) << bad.to;
  }
}

// Members, predicates, and tasks that can access all chips.
constexpr char kDetails[] = R"({"chips": ["2-3"],
"buffers": [{"name": "a", "dtype": "F32"}, {"name": "b", "chip": 1, "dtype": "F32"},
 {"name": "flag", "chip": 1, "dtype": "I32"}],
"graph": {"tasks": [
 {"kernel": "fill", "scalars": [{"i64": 1}], "members": [{"args": ["b"]}, {"chip": "chips/0", "args": ["a"]}]},
 {"kernel": "copy_async", "args": ["b", "a"], "predicate": {"tensor": "flag", "compare": "EQ"}},
 {"kernel": "join"}]}})";

TEST(PreparedJobTest, PlacesMembersAndPredicates) {
  absl::StatusOr<PreparedJob> job = Prepare(kDetails);
  ASSERT_THAT(job, testing::IsOk());
  EXPECT_EQ(job->graph.tasks(0).chip(), "");
  EXPECT_EQ(job->graph.tasks(0).members(0).chip(), "chips/3");
  EXPECT_EQ(job->graph.tasks(0).members(1).chip(), "chips/2");
  EXPECT_EQ(job->graph.tasks(1).chip(), "chips/3");
  EXPECT_EQ(job->graph.tasks(2).chip(), "chips/2");
  // All three buffers are used as tensors.
  ASSERT_EQ(job->graph.tensors_size(), 3);
  EXPECT_EQ(job->graph.tensors(2).name(), "flag");
}

TEST(PreparedJobTest, SaysWhereDetailsAreWrong) {
  const std::tuple<const char*, const char*, const char*, const char*> cases[] = {
      {"\"chips/0\"", "\"chips/9\"", "graph.tasks[0].members[1].chip", "expected a position"},
      {"\"chips/0\"", "\"chips/1\"", "graph.tasks[0].members[1].args[0]", "of its own chip"},
      {"[\"a\"]}]", "[\"x\"]}]", "graph.tasks[0].members[1].args[0]", "no tensor or buffer 'x'"},
      {"\"members\"", "\"args\": [\"a\"], \"members\"", "graph.tasks[0].args", "with members"},
      {"\"members\"", "\"chip\": \"chips/0\", \"members\"", "graph.tasks[0].chip", "with members"},
      {"\"tensor\": \"flag\"", "\"tensor\": \"flog\"", "graph.tasks[1].predicate.tensor",
       "did you mean 'flag'?"},
      {"\"EQ\"", "\"SAME\"", "", "expected one of EQ, NE, GT, GE, LT, LE"},
  };
  for (const auto& [from, to, field, message] : cases) {
    const std::string text = absl::StrReplaceAll(kDetails, {{from, to}});
    ASSERT_NE(text, kDetails) << from;
    const absl::Status status = Prepare(text).status();
    ASSERT_THAT(status, testing::HasReason(reason::kJobInvalid)) << to;
    EXPECT_EQ(GetErrorDetail(status)->field, field) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  }
}

// Requests of a small file that no machine can fulfil.
TEST(PreparedJobTest, RefusesWhatWouldNotFitInMemory) {
  const absl::Status view = Prepare(R"({"buffers": [{"name": "a", "dtype": "F32", "shape": [1000]}],
"graph": {"tensors": [{"name": "v", "buffer": "a", "shape": [200, 200, 200, 200, 200],
  "strides": [1, 1, 1, 1, 1]}], "tasks": [{"kernel": "noop"}]},
"checks": [{"tensor": "v", "values": {"zeros": true}}]})")
                                .status();
  EXPECT_THAT(view, testing::HasReason(reason::kJobInvalid));
  EXPECT_THAT(std::string(view.message()),
              HasSubstr("a tensor of shape 200x200x200x200x200 exceeds 8 GiB"));
  const absl::Status product =
      Prepare(R"({"buffers": [{"name": "a", "dtype": "I8", "shape": [100000, 1]},
 {"name": "b", "dtype": "I8", "shape": [1, 100000]}], "graph": {"tasks": [{"kernel": "noop"}]},
"references": [{"name": "p", "op": "MATMUL", "inputs": ["a", "b"]}]})")
          .status();
  EXPECT_THAT(product, testing::HasReason(reason::kJobInvalid));
  EXPECT_THAT(std::string(product.message()),
              HasSubstr("the product of 100000x1 and 1x100000 has more than 1073741824 elements"));
}

TEST(PreparedJobTest, WantsATask) {
  EXPECT_THAT(std::string(Prepare("{}").status().message()),
              HasSubstr("f.json:1:1: expected at least one task"));
}

TEST(PreparedJobTest, RefusesToReplayWhatItDoesNotKnow) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"kernel": "fail", "scalars": [{"i64": 1}]})", "does not implement kernel 'fail'"},
      {R"({"kernel": "copy", "args": ["a"]})", "copy takes 2 arguments, got 1"},
      {R"({"kernel": "fill", "args": ["a"]})", "fill takes 1 scalars, got 0"},
      {R"({"kernel": "fill", "args": ["a"], "scalars": [{"ref": "x"}]})", "expected f64, i64, or"},
      {R"({"kernel": "copy", "args": ["a", "b"]})", "expected arguments of the same size"},
      {R"({"kernel": "matmul", "args": ["a", "a", "a"]})", "expected matrices of M x K"},
      {R"({"kernel": "reduce_sum", "args": ["a", "a"]})", "expected one element for the result"},
      {R"({"kernel": "noop", "launch": {"core": "MIX", "vector_kernels": ["noop"]}})",
       "does not implement vector_kernels"},
      {R"({"kernel": "noop", "predicate": {"tensor": "a", "compare": "EQ"}})",
       "expected one element, got 4"},
      {R"({"kernel": "notify", "args": ["a"], "scalars": [{"op": "ADD"}, {"i64": 1}]})",
       "expected one element for the signal"},
      {R"({"kernel": "fill", "scalars": [{"i64": 1}], "members": [{"args": ["a", "a"]}]})",
       "fill takes 1 arguments, got 2"},
  };
  for (const auto& [task, message] : cases) {
    const absl::Status status =
        Prepare(absl::StrCat(
                    R"({"buffers": [{"name": "a", "dtype": "F32", "shape": [4]},
                                    {"name": "b", "dtype": "F32", "shape": [5]}],
                        "checks": [{"tensor": "a", "replay": true}], "graph": {"tasks": [)",
                    task, "]}}"))
            .status();
    EXPECT_THAT(status, testing::HasReason(reason::kJobInvalid)) << task;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  }
}

TEST(PreparedJobTest, TakesTypeAndShapeFromNpy) {
  const std::string folder = std::getenv("TEST_TMPDIR");
  Array array = MakeArray(pto::v1::I16, {3, 2});
  array.Set(5, -7);
  ASSERT_THAT(WriteNpy(folder + "/in.npy", array), testing::IsOk());
  const std::string text = R"({"buffers": [{"name": "a", "init": {"npy": "in.npy"}},
      {"name": "b", "dtype": "F64", "shape": [6], "init": {"npy": "in.npy"}}],
      "graph": {"tasks": [{"kernel": "noop"}]}})";
  absl::StatusOr<JobFile> file = ParseJob(folder + "/f.json", text);
  ASSERT_THAT(file, testing::IsOk());
  absl::StatusOr<PreparedJob> job = PrepareJob(*std::move(file));
  ASSERT_THAT(job, testing::IsOk());
  EXPECT_EQ(job->buffers[0].initial.dtype, pto::v1::I16);
  EXPECT_THAT(job->buffers[0].initial.shape, ElementsAre(3, 2));
  EXPECT_EQ(job->buffers[0].initial.Get(5), -7);
  EXPECT_EQ(job->buffers[1].initial.dtype, pto::v1::F64);
  EXPECT_EQ(job->buffers[1].initial.Get(5), -7);
}

TEST(PreparedJobTest, RandomNumbersAreReproducible) {
  absl::StatusOr<PreparedJob> job = Prepare(R"({"buffers": [
      {"name": "a", "dtype": "F64", "shape": [1000], "init": {"random": {"seed": 1}}},
      {"name": "b", "dtype": "F64", "shape": [1000], "init": {"random": {"seed": 1}}},
      {"name": "c", "dtype": "F64", "shape": [1000], "init": {"random": {"seed": 2}}},
      {"name": "d", "dtype": "I32", "shape": [1000], "init": {"random": {"low": -2, "high": 3}}}],
      "graph": {"tasks": [{"kernel": "noop"}]}})");
  ASSERT_THAT(job, testing::IsOk());
  EXPECT_EQ(job->buffers[0].initial.bytes, job->buffers[1].initial.bytes);
  EXPECT_NE(job->buffers[0].initial.bytes, job->buffers[2].initial.bytes);
  // The generator is part of the job file format.
  EXPECT_DOUBLE_EQ(job->buffers[0].initial.Get(0), 0.5665615751722809);
  int seen[5] = {};
  for (int i = 0; i < 1000; ++i) {
    EXPECT_GE(job->buffers[0].initial.Get(i), 0);
    EXPECT_LT(job->buffers[0].initial.Get(i), 1);
    const int value = static_cast<int>(job->buffers[3].initial.Get(i));
    ASSERT_GE(value, -2);
    ASSERT_LE(value, 2);
    ++seen[value + 2];
  }
  for (int count : seen) EXPECT_GT(count, 100);
}

}  // namespace
}  // namespace pto::job
