#include "daemon/graph/structure.h"

#include <algorithm>
#include <compare>
#include <iterator>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::daemon {
namespace {

constexpr uint32_t kDefaultTasks = 10'000;
constexpr uint32_t kMaxTasks = 100'000;

// The maximum size of a task's columns, excluding its name and successors, and of each successor.
constexpr uint64_t kTaskBytes = 5 + 3 + 5 + 5 + 1 + 5;
constexpr uint64_t kSuccessorBytes = 5;
constexpr uint64_t kMemberBytes = 3;

// The kernels of all parts, without duplicates.
class KernelTable {
 public:
  KernelTable(const GraphParts& parts, v1::GraphStructure* structure) {
    for (const std::shared_ptr<const GraphPart>& part : parts) {
      for (const engine::ImageKernel& kernel : part->image->kernels()) {
        const absl::string_view name = part->image->text(kernel.name);
        if (indices_.emplace(name, static_cast<uint32_t>(indices_.size())).second) {
          structure->add_kernels(std::string(name));
        }
      }
    }
  }

  // The indices of an image's kernels in the table.
  std::vector<uint32_t> Of(const engine::GraphImage& image) const {
    std::vector<uint32_t> places;
    for (const engine::ImageKernel& kernel : image.kernels()) {
      places.push_back(indices_.at(image.text(kernel.name)));
    }
    return places;
  }

 private:
  absl::flat_hash_map<absl::string_view, uint32_t> indices_;  // the keys are the images' names
};

// An edge between parts, given by task numbers in the whole run.
struct OuterEdge {
  uint32_t before = 0;
  uint32_t task = 0;
  auto operator<=>(const OuterEdge&) const = default;
};

// The edges that begin in [first, end), sorted and without duplicates.
std::vector<OuterEdge> OuterEdges(const GraphParts& parts, uint64_t first, uint64_t end) {
  std::vector<OuterEdge> edges;
  for (const std::shared_ptr<const GraphPart>& part : parts) {
    for (const engine::GraphSegment::Link& link : part->links) {
      if (link.before < first || link.before >= end) continue;
      edges.push_back({link.before, part->first_task + link.task});
    }
  }
  std::sort(edges.begin(), edges.end());
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  return edges;
}

uint64_t BytesOf(const engine::GraphImage& image, uint32_t index) {
  const engine::ImageDetail* const detail = image.detail(index);
  return kTaskBytes + image.task_name(index).size() +
         kSuccessorBytes * image.successors(index).size() +
         (detail == nullptr ? 0 : kMemberBytes * detail->member_count);
}

// Adds everything except the kernel and the successors in other parts.
void AddTask(const engine::GraphImage& image, uint32_t index, v1::GraphStructure* structure) {
  const engine::ImageTask& task = image.tasks()[index];
  const engine::ImageDetail* const detail = image.detail(index);
  structure->add_name(std::string(image.task_name(index)));
  structure->add_chip(task.chip);
  structure->add_chip_count(detail == nullptr ? 1 : detail->member_count);
  if (detail != nullptr && detail->member_count > 1) {
    for (const uint32_t chip : image.members(*detail)) structure->add_member_chip(chip);
  }
  structure->add_block_num(task.block_num);
  structure->add_predicated((task.traits & engine::kTaskPredicated) != 0);
  for (const uint32_t next : image.successors(index)) structure->add_next_ahead(next - index);
}

// Omits columns that have only default values.
void DropPlainColumns(v1::GraphStructure* structure) {
  const auto all = [](const auto& column, const auto& plain) {
    return std::all_of(column.begin(), column.end(),
                       [&](const auto& value) { return value == plain; });
  };
  if (all(structure->name(), "")) structure->clear_name();
  if (all(structure->chip_count(), 1u)) structure->clear_chip_count();
  if (all(structure->block_num(), 1u)) structure->clear_block_num();
  if (all(structure->predicated(), false)) structure->clear_predicated();
}

absl::Status CheckPage(uint64_t first_task, uint32_t max_tasks, uint64_t count) {
  if (first_task > count) {
    return Error(reason::kFieldInvalid, absl::StrCat("the graph has ", count, " tasks"))
        .At("first_task")
        .With("have", first_task)
        .With("want", count);
  }
  if (max_tasks > kMaxTasks) {
    return Error(reason::kFieldInvalid,
                 absl::StrCat("at most ", kMaxTasks, " tasks fit a page, not ", max_tasks))
        .At("max_tasks")
        .With("have", max_tasks)
        .With("want", kMaxTasks);
  }
  return absl::OkStatus();
}

// Returns the number of the task after the page.
uint64_t AddPage(const GraphParts& parts, uint64_t first, uint64_t end, uint64_t max_bytes,
                 v1::GraphStructure* structure) {
  structure->set_first_task(first);
  const KernelTable kernels(parts, structure);
  const std::vector<OuterEdge> edges = OuterEdges(parts, first, end);
  auto edge = edges.begin();
  uint64_t bytes = 0;
  uint64_t task = first;
  for (const std::shared_ptr<const GraphPart>& part : parts) {
    if (part->end_task() <= task) continue;
    if (task >= end) break;
    const engine::GraphImage& image = *part->image;
    const std::vector<uint32_t> places = kernels.Of(image);
    for (; task < std::min(end, part->end_task()); ++task) {
      const auto index = static_cast<uint32_t>(task - part->first_task);
      const auto outer_begin = edge;
      while (edge != edges.end() && edge->before == task) ++edge;
      bytes += BytesOf(image, index) +
               kSuccessorBytes * static_cast<uint64_t>(std::distance(outer_begin, edge));
      if (bytes > max_bytes && task > first) {
        DropPlainColumns(structure);
        return task;
      }
      structure->add_kernel(places[image.tasks()[index].kernel]);
      AddTask(image, index, structure);
      // Later parts have higher numbers, so distances still increase.
      for (auto it = outer_begin; it != edge; ++it)
        structure->add_next_ahead(it->task - it->before);
      structure->add_next_count(static_cast<uint32_t>(
          image.successors(index).size() + static_cast<size_t>(std::distance(outer_begin, edge))));
    }
  }
  DropPlainColumns(structure);
  return task;
}

}  // namespace

