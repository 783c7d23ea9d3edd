#include "client/ptoctl/dot.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace pto::ptoctl {
namespace {

// Light enough for black text. Reused cyclically if there are more chips than colours.
constexpr absl::string_view kColours[] = {"#cfe2f3", "#d9ead3", "#fff2cc", "#f4cccc",
                                          "#d9d2e9", "#d0e0e3", "#fce5cd", "#ead1dc"};

// Escapes text for a quoted string.
std::string Escaped(absl::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += absl::ascii_iscntrl(static_cast<unsigned char>(c)) ? ' ' : c;
  }
  return out;
}

class DotWriter {
 public:
  DotWriter(const v1::Graph& graph, absl::Span<const v1::Kernel> kernels)
      : graph_(graph), structure_(graph.structure()) {
    for (const v1::Kernel& kernel : kernels) {
      if (kernel.control()) control_.emplace(absl::StripPrefix(kernel.name(), "kernels/"));
    }
  }

  std::string Write() && {
    absl::StrAppend(&out_, "digraph \"", Escaped(graph_.name()), "\" {\n",
                    "  rankdir=TB;\n  node [shape=box, style=filled, fontname=\"sans-serif\"];\n");
    // Group tasks by chip. Tasks on several chips, or on none, belong to no group.
    std::map<uint32_t, std::vector<int>> chips;
    std::vector<int> alone;
    for (int i = 0; i < structure_.kernel_size(); ++i) {
      (IsControl(i) || structure_.chip_count(i) > 1 ? alone : chips[structure_.chip(i)])
          .push_back(i);
    }
    for (const auto& [chip, tasks] : chips) {
      absl::StrAppend(&out_, "  subgraph cluster_chip", chip, " {\n    label=\"chip ", chip,
                      "\";\n");
      for (const int task : tasks) Node(task, "    ");
      absl::StrAppend(&out_, "  }\n");
    }
    for (const int task : alone) Node(task, "  ");
    Edges();
    const auto shown = static_cast<uint64_t>(structure_.kernel_size());
    if (shown < graph_.task_count()) {
      absl::StrAppend(&out_, "  more [shape=note, fillcolor=white, label=\"and ",
                      graph_.task_count() - shown, " more tasks\"];\n");
    }
    absl::StrAppend(&out_, "}\n");
    return std::move(out_);
  }

 private:
  const std::string& KernelOf(int task) const {
    return structure_.kernels(static_cast<int>(structure_.kernel(task)));
  }
  bool IsControl(int task) const { return control_.contains(KernelOf(task)); }

  void Node(int task, absl::string_view indent) {
    std::string label =
        structure_.name(task).empty() ? absl::StrCat(task) : Escaped(structure_.name(task));
    absl::StrAppend(&label, "\\n", Escaped(KernelOf(task)));
    if (structure_.block_num(task) > 1) absl::StrAppend(&label, " x", structure_.block_num(task));
    const uint32_t chips = structure_.chip_count(task);
    if (chips > 1) absl::StrAppend(&label, "\\n", chips, " chips");
    absl::StrAppend(&out_, indent, "t", task, " [label=\"", label, "\"");
    if (IsControl(task)) {
      absl::StrAppend(&out_, ", shape=ellipse, fillcolor=white");
    } else if (chips > 1) {
      absl::StrAppend(&out_, ", peripheries=2, fillcolor=white");
    } else {
      absl::StrAppend(&out_, ", fillcolor=\"",
                      kColours[structure_.chip(task) % std::size(kColours)], "\"");
    }
    if (structure_.predicated(task)) absl::StrAppend(&out_, ", style=\"filled,dashed\"");
    absl::StrAppend(&out_, "];\n");
  }

  void Edges() {
    int position = 0;
    for (int task = 0; task < structure_.next_count_size(); ++task) {
      for (uint32_t i = 0; i < structure_.next_count(task); ++i) {
        const uint64_t next = static_cast<uint64_t>(task) + structure_.next_ahead(position++);
        if (next >= static_cast<uint64_t>(structure_.kernel_size())) continue;
        absl::StrAppend(&out_, "  t", task, " -> t", next, ";\n");
      }
    }
  }

  const v1::Graph& graph_;
  const v1::GraphStructure& structure_;
  std::set<std::string, std::less<>> control_;
  std::string out_;
};

}  // namespace

std::string FormatDot(const v1::Graph& graph, absl::Span<const v1::Kernel> kernels) {
  return DotWriter(graph, kernels).Write();
}

}  // namespace pto::ptoctl
