#include "runtime/graph/image.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "kernels/domain_scalar.h"

namespace pto::engine {

GraphImage::GraphImage(BigVector<std::byte> bytes,
                       std::vector<std::shared_ptr<const Kernel>> kernels)
    : bytes_(std::move(bytes)),
      owned_kernels_(std::move(kernels)),
      tasks_(Section<ImageTask>(header().tasks)),
      successors_(Section<uint32_t>(header().successors)),
      roots_(Section<uint32_t>(header().roots)),
      chips_(Section<uint32_t>(header().chips)),
      args_(Section<uint32_t>(header().args)),
      scalar_refs_(Section<uint32_t>(header().scalar_refs)),
      members_(Section<uint32_t>(header().members)),
      details_(Section<ImageDetail>(header().details)),
      tensors_(Section<ImageTensor>(header().tensors)),
      layouts_(Section<Layout>(header().layouts)),
      slots_(Section<ImageSlot>(header().slots)),
      slot_uses_(Section<SlotUse>(header().slot_uses)),
      scalar_names_(Section<ImageScalar>(header().scalar_names)),
      scalar_values_(Section<uint64_t>(header().scalar_values)),
      task_names_(Section<ImageText>(header().task_names)),
      text_(Section<char>(header().text)),
      paces_(std::make_unique<std::atomic<Pace>[]>(owned_kernels_.size())) {
  kernels_.reserve(owned_kernels_.size());
  for (const std::shared_ptr<const Kernel>& kernel : owned_kernels_) {
    kernels_.push_back(kernel.get());
    has_lanes_ |= kernel->lane() != nullptr;
  }
  if (!chips_.empty()) place_of_chip_.resize(chips_.back() + 1);
  for (uint32_t i = 0; i < chips_.size(); ++i) place_of_chip_[chips_[i]] = i;
  for (uint32_t i = 0; i < slots_.size(); ++i) slot_by_name_.emplace(text(slots_[i].name), i);
  for (uint32_t i = 0; i < scalar_names_.size(); ++i) {
    // A domain may be called like a scalar of the client, and no launch binds it.
    if (scalar_names_[i].type == kDomainScalar) continue;
    scalar_by_name_.emplace(text(scalar_names_[i].name), i);
  }
  const auto cores = static_cast<uint8_t>(header().flags >> ImageHeader::kCoresShift);
  alike_ = !has_multi_block_tasks() && (traits() & ~kTaskHasDetail) == 0 && chips_.size() == 1 &&
           std::has_single_bit(cores);
}

bool GraphImage::UsesLane(uint32_t task) const {
  if (!has_lanes_ || (tasks_[task].traits & kTaskBlocks) == 0) return false;
  const uint32_t lanes = cluster_lanes(task);
  for (uint32_t i = 0; i < 3; ++i) {
    if ((lanes >> i & 1) != 0 && lane(kernel_index(task, i)) != nullptr) return true;
  }
  return false;
}

const ImageDetail* GraphImage::FindDetail(uint32_t task) const {
  // If all tasks up to this one have details, no search is needed.
  if (task < details_.size() && details_[task].task == task) return &details_[task];
  return std::lower_bound(
      details_.begin(), details_.end(), task,
      [](const ImageDetail& detail, uint32_t wanted) { return detail.task < wanted; });
}

absl::optional<uint32_t> GraphImage::FindSlot(absl::string_view name) const {
  const auto it = slot_by_name_.find(name);
  return it == slot_by_name_.end() ? absl::nullopt : absl::optional<uint32_t>(it->second);
}

absl::optional<uint32_t> GraphImage::FindScalar(absl::string_view name) const {
  const auto it = scalar_by_name_.find(name);
  return it == scalar_by_name_.end() ? absl::nullopt : absl::optional<uint32_t>(it->second);
}

}  // namespace pto::engine
