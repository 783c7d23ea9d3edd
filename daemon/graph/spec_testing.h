#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "daemon/graph/spec_decoder.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "runtime/graph/graph_testing.h"

// Graphs in text form, for tests of the decoder.
namespace pto::daemon::testing {

inline v1::GraphSpec Parse(const std::string& text) {
  v1::GraphSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec)) << text;
  return spec;
}

inline absl::StatusOr<DecodedGraph> Decode(const std::string& text) {
  return DecodeGraphSpec(Parse(text), "s1", engine::testing::GraphTestTarget());
}

// A valid task, followed by `more`.
inline std::string Nop(const std::string& more = "") {
  return R"(tasks { kernel: "nop" chip: "chips/0" } )" + more;
}

// A valid tensor `x`.
inline constexpr char kX[] = R"(tensors { name: "x" dtype: F32 shape: 4 } )";

inline std::string Task(const std::string& fields) { return kX + Nop("tasks { " + fields + " }"); }

}  // namespace pto::daemon::testing
