#include "client/ptoctl/dot.h"

#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace pto::ptoctl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;

// Parses the subset of the language that dot.cc writes.
struct Drawing {
  std::string name;
  std::map<std::string, std::string> nodes;     // attributes
  std::map<std::string, std::string> clusters;  // of the nodes
  std::set<std::pair<std::string, std::string>> edges;
};

Drawing Parse(const std::string& dot) {
  static const std::regex kBegin(R"re(digraph "((?:[^"\\]|\\.)*)" \{)re");
  static const std::regex kCluster(R"(  subgraph (cluster_\w+) \{)");
  static const std::regex kLabel(R"re(    label="[^"]*";)re");
  static const std::regex kNode(R"re( +(\w+) \[((?:\w+=(?:"(?:[^"\\]|\\.)*"|\w+)(?:, )?)+)\];)re");
  static const std::regex kEdge(R"(  (\w+) -> (\w+);)");
  static const std::regex kSetting(R"(  rankdir=TB;)");
  Drawing drawing;
  std::string cluster, line;
  int depth = 0;
  std::istringstream lines(dot);
  while (std::getline(lines, line)) {
    std::smatch match;
    if (std::regex_match(line, match, kBegin)) {
      drawing.name = match[1];
      ++depth;
    } else if (std::regex_match(line, match, kCluster)) {
      cluster = match[1];
      ++depth;
    } else if (line == "  }" || line == "}") {
      cluster.clear();
      --depth;
    } else if (std::regex_match(line, match, kEdge)) {
      EXPECT_TRUE(drawing.edges.emplace(match[1], match[2]).second) << line;
    } else if (std::regex_match(line, match, kNode)) {
      if (match[1] == "node") continue;  // applies to all nodes
      EXPECT_TRUE(drawing.nodes.emplace(match[1], match[2]).second) << line;
      if (!cluster.empty()) drawing.clusters[match[1]] = cluster;
    } else {
      EXPECT_TRUE(std::regex_match(line, kLabel) || std::regex_match(line, kSetting)) << line;
    }
  }
  EXPECT_EQ(depth, 0);
  for (const auto& [from, to] : drawing.edges) {
    EXPECT_TRUE(drawing.nodes.count(from) == 1 && drawing.nodes.count(to) == 1) << from << to;
  }
  return drawing;
}

v1::Graph Graph(const std::string& text) {
  v1::Graph graph;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &graph)) << text;
  return graph;
}

v1::Kernel Kernel(const std::string& name, bool control) {
  v1::Kernel kernel;
  kernel.set_name("kernels/" + name);
  kernel.set_control(control);
  return kernel;
}

TEST(DotTest, DrawsTasksByChip) {
  const v1::Graph graph = Graph(R"(
    name: "sessions/s/graphs/g" task_count: 5
    structure {
      kernels: ["add", "join"]
      kernel: [0, 0, 1, 0, 0] name: ["say \"hi\\\"", "", "", "all", "last"]
      chip: [0, 2, 0, 0, 2] chip_count: [1, 1, 1, 3, 1] block_num: [1, 8, 1, 1, 1]
      predicated: [false, false, false, false, true]
      next_count: [2, 1, 1, 0, 0] next_ahead: [2, 3, 1, 2]
    })");
  const std::string dot = FormatDot(graph, {Kernel("add", false), Kernel("join", true)});
  const Drawing drawing = Parse(dot);
  EXPECT_EQ(drawing.name, "sessions/s/graphs/g");
  EXPECT_EQ(drawing.nodes.size(), 5u);
  EXPECT_THAT(drawing.clusters,
              ElementsAre(Pair("t0", "cluster_chip0"), Pair("t1", "cluster_chip2"),
                          Pair("t4", "cluster_chip2")));
  EXPECT_THAT(drawing.edges,
              ElementsAre(Pair("t0", "t2"), Pair("t0", "t3"), Pair("t1", "t2"), Pair("t2", "t4")));
  EXPECT_THAT(drawing.nodes.at("t0"), HasSubstr(R"(label="say \"hi\\\"\nadd")"));
  EXPECT_THAT(drawing.nodes.at("t1"), HasSubstr(R"(label="1\nadd x8")"));
  EXPECT_THAT(drawing.nodes.at("t2"), HasSubstr("shape=ellipse"));
  EXPECT_THAT(drawing.nodes.at("t3"), HasSubstr("3 chips"));
  EXPECT_THAT(drawing.nodes.at("t3"), HasSubstr("peripheries=2"));
  EXPECT_THAT(drawing.nodes.at("t4"), HasSubstr("dashed"));
  EXPECT_THAT(drawing.nodes.at("t1"), Not(HasSubstr("dashed")));
}

TEST(DotTest, SaysWhatIsMissing) {
  const v1::Graph graph = Graph(R"(
    name: "g" task_count: 10
    structure {
      kernels: "add" kernel: [0, 0] name: ["a", "b"] chip: [0, 0] chip_count: [1, 1]
      block_num: [1, 1] predicated: [false, false] next_count: [2, 1] next_ahead: [1, 5, 8]
    })");
  const Drawing drawing = Parse(FormatDot(graph, {}));
  EXPECT_THAT(drawing.edges, ElementsAre(Pair("t0", "t1")));
  EXPECT_THAT(drawing.nodes.at("more"), HasSubstr("and 8 more tasks"));
}

}  // namespace
}  // namespace pto::ptoctl
