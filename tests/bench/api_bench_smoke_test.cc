// A short run of api_bench: it works from end to end, and its output is machine-readable. Speed
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

TEST(ApiBenchTest, PrintsOneObjectPerLine) {
  std::FILE* const out = popen("tests/bench/api_bench --quick --json", "r");
  ASSERT_NE(out, nullptr);
  std::map<std::string, Object> lines;
  char text[4096];
  while (std::fgets(text, sizeof(text), out) != nullptr) {
    Object object;
    ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(text, &object).ok()) << text;
    const auto& fields = object.fields();
    ASSERT_TRUE(fields.contains("name")) << text;
    const std::string name = fields.at("name").string_value();
    EXPECT_GT(fields.at("value").number_value(), 0) << text;
    EXPECT_FALSE(fields.at("unit").string_value().empty()) << text;
    if (fields.contains("against")) {
      EXPECT_GT(fields.at("against_value").number_value(), 0) << text;
      EXPECT_GT(fields.at("ratio").number_value(), 0) << text;
    }
    if (fields.contains("target")) {
      EXPECT_TRUE(fields.contains("against")) << text;
      EXPECT_EQ(fields.at("ok").kind_case(), google::protobuf::Value::kBoolValue) << text;
    }
    EXPECT_TRUE(lines.emplace(name, object).second) << name << " came twice";
  }
  const int status = pclose(out);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;

  for (const char* name :
       {"unary_p50", "launch_stream_p50", "launch_stream_p50_below_unary", "task_events",
        "upload_1mib_chunks", "upload_2mib_chunks", "broker_round_trip", "broker_transfer"}) {
    ASSERT_TRUE(lines.contains(name)) << name;
    EXPECT_TRUE(lines[name].fields().contains("target")) << name;
  }
  for (const char* name : {"unary_p99", "unary_rate_64", "launch_stream_rate_64", "download",
                           "upload_beside_memcpy", "download_beside_memcpy"}) {
    ASSERT_TRUE(lines.contains(name)) << name;
    EXPECT_TRUE(lines[name].fields().contains("against")) << name;
  }
}

}  // namespace
}  // namespace pto::bench