absl::Status DescribeStructure(const engine::GraphImage& image, const v1::GetGraphRequest& request,
                               v1::GraphStructure* structure, uint64_t max_bytes) {
  const uint64_t count = image.task_count();
  const uint64_t first = request.first_task();
  PTO_RETURN_IF_ERROR(CheckPage(first, request.max_tasks(), count));
  const auto part = std::make_shared<GraphPart>();
  part->image = {std::shared_ptr<void>(), &image};  // owned by the caller
  const uint64_t wanted = request.max_tasks() == 0 ? kDefaultTasks : request.max_tasks();
  AddPage({part}, first, std::min(count, first + wanted), max_bytes, structure);
  return absl::OkStatus();
}

absl::Status DescribeRunGraph(const GraphParts& parts, const v1::GetRunGraphRequest& request,
                              v1::RunGraph* graph, uint64_t max_bytes) {
  const uint64_t count = parts.empty() ? 0 : parts.back()->end_task();
  PTO_RETURN_IF_ERROR(CheckPage(request.first_task(), request.max_tasks(), count));
  graph->set_task_count(count);
  const uint64_t first =
      parts.empty() ? 0 : std::max<uint64_t>(request.first_task(), parts.front()->first_task);
  const uint64_t wanted = request.max_tasks() == 0 ? kDefaultTasks : request.max_tasks();
  const uint64_t end =
      AddPage(parts, first, std::min(count, first + wanted), max_bytes, graph->mutable_structure());
  for (const std::shared_ptr<const GraphPart>& part : parts) {
    if (part->end_task() <= first || part->first_task >= end) continue;
    v1::RunGraph::Block& block = *graph->add_blocks();
    block.set_first_task(part->first_task);
    block.set_submitted_ns(part->submitted_ns);
  }
  return absl::OkStatus();
}

}  // namespace pto::daemon
