// A short run of collective_bench without MPI: it works from end to end, and its output is
// machine-readable. Speed does not matter here.

#include <sys/wait.h>

#include <cstdio>
#include <map>
#include <string>

#include "google/protobuf/struct.pb.h"
#include "google/protobuf/util/json_util.h"
#include "gtest/gtest.h"

namespace pto::bench {
namespace {

struct Output {
  std::map<std::string, double> values;
  int exit_code = -1;
};

Output RunBench(const std::string& flags) {
  Output output;
  std::FILE* const out = popen(("tests/bench/collective_bench --json " + flags).c_str(), "r");
  if (out == nullptr) {
    ADD_FAILURE() << "collective_bench was not started";
    return output;
  }
  char text[4096];
  while (std::fgets(text, sizeof(text), out) != nullptr) {
    google::protobuf::Struct object;
    EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(text, &object).ok()) << text;
    const auto& fields = object.fields();
    if (!fields.contains("name") || !fields.contains("value") || !fields.contains("unit")) {
      ADD_FAILURE() << text;
      continue;
    }
    const std::string name = fields.at("name").string_value();
    EXPECT_GT(fields.at("value").number_value(), 0) << text;
    EXPECT_TRUE(output.values.emplace(name, fields.at("value").number_value()).second)
        << name << " came twice";
  }
  const int status = pclose(out);
  if (WIFEXITED(status)) output.exit_code = WEXITSTATUS(status);
  return output;
}

TEST(CollectiveBenchTest, PrintsEveryCollective) {
  const Output output = RunBench("--quick --without-mpi");
  EXPECT_EQ(output.exit_code, 0);
  EXPECT_TRUE(output.values.contains("memcpy_2t_moves"));
  for (const std::string ranks : {"_2", "_4", "_8"}) {
    for (const std::string side : {"_engine", "_comm"}) {
      EXPECT_TRUE(output.values.contains("barrier" + ranks + side)) << ranks << side;
      for (const std::string op :
           {"broadcast", "allreduce", "allgather", "reduce_scatter", "all_to_all"}) {
        for (const std::string size : {"_256B", "_64KiB"}) {
          EXPECT_TRUE(output.values.contains(op + size + ranks + side)) << op << size << ranks;
        }
      }
    }
  }
}

TEST(CollectiveBenchTest, MeasuresOnlyWhatIsAskedFor) {
  const Output output = RunBench("--quick --without-mpi --only=barrier");
  EXPECT_EQ(output.exit_code, 0);
  EXPECT_TRUE(output.values.contains("barrier_8_comm"));
  for (const auto& [name, value] : output.values) {
    EXPECT_EQ(name.find("allreduce"), std::string::npos) << name;
  }
}

TEST(CollectiveBenchTest, RefusesWhatItDoesNotKnow) {
  EXPECT_EQ(RunBench("--only=allsum").exit_code, 2);
}

}  // namespace
}  // namespace pto::bench
