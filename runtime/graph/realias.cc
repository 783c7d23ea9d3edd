#include "runtime/graph/realias.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/dtype.h"
#include "kernels/kernel.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"
#include "runtime/graph/access_map.h"
#include "runtime/graph/big_vector.h"
#include "runtime/graph/image_writer.h"
#include "runtime/graph/task_access.h"
#include "runtime/graph/work_error.h"

namespace pto::engine {
namespace {

// A dependency that the image lacks.
struct Edge {
  uint32_t before;
  uint32_t after;
};

absl::Status TooManyError(uint64_t most, uint64_t have, uint64_t want) {
  return Error(reason::kGraphTooLarge, "the overlap of the slots creates too many dependencies")
      .At("buffers")
      .Limit("max_graph_dependencies", most, have, want)
      .Hint("bind slots to separate memory");
}

// Checks only slots that overlap others; the dependencies within all other slots are known.
class EdgeFinder {
 public:
  EdgeFinder(const GraphImage& image, const SlotPlaces& places, WorkBudget budget)
      : image_(image), accesses_(std::move(budget)) {
    std::vector<bool> shared(places.size());
    for (uint32_t i = 0; i < places.size(); ++i) {
      if (places[i].space != i) shared[i] = shared[places[i].space] = true;
    }
    std::vector<uint32_t> footprints;
    for (const Layout& layout : image.layouts()) {
      footprints.push_back(accesses_.AddFootprint(layout));
    }
    regions_.reserve(image.tensors().size());
    for (const ImageTensor& tensor : image.tensors()) {
      if (!shared[tensor.slot]) {
        regions_.push_back(kNone);
        continue;
      }
      const SlotPlace& place = places[tensor.slot];
      const uint64_t element = kernels::DtypeSize(image.layouts()[tensor.layout].dtype);
      const uint64_t begin = place.offset + static_cast<uint64_t>(tensor.offset) * element;
      regions_.push_back(
          accesses_.AddRegion(place.space, footprints[tensor.layout], static_cast<int64_t>(begin)));
    }
  }

  // Sorted by the waiting task.
  absl::StatusOr<BigVector<Edge>> Find(uint64_t max_dependencies) {
    BigVector<Edge> edges;
    std::vector<uint32_t> found;
    for (uint32_t task = 0; task < image_.task_count(); ++task) {
      uint64_t args = 0;
      ForEachAccess(image_, task, [&](uint32_t tensor, bool writes) {
        ++args;
        if (regions_[tensor] == kNone) return;
        if (writes) {
          accesses_.Write(task, regions_[tensor], found);
        } else {
          accesses_.Read(task, regions_[tensor], found);
        }
      });
      std::sort(found.begin(), found.end());
      found.erase(std::unique(found.begin(), found.end()), found.end());
      for (const uint32_t before : found) {
        const absl::Span<const uint32_t> known = image_.successors(before);
        if (!std::binary_search(known.begin(), known.end(), task)) edges.push_back({before, task});
      }
      WorkBudget& budget = accesses_.budget();
      budget.EarnTask(args, found.size());
      if (!budget.Spend(1)) return WorkError(budget, task, "buffers");
      found.clear();
      if (edges.size() + image_.edge_count() > max_dependencies) {
        return TooManyError(max_dependencies, image_.edge_count(), edges.size());
      }
    }
    return edges;
  }

 private:
  static constexpr uint32_t kNone = 0xffffffff;
  const GraphImage& image_;
  AccessMap accesses_;
  std::vector<uint32_t> regions_;  // of each tensor
};

// The records of a section, for modification.
template <typename T>
absl::Span<const T> Records(const GraphImage& image, const ImageSection& section) {
  return {reinterpret_cast<const T*>(image.data().data() + section.begin), section.count};
}

std::shared_ptr<const GraphImage> WithEdges(const GraphImage& image, const BigVector<Edge>& edges) {
  const uint32_t count = image.task_count();
  BigVector<ImageTask> tasks;
  tasks.append(image.tasks());
  // The new successors of each task, in a row and in increasing order.
  std::vector<uint32_t> ends(size_t{count} + 1);
  for (const Edge& edge : edges) {
    ++ends[edge.before + 1];
    ++tasks[edge.after].dependencies;
  }
  for (uint32_t i = 0; i < count; ++i) ends[i + 1] += ends[i];
  std::vector<uint32_t> added(edges.size());
  for (const Edge& edge : edges) added[ends[edge.before]++] = edge.after;
  // From here on `ends[i]` is the end of the row of task i.

  BigVector<uint32_t> successors;
  successors.resize_uninitialized(image.edge_count() + edges.size());
  BigVector<uint32_t> roots;
  uint32_t* next = successors.data();
  for (uint32_t i = 0; i < count; ++i) {
    tasks[i].first_successor = static_cast<uint32_t>(next - successors.data());
    if (tasks[i].dependencies == 0) roots.push_back(i);
    const absl::Span<const uint32_t> known = image.successors(i);
    next = std::merge(known.begin(), known.end(), added.begin() + (i == 0 ? 0 : ends[i - 1]),
                      added.begin() + ends[i], next);
  }
  tasks[count].first_successor = static_cast<uint32_t>(successors.size());

  const ImageHeader& old = *reinterpret_cast<const ImageHeader*>(image.data().data());
  ImageWriter writer;
  ImageHeader header;
  header.flags = old.flags;
  header.kernels = writer.Add(image.kernels());
  header.slots = writer.Add(image.slots());
  header.slot_uses = writer.Add(image.slot_uses());
  header.layouts = writer.Add(image.layouts());
  header.tensors = writer.Add(image.tensors());
  header.args = writer.Add(Records<uint32_t>(image, old.args));
  header.scalar_names = writer.Add(image.scalar_names());
  header.scalar_values = writer.Add(image.scalar_values());
  header.scalar_refs = writer.Add(Records<uint32_t>(image, old.scalar_refs));
  header.tasks = writer.Add(tasks);
  header.successors = writer.Add(successors);
  header.roots = writer.Add(roots);
  header.chips = writer.Add(image.chips());
  header.task_names = writer.Add(Records<ImageText>(image, old.task_names));
  header.text = writer.Add(Records<char>(image, old.text));
  header.details = writer.Add(image.details());
  header.members = writer.Add(Records<uint32_t>(image, old.members));
  const absl::Span<const std::shared_ptr<const Kernel>> kernels = image.shared_kernels();
  return std::make_shared<const GraphImage>(
      writer.Finish(header),
      std::vector<std::shared_ptr<const Kernel>>(kernels.begin(), kernels.end()));
}

}  // namespace

absl::StatusOr<std::shared_ptr<const GraphImage>> Realias(const GraphImage& image,
                                                          const SlotPlaces& places,
                                                          uint64_t max_dependencies,
                                                          WorkBudget::Cancelled cancelled) {
  EdgeFinder finder(image, places, WorkBudget(std::move(cancelled)));
  PTO_ASSIGN_OR_RETURN(const BigVector<Edge> edges, finder.Find(max_dependencies));
  return WithEdges(image, edges);
}

}  // namespace pto::engine
