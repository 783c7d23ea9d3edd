#include "runtime/graph/open_graph.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/dtype.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"
#include "runtime/graph/work_error.h"

namespace pto::engine {
namespace {

absl::Status UnknownError(const Reason& reason, absl::string_view what, uint32_t index,
                          size_t count) {
  return Error(reason, absl::StrCat("there is no ", what, " ", index, ", only ", count))
      .At(what)
      .With("have", count)
      .With("want", index);
}

absl::Status TooManyError(absl::string_view message, uint64_t limit, uint64_t have, uint64_t more) {
  return Error(reason::kGraphTooLarge, message).Limit("max_graph_dependencies", limit, have, more);
}

}  // namespace

OpenGraph::OpenGraph(const GraphTarget& target, const Options& options)
    : target_(target),
      options_(options),
      accesses_(WorkBudget(options.cancelled, target.base_work)),
      segment_(NewSegment()) {}

std::unique_ptr<GraphBuilder> OpenGraph::NewSegment() const {
  // This class finds the dependencies, over all segments.
  return std::make_unique<GraphBuilder>(target_, GraphBuilder::Options{.find_dependencies = false});
}

absl::StatusOr<uint32_t> OpenGraph::AddKernel(absl::string_view name) {
  std::shared_ptr<const Kernel> kernel = target_.kernels->Find(name);
  if (kernel == nullptr) {
    return Error(reason::kKernelUnknown, absl::StrCat("there is no kernel '", name, "'"))
        .At("kernel")
        .With("kernel", name);
  }
  return AddKernel(std::move(kernel));
}

uint32_t OpenGraph::AddKernel(std::shared_ptr<const Kernel> kernel) {
  kernels_.push_back(std::move(kernel));
  kernel_places_.Add();
  return static_cast<uint32_t>(kernels_.size() - 1);
}

uint32_t OpenGraph::AddSlot(absl::string_view name, const SlotMemory& memory) {
  const auto [it, is_new] =
      slot_by_name_.try_emplace(std::string(name), static_cast<uint32_t>(slots_.size()));
  if (is_new) {
    slots_.push_back({std::string(name), memory});
    slot_places_.Add();
  }
  return it->second;
}

absl::StatusOr<uint32_t> OpenGraph::AddLayout(uint32_t dtype, absl::Span<const int64_t> shape,
                                              absl::Span<const int64_t> strides) {
  PTO_ASSIGN_OR_RETURN(const Layout layout, MakeLayout(dtype, shape, strides));
  layouts_.push_back(layout);
  if (options_.find_dependencies) footprints_.push_back(accesses_.AddFootprint(layout));
  layout_places_.Add();
  return static_cast<uint32_t>(layouts_.size() - 1);
}

absl::StatusOr<uint32_t> OpenGraph::AddTensor(uint32_t slot, uint32_t layout, int64_t offset) {
  if (slot >= slots_.size()) {
    return UnknownError(reason::kTensorInvalid, "buffer", slot, slots_.size());
  }
  if (layout >= layouts_.size()) {
    return UnknownError(reason::kTensorInvalid, "layout", layout, layouts_.size());
  }
  PTO_ASSIGN_OR_RETURN(const uint64_t bytes, BytesNeeded(layouts_[layout], offset));
  if (bytes > slots_[slot].memory.bytes) {
    return Error(reason::kTensorOutOfBounds,
                 absl::StrCat("tensor ", tensors_.size(), " needs ", bytes, " bytes of buffer '",
                              slots_[slot].name, "', which has ", slots_[slot].memory.bytes))
        .At("offset")
        .With("buffer", slots_[slot].name)
        .With("tensor", tensors_.size())
        .With("have", slots_[slot].memory.bytes)
        .With("want", bytes);
  }
  tensors_.push_back({slot, layout, offset});
  tensor_places_.Add();
  if (options_.find_dependencies) {
    const auto element = static_cast<int64_t>(kernels::DtypeSize(layouts_[layout].dtype));
    accesses_.AddRegion(slot, footprints_[layout], offset * element);
  }
  return static_cast<uint32_t>(tensors_.size() - 1);
}

uint32_t OpenGraph::AddDomain(absl::string_view name) {
  domains_.emplace_back(name);
  domain_places_.Add();
  return static_cast<uint32_t>(domains_.size() - 1);
}

absl::StatusOr<absl::Span<const ScalarInput>> OpenGraph::PlaceScalars(
    absl::Span<const ScalarInput> scalars) {
  const auto named = [](const ScalarInput& s) { return s.kind == ScalarInput::Kind::kNamed; };
  if (std::none_of(scalars.begin(), scalars.end(), named)) return scalars;
  scalars_.assign(scalars.begin(), scalars.end());
  for (size_t i = 0; i < scalars_.size(); ++i) {
    if (!named(scalars_[i])) continue;
    const uint32_t domain = scalars_[i].named;
    if (domain >= domains_.size()) {
      return Error(reason::kScalarUnknown,
                   absl::StrCat("there is no domain ", domain, ", only ", domains_.size()))
          .At(absl::StrCat("scalars[", i, "]"));
    }
    if (domain_places_.of[domain] == kNone) {
      domain_places_.Set(domain, segment_->AddDomain(domains_[domain]));
    }
    scalars_[i].named = domain_places_.of[domain];
  }
  return absl::MakeConstSpan(scalars_);
}

absl::StatusOr<uint32_t> OpenGraph::PlaceKernel(uint32_t kernel) {
  if (kernel >= kernels_.size()) {
    return Error(reason::kKernelUnknown,
                 absl::StrCat("there is no kernel ", kernel, ", only ", kernels_.size()))
        .With("kernel", kernel);
  }
  if (kernel_places_.of[kernel] == kNone) {
    kernel_places_.Set(kernel, segment_->AddKernel(kernels_[kernel]));
  }
  return kernel_places_.of[kernel];
}

absl::StatusOr<uint32_t> OpenGraph::PlaceTensor(uint32_t tensor) {
  if (tensor >= tensors_.size()) {
    // The caller adds the field, as in GraphBuilder.
    return Error(reason::kTensorUnknown,
                 absl::StrCat("there is no tensor ", tensor, ", only ", tensors_.size()))
        .With("tensor", tensor);
  }
  if (tensor_places_.of[tensor] != kNone) return tensor_places_.of[tensor];
  const ImageTensor& record = tensors_[tensor];
  if (slot_places_.of[record.slot] == kNone) {
    slot_places_.Set(record.slot, segment_->AddSlot(slots_[record.slot].name));
  }
  if (layout_places_.of[record.layout] == kNone) {
    const Layout& layout = layouts_[record.layout];
    PTO_ASSIGN_OR_RETURN(
        const uint32_t place,
        segment_->AddLayout(layout.dtype, absl::MakeConstSpan(layout.shape).first(layout.ndim),
                            absl::MakeConstSpan(layout.strides).first(layout.ndim)));
    layout_places_.Set(record.layout, place);
  }
  PTO_ASSIGN_OR_RETURN(const uint32_t place,
                       segment_->AddTensor(slot_places_.of[record.slot],
                                           layout_places_.of[record.layout], record.offset));
  tensor_places_.Set(tensor, place);
  return place;
}

absl::Status OpenGraph::PlaceArgs(absl::Span<const uint32_t> args, std::vector<uint32_t>* placed) {
  for (size_t i = 0; i < args.size(); ++i) {
    const absl::StatusOr<uint32_t> place = PlaceTensor(args[i]);
    if (!place.ok()) return PrefixField(place.status(), absl::StrCat("args[", i, "]"));
    placed->push_back(*place);
  }
  return absl::OkStatus();
}

void OpenGraph::FindOf(uint32_t kernel, const TaskInput& task, absl::Span<const uint32_t> args) {
  const pto_kernel_info& info = kernels_[kernel]->info();
  // The segment's builder rejects the task in this case.
  if (args.size() != info.argument_count) return;
  for (size_t i = 0; i < args.size(); ++i) {
    if ((task.no_dependency_args >> i & 1) != 0) continue;
    if (info.arguments[i].direction == PTO_INPUT) {
      accesses_.Read(next_task_, args[i], found_);
    } else if (info.arguments[i].direction != PTO_NO_DEPENDENCY) {
      accesses_.Write(next_task_, args[i], found_);
    }
  }
}

absl::Status OpenGraph::FindDependencies(const TaskInput& task) {
  found_.assign(task.dependencies.begin(), task.dependencies.end());
  if (options_.find_dependencies) {
    const auto find = [&](absl::Span<const uint32_t> args) {
      FindOf(task.kernel, task, args);
      for (const uint32_t kernel : task.vector_kernels) FindOf(kernel, task, args);
    };
    if (task.members.empty()) find(task.args);
    for (const TaskInput::Member& member : task.members) find(member.args);
    if (task.predicate.has_value()) accesses_.Read(next_task_, task.predicate->tensor, found_);
  }
  std::sort(found_.begin(), found_.end());
  found_.erase(std::unique(found_.begin(), found_.end()), found_.end());
  dependencies_.clear();
  for (const uint32_t before : found_) {
    if (before >= first_task_) {
      dependencies_.push_back(before - first_task_);
    } else if (before >= ended_) {
      links_.push_back({next_task_ - first_task_, before});
    }
  }
  const uint64_t had = segment_dependencies_;
  segment_dependencies_ += found_.size();
  if (segment_dependencies_ > target_.max_dependencies) {
    return TooManyError(
        absl::StrCat("a graph has at most ", target_.max_dependencies, " dependencies at once"),
        target_.max_dependencies, had, found_.size());
  }
  size_t args = task.args.size();
  for (const TaskInput::Member& member : task.members) args += member.args.size();
  WorkBudget& budget = accesses_.budget();
  budget.EarnTask(args, found_.size());
  if (budget.Spend(1)) return absl::OkStatus();
  return WorkError(budget, next_task_, FieldOf(task, accesses_.stopped_at()));
}

absl::Status OpenGraph::CheckChip(const pto_kernel_info& info, uint32_t chip, uint32_t tensor) {
  Slot& slot = slots_[tensors_[tensor].slot];
  uint32_t& known = slot.memory.chip;
  if (known == chip) return absl::OkStatus();
  if (info.control != PTO_CONTROL_NONE) return absl::OkStatus();
  if (known == ImageSlot::kUnused) {
    known = chip;
    return absl::OkStatus();
  }
  return Error(reason::kBufferOnOtherChip, absl::StrCat("buffer '", slot.name, "' is on chips/",
                                                        known, ", the task on chips/", chip))
      .With("have", absl::StrCat("chips/", known))
      .With("want", absl::StrCat("chips/", chip));
}

absl::Status OpenGraph::CheckChips(const TaskInput& task) {
  const pto_kernel_info& info = kernels_[task.kernel]->info();
  const auto check = [&](uint32_t chip, absl::Span<const uint32_t> args) -> absl::Status {
    for (size_t i = 0; i < args.size(); ++i) {
      absl::Status fits = CheckChip(info, chip, args[i]);
      if (!fits.ok()) return PrefixField(fits, absl::StrCat("args[", i, "]"));
    }
    return absl::OkStatus();
  };
  uint32_t first_chip = task.chip;
  if (task.members.empty()) {
    PTO_RETURN_IF_ERROR(check(task.chip, task.args));
  } else {
    first_chip = task.members[0].chip;
  }
  for (size_t i = 0; i < task.members.size(); ++i) {
    absl::Status fits = check(task.members[i].chip, task.members[i].args);
    if (!fits.ok()) return PrefixField(fits, absl::StrCat("members[", i, "]."));
  }
  if (!task.predicate.has_value()) return absl::OkStatus();
  return PrefixField(CheckChip(info, first_chip, task.predicate->tensor), "predicate.tensor");
}

absl::Status OpenGraph::CheckDependencies(const TaskInput& task) const {
  for (size_t i = 0; i < task.dependencies.size(); ++i) {
    if (task.dependencies[i] < next_task_) continue;
    return Error(reason::kDependencyCycle,
                 absl::StrCat("task ", next_task_, " waits for task ", task.dependencies[i],
                              ", which is not before it"))
        .At(absl::StrCat("after[", i, "]"))
        .With("task", next_task_)
        .With("after", task.dependencies[i]);
  }
  return absl::OkStatus();
}

absl::StatusOr<uint32_t> OpenGraph::AddTask(const TaskInput& task) {
  if (next_task_ >= AccessMap::kMaxOwner) {
    return Error(reason::kGraphTooLarge, "the graph has more tasks than can be numbered");
  }
  PTO_RETURN_IF_ERROR(CheckDependencies(task));
  TaskInput placed = task;
  const absl::StatusOr<uint32_t> own_kernel = PlaceKernel(task.kernel);
  if (!own_kernel.ok()) return PrefixField(own_kernel.status(), "kernel");
  placed.kernel = *own_kernel;
  vector_kernels_.clear();
  for (size_t i = 0; i < task.vector_kernels.size(); ++i) {
    const absl::StatusOr<uint32_t> place = PlaceKernel(task.vector_kernels[i]);
    if (!place.ok()) {
      return PrefixField(place.status(), absl::StrCat("launch.vector_kernels[", i, "]"));
    }
    vector_kernels_.push_back(*place);
  }
  placed.vector_kernels = vector_kernels_;
  args_.clear();
  PTO_RETURN_IF_ERROR(PlaceArgs(task.args, &args_));
  for (size_t i = 0; i < task.members.size(); ++i) {
    absl::Status status = PlaceArgs(task.members[i].args, &args_);
    if (!status.ok()) return PrefixField(status, absl::StrCat("members[", i, "]."));
  }
  // Set only now, because the vector does not move any more.
  placed.args = absl::MakeConstSpan(args_).first(task.args.size());
  members_.clear();
  size_t next = task.args.size();
  for (const TaskInput::Member& member : task.members) {
    members_.push_back({member.chip, absl::MakeConstSpan(args_).subspan(next, member.args.size())});
    next += member.args.size();
  }
  placed.members = members_;
  if (task.predicate.has_value()) {
    const absl::StatusOr<uint32_t> place = PlaceTensor(task.predicate->tensor);
    if (!place.ok()) return PrefixField(place.status(), "predicate.tensor");
    placed.predicate->tensor = *place;
  }
  PTO_ASSIGN_OR_RETURN(placed.scalars, PlaceScalars(task.scalars));
  PTO_RETURN_IF_ERROR(FindDependencies(task));
  placed.dependencies = dependencies_;
  PTO_RETURN_IF_ERROR(segment_->AddTask(placed).status());
  PTO_RETURN_IF_ERROR(CheckChips(task));
  return next_task_++;
}

absl::StatusOr<GraphSegment> OpenGraph::Cut() {
  GraphSegment segment;
  PTO_ASSIGN_OR_RETURN(segment.image, segment_->Build());
  segment.first_task = first_task_;
  segment.slots = slot_places_.used;  // in the order of their indices in the segment
  segment.links = std::move(links_);
  links_.clear();
  for (Places* places :
       {&kernel_places_, &slot_places_, &layout_places_, &tensor_places_, &domain_places_}) {
    places->Clear();
  }
  segment_ = NewSegment();
  segment_dependencies_ = 0;
  accesses_.budget().BeginSegment();
  first_task_ = next_task_;
  return segment;
}

void OpenGraph::ForgetBefore(uint32_t task) {
  ended_ = std::max(ended_, std::min(task, first_task_));
  accesses_.ForgetBefore(ended_);
}

}  // namespace pto::engine
