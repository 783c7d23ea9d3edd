// A short run of engine_bench: it works from end to end, and its output is machine-readable. Speed
// does not matter here.

#include <sys/wait.h>

#include <cstdio>
#include <map>
#include <string>

#include "google/protobuf/struct.pb.h"
#include "google/protobuf/util/json_util.h"
#include "gtest/gtest.h"

namespace pto::bench {
namespace {

using Object = google::protobuf::Struct;

struct Output {
  std::map<std::string, Object> lines;
  int exit_code = -1;
};

// Runs the benchmark and checks what holds for every line.
Output RunBench(const std::string& flags) {
  Output output;
  std::FILE* const out = popen(("tests/bench/engine_bench --json " + flags).c_str(), "r");
  if (out == nullptr) {
    ADD_FAILURE() << "engine_bench was not started";
    return output;
  }
  char text[4096];
  while (std::fgets(text, sizeof(text), out) != nullptr) {
    Object object;
    EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(text, &object).ok()) << text;
    const auto& fields = object.fields();
    if (!fields.contains("name") || !fields.contains("value") || !fields.contains("unit")) {
      ADD_FAILURE() << text;
      continue;
    }
    const std::string name = fields.at("name").string_value();
    const bool is_time = fields.at("unit").string_value() != "B/task";
    // Small graphs may fit into memory that is already resident.
    EXPECT_TRUE(fields.at("value").number_value() > 0 || !is_time) << text;
    if (fields.contains("against") && is_time) {
      EXPECT_GT(fields.at("against_value").number_value(), 0) << text;
      EXPECT_GT(fields.at("ratio").number_value(), 0) << text;
    }
    if (fields.contains("target")) {
      EXPECT_TRUE(fields.contains("against")) << text;
      EXPECT_EQ(fields.at("ok").kind_case(), google::protobuf::Value::kBoolValue) << text;
    }
    EXPECT_TRUE(output.lines.emplace(name, object).second) << name << " came twice";
  }
  const int status = pclose(out);
  if (WIFEXITED(status)) output.exit_code = WEXITSTATUS(status);
  return output;
}

TEST(EngineBenchTest, PrintsEveryShape) {
  const Output output = RunBench("--quick");
  EXPECT_EQ(output.exit_code, 0);
  const auto target = [&](const std::string& name) -> double {
    const auto line = output.lines.find(name);
    if (line == output.lines.end()) {
      ADD_FAILURE() << "there is no " << name;
      return -1;
    }
    const auto& fields = line->second.fields();
    return fields.contains("target") ? fields.at("target").number_value() : -1;
  };
  for (const std::string shape : {"chain", "independent", "tree", "wavefront", "random"}) {
    for (const std::string threads : {"1t", "2t"}) {
      for (const std::string size : {"1e3", "1e4"}) {
        const std::string name = shape + "_" + size + "_" + threads;
        EXPECT_EQ(target(name + "_named_build"), -1);
        EXPECT_EQ(target(name + "_named_run"), shape == "chain" ? 1 : 0.4);
        EXPECT_EQ(target(name + "_named_total"), 0.4);
        EXPECT_EQ(target(name + "_named_bytes"), 1);
        EXPECT_EQ(target(name + "_found_total"), -1);
        EXPECT_EQ(target(name + "_found_bytes"), 1);
      }
      EXPECT_EQ(target(shape + "_1e4_" + threads + "_named_growth"), 1.3);
      EXPECT_EQ(target(shape + "_1e4_" + threads + "_found_growth"), 1.3);
    }
    const bool has_graph = shape != "independent" && shape != "tree";
    EXPECT_EQ(target(shape + "_1e3_2t_found_total_beside_openmp"), has_graph ? 0.4 : -1);
    EXPECT_EQ(target(shape + "_1e3_2t_found_total_beside_starpu"), 0.05);
    EXPECT_EQ(target(shape + "_1e3_2t_recorded_run"), -1);
    EXPECT_EQ(target(shape + "_1e4_1t_named_total_beside_bare"), -1);
    EXPECT_EQ(target(shape + "_1e3_1t_relaunch"), 0.05);
  }
}

TEST(EngineBenchTest, MeasuresOnlyWhatIsAskedFor) {
  const Output output = RunBench("--quick --only=openmp/random");
  EXPECT_EQ(output.exit_code, 0);
  EXPECT_TRUE(output.lines.contains("random_1e3_2t_found_total_beside_openmp"));
  for (const auto& [name, line] : output.lines) {
    EXPECT_EQ(name.rfind("random_1e3_2t_", 0), 0) << name;
    EXPECT_EQ(name.find("starpu"), std::string::npos) << name;
  }
}

TEST(EngineBenchTest, RefusesWhatItDoesNotKnow) {
  EXPECT_EQ(RunBench("--only=cilk").exit_code, 2);
  EXPECT_EQ(RunBench("--only=onetbb/circle").exit_code, 2);
}

}  // namespace
}  // namespace pto::bench
