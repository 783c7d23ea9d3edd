// TaskRef and the methods of GraphBuilder that add tasks.

#include <bit>

#include "absl/strings/str_cat.h"
#include "client/control_kernels.h"
#include "client/graph_builder.h"
#include "client/internal/graph_names.h"
#include "runtime/base/error.h"

namespace pto {
namespace {

using internal::IsName;
using internal::NameError;
using internal::TaskPath;

}  // namespace

// ---- TaskRef

TaskRef& TaskRef::Name(absl::string_view name) {
  if (!graph_->IsLast(*this, "Name")) return *this;
  const std::string path = TaskPath(index_) + ".name";
  if (!IsName(name)) {
    graph_->Fail(NameError(name, /*repeated=*/false, path));
  } else if (!graph_->task_name_set_.emplace(name).second) {
    graph_->Fail(
        Error(reason::kTaskNameDuplicate, absl::StrCat("two tasks have the name '", name, "'"))
            .At(path)
            .With("task", name));
  } else {
    graph_->task_names_[index_] = std::string(name);
  }
  return *this;
}

TaskRef& TaskRef::AddFloat(double value) {
  if (graph_->IsLast(*this, "Scalar")) {
    graph_->scalars_.push_back({GraphBuilder::ScalarKind::kFloat, std::bit_cast<uint64_t>(value)});
  }
  return *this;
}

TaskRef& TaskRef::AddInteger(int64_t value) {
  if (graph_->IsLast(*this, "Scalar")) {
    graph_->scalars_.push_back(
        {GraphBuilder::ScalarKind::kInteger, std::bit_cast<uint64_t>(value)});
  }
  return *this;
}

TaskRef& TaskRef::Scalar(ScalarRef scalar) {
  if (!graph_->IsLast(*this, "Scalar")) return *this;
  if (scalar.graph_ != graph_) {
    graph_->Fail(Error(reason::kScalarUnknown, "the scalar belongs to another graph")
                     .At(TaskPath(index_) + ".scalars"));
  }
  graph_->scalars_.push_back({GraphBuilder::ScalarKind::kRef, scalar.index_});
  return *this;
}

TaskRef& TaskRef::Domain(absl::string_view id) {
  if (!graph_->IsLast(*this, "Domain")) return *this;
  graph_->scalars_.push_back({GraphBuilder::ScalarKind::kDomain, graph_->domains_.Intern(id)});
  return *this;
}

TaskRef& TaskRef::Blocks(uint32_t count) {
  if (!graph_->IsLast(*this, "Blocks")) return *this;
  if (count == 0) {
    graph_->Fail(Error(reason::kLaunchInvalid, "a task needs at least one block")
                     .At(TaskPath(index_) + ".launch.block_num"));
  }
  graph_->ChangeLaunch([&](GraphBuilder::LaunchRow& row) { row.blocks = count; });
  return *this;
}

TaskRef& TaskRef::Core(v1::Core core) {
  if (graph_->IsLast(*this, "Core")) {
    graph_->ChangeLaunch([&](GraphBuilder::LaunchRow& row) { row.core = core; });
  }
  return *this;
}

TaskRef& TaskRef::SyncStart() {
  if (graph_->IsLast(*this, "SyncStart")) {
    graph_->ChangeLaunch([](GraphBuilder::LaunchRow& row) { row.sync_start = true; });
  }
  return *this;
}

TaskRef& TaskRef::After(const TaskRef& task) {
  if (!graph_->IsLast(*this, "After")) return *this;
  if (task.graph_ != graph_) {
    graph_->Fail(Error(reason::kDependencyUnknown, "the task in After belongs to another graph")
                     .At(TaskPath(index_) + ".after"));
  } else if (task.index_ >= index_) {
    graph_->Fail(Error(reason::kDependencyCycle, "a task cannot depend on itself")
                     .At(TaskPath(index_) + ".after"));
  } else {
    graph_->deps_.push_back(task.index_);
  }
  return *this;
}

TaskRef& TaskRef::After(std::initializer_list<TaskRef> tasks) {
  for (const TaskRef& task : tasks) After(task);
  return *this;
}

TaskRef& TaskRef::VectorKernels(absl::Span<const std::string> kernels) {
  if (!graph_->IsLast(*this, "VectorKernels")) return *this;
  if (kernels.size() > 2) {
    graph_->Fail(Error(reason::kLaunchInvalid, absl::StrCat("a cluster has two vector cores, got ",
                                                            kernels.size(), " kernels"))
                     .At(TaskPath(index_) + ".launch.vector_kernels"));
  }
  graph_->ChangeLaunch([&](GraphBuilder::LaunchRow& row) {
    row.vector_kernels.assign(kernels.begin(), kernels.end());
  });
  return *this;
}

TaskRef& TaskRef::Timeout(absl::Duration timeout) {
  if (!graph_->IsLast(*this, "Timeout")) return *this;
  if (timeout < absl::ZeroDuration()) {
    graph_->Fail(Error(reason::kFieldInvalid, "the timeout of a task must not be negative")
                     .At(TaskPath(index_) + ".launch.timeout"));
  }
  graph_->ChangeLaunch([&](GraphBuilder::LaunchRow& row) { row.timeout = timeout; });
  return *this;
}

TaskRef& TaskRef::If(TensorRef tensor, v1::Comparison compare, int64_t value) {
  if (!graph_->IsLast(*this, "If")) return *this;
  if (tensor.graph_ != graph_) {
    graph_->Fail(Error(reason::kTensorUnknown, "the tensor belongs to another graph")
                     .At(TaskPath(index_) + ".predicate.tensor"));
  } else {
    graph_->extras_[index_].predicate = {tensor.index_, compare, value};
  }
  return *this;
}

TaskRef& TaskRef::NoDependency(uint32_t arg) {
  if (!graph_->IsLast(*this, "NoDependency")) return *this;
  // No kernel has more arguments.
  if (arg >= 32) {
    graph_->Fail(Error(reason::kFieldInvalid, absl::StrCat("there is no argument ", arg))
                     .At(TaskPath(index_) + ".no_dependency_args"));
  } else {
    graph_->extras_[index_].no_dependency_mask |= 1u << arg;
  }
  return *this;
}

// ---- GraphBuilder

uint32_t GraphBuilder::InternChip(uint32_t chip) {
  const auto [row, is_new] = chip_index_.emplace(chip, static_cast<uint32_t>(chips_.size()));
  if (is_new) chips_.push_back(chip);
  return row->second;
}

void GraphBuilder::AddArgs(absl::Span<const TensorRef> args, uint32_t chip, bool any_chip,
                           const std::string& path, std::vector<uint32_t>& out) {
  for (size_t i = 0; i < args.size(); ++i) {
    const TensorRef& arg = args[i];
    const auto at = [&] { return absl::StrCat(path, "args[", i, "]"); };
    if (arg.graph_ != this) {
      Fail(Error(reason::kTensorUnknown, "the tensor belongs to another graph").At(at()));
      continue;
    }
    const TensorRow& tensor = tensors_[arg.index_];
    if (!any_chip && tensor.chip >= 0 && tensor.chip != chip) {
      Fail(Error(reason::kBufferOnOtherChip, absl::StrCat("tensor '", tensor.name, "' is on chip ",
                                                          tensor.chip, ", the task on chip ", chip))
               .At(at())
               .With("tensor", tensor.name));
    }
    out.push_back(arg.index_);
  }
}

TaskRef GraphBuilder::Task(absl::string_view kernel, uint32_t chip,
                           absl::Span<const TensorRef> args) {
  const size_t index = task_count();
  if (kernel.empty()) {
    Fail(Error(reason::kFieldInvalid, "a task needs a kernel").At(TaskPath(index) + ".kernel"));
  }
  tasks_.push_back({kernels_.Intern(kernel), InternChip(chip), /*launch=*/0, args_.size(),
                    scalars_.size(), deps_.size()});
  AddArgs(args, chip, IsControlKernel(kernel), TaskPath(index) + ".", args_);
  return TaskRef(this, static_cast<uint32_t>(index));
}

TaskRef GraphBuilder::Group(absl::string_view kernel, absl::Span<const GroupMember> members) {
  const size_t index = task_count();
  if (members.empty()) {
    Fail(Error(reason::kLaunchInvalid, "a group needs at least one member")
             .At(TaskPath(index) + ".members"));
  }
  ExtraRow extra;
  for (size_t i = 0; i < members.size(); ++i) {
    MemberRow& row = extra.members.emplace_back();
    row.chip = InternChip(members[i].chip);
    AddArgs(members[i].args, members[i].chip, /*any_chip=*/false,
            absl::StrCat(TaskPath(index), ".members[", i, "]."), row.args);
  }
  tasks_.push_back({kernels_.Intern(kernel), /*chip=*/0, /*launch=*/0, args_.size(),
                    scalars_.size(), deps_.size()});
  extras_.emplace(index, std::move(extra));
  return TaskRef(this, static_cast<uint32_t>(index));
}

TaskRef GraphBuilder::Join(std::initializer_list<TaskRef> tasks) {
  return Task("join", 0, {}).After(tasks);
}

TaskRef GraphBuilder::Notify(TensorRef signal, int64_t value, v1::NotifyOp op) {
  return Task("notify", 0, {signal}).Scalar(static_cast<int64_t>(op)).Scalar(value);
}

TaskRef GraphBuilder::WaitFor(TensorRef signal, v1::Comparison compare, int64_t value,
                              absl::Duration timeout) {
  return Task("wait", 0, {signal})
      .Scalar(static_cast<int64_t>(compare))
      .Scalar(value)
      .Scalar(absl::ToInt64Nanoseconds(timeout));
}

TaskRef GraphBuilder::WaitFor(TensorRef signal, TensorRef token, v1::Comparison compare,
                              int64_t value, absl::Duration timeout) {
  return Task("wait_token", 0, {signal, token})
      .Scalar(static_cast<int64_t>(compare))
      .Scalar(value)
      .Scalar(absl::ToInt64Nanoseconds(timeout));
}

TaskRef GraphBuilder::Copy(TensorRef to, TensorRef from) {
  return Task("copy_async", 0, {to, from});
}

}  // namespace pto
