#include "tests/fuzz/image_check.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "runtime/base/log.h"
#include "runtime/graph/domain_scalars.h"
#include "runtime/graph/layout.h"

namespace pto::fuzz {
namespace {

class Checker {
 public:
  Checker(const engine::GraphImage& image, const engine::GraphTarget& target)
      : image_(image), target_(target), count_(image.task_count()) {}

  void Run() {
    PTO_CHECK(count_ > 0, "a graph has tasks");
    PTO_CHECK(image_.tasks().size() == size_t{count_} + 1, "one record more than tasks");
    PTO_CHECK(image_.slot_uses().size() == image_.slots().size(), "what is done with each slot");
    CheckEdges();
    CheckChips();
    for (const engine::ImageTensor& tensor : image_.tensors()) {
      PTO_CHECK(tensor.slot < image_.slots().size(), "a tensor's slot");
      PTO_CHECK(tensor.layout < image_.layouts().size(), "a tensor's layout");
    }
    for (uint32_t task = 0; task < count_; ++task) CheckTask(task);
    for (const engine::ImageSlot& slot : image_.slots()) CheckSlot(slot);
    for (const engine::ImageScalar& scalar : image_.scalar_names()) Read(image_.text(scalar.name));
    for (const engine::DomainUser& user : engine::FindDomainUsers(image_)) {
      PTO_CHECK(engine::IsDomain(image_.scalar_names()[user.scalar]), "a domain");
      PTO_CHECK(user.chip < target_.chip_clusters.size(), "a chip");
    }
  }

 private:
  // A sanitizer detects whether the memory belongs to the image.
  void Read(absl::string_view text) {
    for (const char c : text) text_sum_ += static_cast<uint8_t>(c);
  }

  void CheckEdges() const {
    std::vector<uint32_t> dependencies(count_);
    PTO_CHECK(image_.tasks()[0].first_successor == 0, "the first task's successors are first");
    PTO_CHECK(image_.tasks()[count_].first_successor == image_.edge_count(), "all are somebody's");
    for (uint32_t task = 0; task < count_; ++task) {
      PTO_CHECK(image_.tasks()[task].first_successor <= image_.tasks()[task + 1].first_successor,
                "successors in order of their tasks");
      for (const uint32_t next : image_.successors(task)) {
        PTO_CHECK(next > task && next < count_, "a successor is a later task");
        ++dependencies[next];
      }
    }
    std::vector<uint32_t> roots;
    for (uint32_t task = 0; task < count_; ++task) {
      PTO_CHECK(image_.tasks()[task].dependencies == dependencies[task], "dependencies are edges");
      if (dependencies[task] == 0) roots.push_back(task);
    }
    PTO_CHECK(std::equal(roots.begin(), roots.end(), image_.roots().begin(), image_.roots().end()),
              "roots depend on nothing");
  }

  void CheckChips() const {
    PTO_CHECK(!image_.chips().empty(), "a graph is somewhere");
    PTO_CHECK(std::is_sorted(image_.chips().begin(), image_.chips().end()), "chips rise");
    for (size_t i = 0; i < image_.chips().size(); ++i) {
      PTO_CHECK(image_.chips()[i] < target_.chip_clusters.size(), "a chip of the node");
      PTO_CHECK(image_.place_of_chip(image_.chips()[i]) == i, "a chip's place");
    }
  }

  bool UsesChip(uint32_t chip) const {
    return std::binary_search(image_.chips().begin(), image_.chips().end(), chip);
  }

  void CheckTask(uint32_t task) {
    const engine::ImageTask& record = image_.tasks()[task];
    PTO_CHECK(record.kernel < image_.kernels().size(), "a task's kernel");
    PTO_CHECK(image_.text(image_.kernels()[record.kernel].name) == image_.kernel(task).name,
              "a kernel's name");
    PTO_CHECK(record.core >= PTO_AIC && record.core <= PTO_MIX, "a kind of core");
    PTO_CHECK(record.block_num > 0, "a task has blocks");
    PTO_CHECK(UsesChip(record.chip), "a task's chip is one of the graph's");
    Read(image_.task_name(task));
    const engine::ImageDetail* const detail = image_.detail(task);
    const uint32_t members = detail == nullptr ? 1 : detail->member_count;
    PTO_CHECK(members > 0, "a task has a member");
    for (uint32_t member = 0; member < members; ++member) {
      const absl::Span<const uint32_t> args = image_.args(task, member);
      PTO_CHECK(args.size() == image_.kernel(task).argument_count, "as many as the kernel takes");
      for (const uint32_t arg : args) CheckArg(arg);
    }
    const absl::Span<const uint32_t> scalars = image_.scalar_refs(task);
    PTO_CHECK(scalars.size() == image_.kernel(task).scalar_count, "as many as the kernel takes");
    for (const uint32_t scalar : scalars) {
      PTO_CHECK(scalar < image_.scalar_values().size(), "a task's scalar");
    }
    if (detail != nullptr) CheckDetail(*detail, task);
  }

  void CheckArg(uint32_t arg) const {
    PTO_CHECK(arg < image_.tensors().size(), "a task's tensor");
    const engine::ImageTensor& tensor = image_.tensors()[arg];
    const absl::StatusOr<uint64_t> bytes =
        engine::BytesNeeded(image_.layouts()[tensor.layout], tensor.offset);
    PTO_CHECK(bytes.ok(), "a tensor that can be");
    PTO_CHECK(*bytes <= image_.slots()[tensor.slot].min_bytes, "a slot has room for its tensors");
    PTO_CHECK(image_.slots()[tensor.slot].chip != engine::ImageSlot::kUnused,
              "a slot that is used");
  }

  void CheckDetail(const engine::ImageDetail& detail, uint32_t task) const {
    PTO_CHECK(detail.task == task, "a task's own detail");
    if (detail.member_count > 1) {
      for (const uint32_t chip : image_.members(detail)) {
        PTO_CHECK(UsesChip(chip), "a member's chip is one of the graph's");
      }
    }
    for (const uint32_t kernel : detail.vector_kernels) {
      PTO_CHECK(kernel == engine::ImageDetail::kNone || kernel < image_.kernels().size(),
                "a vector core's kernel");
    }
    const bool predicated = (image_.tasks()[task].traits & engine::kTaskPredicated) != 0;
    PTO_CHECK(predicated == (detail.predicate_tensor != engine::ImageDetail::kNone), "a predicate");
    if (predicated) {
      CheckArg(detail.predicate_tensor);
      PTO_CHECK(detail.predicate_compare >= PTO_EQ && detail.predicate_compare <= PTO_LE,
                "a comparison");
    }
    PTO_CHECK(detail.timeout_ns >= 0, "a time");
  }

  void CheckSlot(const engine::ImageSlot& slot) {
    Read(image_.text(slot.name));
    if (slot.chip == engine::ImageSlot::kUnused || slot.chip == engine::ImageSlot::kAnyChip) return;
    PTO_CHECK(slot.chip < target_.chip_clusters.size(), "a slot's chip");
    if (slot.min_bytes > 0) {
      PTO_CHECK(slot.largest_tensor < image_.tensors().size(), "a slot's largest tensor");
    }
  }

  const engine::GraphImage& image_;
  const engine::GraphTarget& target_;
  const uint32_t count_;
  uint32_t text_sum_ = 0;
};

}  // namespace

void CheckImage(const engine::GraphImage& image, const engine::GraphTarget& target) {
  Checker(image, target).Run();
}

}  // namespace pto::fuzz
