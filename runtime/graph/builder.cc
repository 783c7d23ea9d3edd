#include "runtime/graph/builder.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"
#include "runtime/graph/launch_check.h"
#include "runtime/graph/work_error.h"

namespace pto::engine {

absl::StatusOr<uint32_t> GraphBuilder::AddKernel(absl::string_view name) {
  std::shared_ptr<const Kernel> kernel = target_.kernels->Find(name);
  if (kernel == nullptr) {
    return Error(reason::kKernelUnknown, absl::StrCat("there is no kernel '", name, "'"))
        .At("kernel")
        .With("kernel", name);
  }
  return AddKernel(std::move(kernel));
}

uint32_t GraphBuilder::AddKernel(std::shared_ptr<const Kernel> kernel) {
  const pto_kernel_info& info = kernel->info();
  kernel_infos_.push_back(&info);
  kernels_.push_back({text_.Add(kernel->name()), info.argument_count, info.scalar_count});
  launches_.emplace_back();
  tensors_.AddKernel(info);
  overlaps_.AddKernel(info);
  owned_kernels_.push_back(std::move(kernel));
  return static_cast<uint32_t>(kernels_.size() - 1);
}

absl::StatusOr<uint32_t> GraphBuilder::AddLayout(uint32_t dtype, absl::Span<const int64_t> shape,
                                                 absl::Span<const int64_t> strides) {
  PTO_ASSIGN_OR_RETURN(const uint32_t layout, tensors_.AddLayout(dtype, shape, strides));
  if (options_.find_dependencies) {
    footprints_.push_back(accesses_.AddFootprint(tensors_.layout(layout)));
  }
  return layout;
}

absl::StatusOr<uint32_t> GraphBuilder::AddTensor(uint32_t slot, uint32_t layout, int64_t offset) {
  absl::StatusOr<uint32_t> tensor = tensors_.AddTensor(slot, layout, offset);
  if (options_.find_dependencies && tensor.ok()) {
    accesses_.AddRegion(slot, footprints_[layout], tensors_.FirstByte(*tensor));
  }
  return tensor;
}

inline bool GraphBuilder::AddUsual(const TaskInput& task, ImageTask& record) {
  if (task.kernel >= launches_.size() || task_count_ >= next_look_) return false;
  const Launch& launch = launches_[task.kernel];
  const bool same = launch.known && task.chip == launch.chip && task.core == launch.core &&
                    task.block_num == launch.block_num &&
                    task.require_sync_start == launch.require_sync_start &&
                    DetailTable::IsWithout(task);
  if (!same) return false;
  record = launch.record;
  record.first_arg = tensors_.arg_count();
  record.first_scalar = scalars_.ref_count();
  return tensors_.AddUsualArgs(task.kernel, task.chip, task.args);
}

absl::Status GraphBuilder::AddUnusual(const TaskInput& task, ImageTask& record) {
  if (task_count_ >= target_.max_tasks) {
    return Error(reason::kGraphTooLarge,
                 absl::StrCat("a graph has at most ", target_.max_tasks, " tasks"))
        .Limit("max_graph_tasks", target_.max_tasks, task_count_, 1);
  }
  if (task_count_ >= next_look_) {
    if (!accesses_.budget().Look()) return WorkError(accesses_.budget(), task_count_, "args");
    next_look_ = std::min(target_.max_tasks, task_count_ + kTasksPerLook);
  }
  if (task.kernel >= kernel_infos_.size()) {
    return Error(reason::kKernelUnknown,
                 absl::StrCat("there is no kernel ", task.kernel, ", only ", kernel_infos_.size()))
        .At("kernel")
        .With("kernel", task.kernel);
  }
  record = ImageTask();
  record.kernel = task.kernel;
  record.first_arg = tensors_.arg_count();
  record.first_scalar = scalars_.ref_count();
  PTO_RETURN_IF_ERROR(CheckLaunch(target_, kernel_infos_, task, record));
  PTO_RETURN_IF_ERROR(AddArgs(task));
  PTO_RETURN_IF_ERROR(overlaps_.CheckTask(task, tensors_));
  PTO_RETURN_IF_ERROR(scalars_.AddTask(*kernel_infos_[task.kernel], task.scalars, text_));
  const bool phased = kernel_infos_[task.kernel]->plan != nullptr;
  if (phased) PTO_RETURN_IF_ERROR(CheckPlan(task, record));
  PTO_RETURN_IF_ERROR(details_.AddTask(task_count_, task, tensors_, text_, record));
  chip_used_[record.chip] = true;
  for (const TaskInput::Member& member : task.members) chip_used_[member.chip] = true;
  flags_ |= uint64_t{record.traits} << ImageHeader::kTraitsShift;
  flags_ |= uint64_t{1} << (ImageHeader::kCoresShift + record.core);
  if (!record.one_call()) flags_ |= ImageHeader::kHasMultiBlockTasks;
  if (DetailTable::IsWithout(task) && !phased) {
    // Finding dependencies also finds overlapping arguments.
    const bool has_more = kernels_[task.kernel].scalar_count > 0 ||
                          (!options_.find_dependencies && overlaps_.HasPairs(task.kernel));
    launches_[task.kernel] = {task.chip, task.core, task.block_num, task.require_sync_start,
                              true,      has_more,  record};
  }
  return absl::OkStatus();
}

absl::Status GraphBuilder::AddArgs(const TaskInput& task) {
  const auto add = [&](uint32_t chip, absl::Span<const uint32_t> args) -> absl::Status {
    PTO_RETURN_IF_ERROR(tensors_.CheckArgs(task.kernel, args));
    tensors_.UseArgs(task.kernel, args, task.no_dependency_args);
    for (const uint32_t kernel : task.vector_kernels) {
      PTO_RETURN_IF_ERROR(tensors_.CheckArgs(kernel, args));
      tensors_.UseArgs(kernel, args, task.no_dependency_args);
    }
    return tensors_.AddArgs(task.kernel, chip, args, text_);
  };
  if (task.members.empty()) return add(task.chip, task.args);
  for (size_t i = 0; i < task.members.size(); ++i) {
    absl::Status added = add(task.members[i].chip, task.members[i].args);
    if (!added.ok()) return PrefixField(added, absl::StrCat("members[", i, "]."));
  }
  return absl::OkStatus();
}

inline absl::Status GraphBuilder::CheckOverlaps(const TaskInput& task) {
  if (DetailTable::IsWithout(task) && overlaps_.IsApart(task.kernel, task.args, tensors_)) {
    return absl::OkStatus();
  }
  return overlaps_.CheckTask(task, tensors_);
}

absl::Status GraphBuilder::LaterTaskError(absl::Span<const uint32_t> dependencies) const {
  size_t i = 0;
  while (dependencies[i] < task_count_) ++i;
  return Error(reason::kDependencyCycle,
               dependencies[i] == task_count_
                   ? absl::StrCat("task ", task_count_, " waits for itself")
                   : absl::StrCat("task ", task_count_, " waits for the later task ",
                                  dependencies[i]))
      .At(absl::StrCat("after[", i, "]"))
      .With("task", task_count_)
      .With("after", dependencies[i]);
}

absl::Status GraphBuilder::DependencyCountError(const TaskInput& task, uint64_t before) const {
  if (!accesses_.budget().ok()) {
    return WorkError(accesses_.budget(), task_count_, FieldOf(task, accesses_.stopped_at()));
  }
  return Error(reason::kGraphTooLarge,
               absl::StrCat("a graph has at most ", max_dependencies_, " dependencies"))
      .Limit("max_graph_dependencies", max_dependencies_, before, dependencies_.size() - before);
}

inline void GraphBuilder::FindInArgs(uint32_t kernel, absl::Span<const uint32_t> args,
                                     uint32_t no_dependency_args) {
  // The regions may be far apart in memory: fetch them in parallel.
  for (const uint32_t arg : args) accesses_.Prefetch(arg);
  const pto_argument_info* const arguments = kernel_infos_[kernel]->arguments;
  for (size_t i = 0; i < args.size(); ++i) {
    if ((no_dependency_args >> i & 1) != 0) continue;
    switch (arguments[i].direction) {
      case PTO_INPUT:
        accesses_.Read(task_count_, args[i], found_);
        break;
      case PTO_OUTPUT:
      case PTO_INOUT:
        accesses_.Write(task_count_, args[i], found_);
        break;
      case PTO_NO_DEPENDENCY:
        break;
    }
  }
}

inline void GraphBuilder::FindDependencies(const TaskInput& task) {
  if (DetailTable::IsWithout(task)) {
    FindInArgs(task.kernel, task.args, 0);
  } else {
    FindWithDetail(task);
  }
}

void GraphBuilder::FindWithDetail(const TaskInput& task) {
  const auto find = [&](absl::Span<const uint32_t> args) {
    FindInArgs(task.kernel, args, task.no_dependency_args);
    for (const uint32_t kernel : task.vector_kernels) {
      FindInArgs(kernel, args, task.no_dependency_args);
    }
  };
  if (task.members.empty()) find(task.args);
  for (const TaskInput::Member& member : task.members) find(member.args);
  if (task.predicate.has_value()) accesses_.Read(task_count_, task.predicate->tensor, found_);
}

inline absl::Status GraphBuilder::AddDependencies(const TaskInput& task, ImageTask& record) {
  bool all_earlier = true;
  for (const uint32_t before : task.dependencies) all_earlier &= before < task_count_;
  if (!all_earlier) return LaterTaskError(task.dependencies);
  const uint64_t before = dependencies_.size();
  bool may_go_on = true;
  if (options_.find_dependencies) {
    found_.clear();
    if (!task.dependencies.empty()) {
      found_.assign(task.dependencies.begin(), task.dependencies.end());
    }
    FindDependencies(task);
    if (accesses_.TakeMetItself()) PTO_RETURN_IF_ERROR(CheckOverlaps(task));
    record.dependencies = dependencies_.AddTask(found_);
    // Comparing tensors that overlap in many ways can take long, even if no dependency results.
    WorkBudget& budget = accesses_.budget();
    budget.EarnTask(tensors_.arg_count() - record.first_arg, record.dependencies);
    may_go_on = budget.Spend(1);
  } else {
    record.dependencies = dependencies_.AddTask(task.dependencies);
  }
  if (!may_go_on || dependencies_.size() > max_dependencies_) {
    return DependencyCountError(task, before);
  }
  return absl::OkStatus();
}

absl::StatusOr<uint32_t> GraphBuilder::AddTask(const TaskInput& task) {
  ImageTask& record = image_.NextTask();
  if (!AddUsual(task, record)) {
    PTO_RETURN_IF_ERROR(AddUnusual(task, record));
  } else if (!task.scalars.empty() || launches_[task.kernel].has_more) {
    if (!options_.find_dependencies) PTO_RETURN_IF_ERROR(CheckOverlaps(task));
    PTO_RETURN_IF_ERROR(scalars_.AddTask(*kernel_infos_[task.kernel], task.scalars, text_));
  }
  PTO_RETURN_IF_ERROR(AddDependencies(task, record));
  if (!task.name.empty()) {
    task_names_.resize(task_count_);
    task_names_.push_back(text_.Add(task.name));
  }
  image_.KeepTask();
  return task_count_++;
}

absl::StatusOr<std::shared_ptr<const GraphImage>> GraphBuilder::Build() {
  if (task_count_ == 0) {
    return Error(reason::kGraphEmpty, "the graph has no task").At("tasks");
  }
  if (text_.all().size() > kMaxRecords) {
    return Error(reason::kGraphTooLarge, "the names of the graph are too long in total");
  }

  // Not needed any more, and nearly as large as the image.
  accesses_ = AccessMap();

  std::vector<uint32_t> chips;
  for (size_t i = 0; i < chip_used_.size(); ++i) {
    if (chip_used_[i]) chips.push_back(static_cast<uint32_t>(i));
  }
  if (!task_names_.empty()) task_names_.resize(task_count_);

  ImageHeader header;
  header.flags = flags_;
  if (options_.find_dependencies) header.flags |= ImageHeader::kFindsDependencies;
  image_.NextTask() = ImageTask();
  image_.KeepTask();
  header.tasks = image_.TasksSection();
  dependencies_.Write(image_, header);
  PTO_RETURN_IF_ERROR(scalars_.Write(text_, image_, header));
  tensors_.Write(image_, header);
  details_.Write(image_, header);
  header.kernels = image_.Add(kernels_);
  header.chips = image_.Add(chips);
  header.task_names = image_.Add(task_names_);
  header.text = image_.Add(text_.all());
  return std::make_shared<const GraphImage>(image_.Finish(header), std::move(owned_kernels_));
}

}  // namespace pto::engine
