#include "client/job/packed_job.h"

#include <cmath>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "runtime/base/error.h"

namespace pto::job {
namespace {

using ScalarType = pto::v1::Kernel::ScalarParameter;

std::vector<int64_t> List(const google::protobuf::RepeatedField<int64_t>& field) {
  return {field.begin(), field.end()};
}

absl::Status AddScalar(pto::v1::Scalar scalar, ScalarType::Type type, const std::string& path,
                       TaskRef* task) {
  // Enumerators are converted to numbers, also if the kernel takes a float.
  if (scalar.has_compare()) scalar.set_i64(scalar.compare());
  if (scalar.has_op()) scalar.set_i64(scalar.op());
  if (scalar.has_domain() != (type == ScalarType::DOMAIN)) {
    return Error(reason::kScalarInvalid,
                 scalar.has_domain() ? "expected a number, not a domain" : "expected a domain")
        .At(path);
  }
  if (type == ScalarType::DOMAIN) {
    task->Domain(scalar.domain());
  } else if (type == ScalarType::INTEGER) {
    if (scalar.has_f64() && scalar.f64() != std::nearbyint(scalar.f64())) {
      return Error(reason::kScalarInvalid, "expected an integer").At(path);
    }
    task->Scalar(scalar.has_f64() ? static_cast<int64_t>(scalar.f64()) : scalar.i64());
  } else {
    task->Scalar(scalar.has_i64() ? static_cast<double>(scalar.i64()) : scalar.f64());
  }
  return absl::OkStatus();
}

using Tensors = absl::flat_hash_map<std::string, TensorRef>;

absl::StatusOr<uint32_t> ChipIndex(const std::string& chip, const std::string& path) {
  uint32_t index = 0;
  if (absl::SimpleAtoi(absl::StripPrefix(chip, "chips/"), &index)) return index;
  return Error(reason::kNameInvalid, "expected a chip name, for example chips/0")
      .At(path + ".chip");
}

std::vector<TensorRef> List(const google::protobuf::RepeatedPtrField<std::string>& names,
                            const Tensors& tensors) {
  std::vector<TensorRef> list;
  for (const std::string& name : names) list.push_back(tensors.at(name));
  return list;
}

absl::StatusOr<TaskRef> AddTask(const pto::v1::TaskSpec& spec, const Tensors& tensors,
                                const std::string& path, GraphBuilder* builder) {
  if (spec.members().empty()) {
    const absl::StatusOr<uint32_t> chip = ChipIndex(spec.chip(), path);
    if (!chip.ok()) return chip.status();
    return builder->Task(spec.kernel(), *chip, List(spec.args(), tensors));
  }
  std::vector<GroupMember> members;
  for (int i = 0; i < spec.members_size(); ++i) {
    const absl::StatusOr<uint32_t> chip =
        ChipIndex(spec.members(i).chip(), absl::StrCat(path, ".members[", i, "]"));
    if (!chip.ok()) return chip.status();
    members.push_back({*chip, List(spec.members(i).args(), tensors)});
  }
  return builder->Group(spec.kernel(), members);
}

void Describe(const pto::v1::TaskSpec& spec, const Tensors& tensors, TaskRef& task) {
  const pto::v1::LaunchSpec& launch = spec.launch();
  if (launch.block_num() > 0) task.Blocks(launch.block_num());
  if (launch.core() != pto::v1::CORE_UNSPECIFIED) task.Core(launch.core());
  if (launch.require_sync_start()) task.SyncStart();
  if (!launch.vector_kernels().empty()) {
    task.VectorKernels(
        std::vector<std::string>(launch.vector_kernels().begin(), launch.vector_kernels().end()));
  }
  if (launch.has_timeout()) {
    task.Timeout(absl::Seconds(launch.timeout().seconds()) +
                 absl::Nanoseconds(launch.timeout().nanos()));
  }
  for (const uint32_t arg : spec.no_dependency_args()) task.NoDependency(arg);
  if (spec.has_predicate()) {
    const pto::v1::Predicate& predicate = spec.predicate();
    task.If(tensors.at(predicate.tensor()), predicate.compare(), predicate.value());
  }
}

}  // namespace

GraphFiller::GraphFiller(const pto::v1::GraphSpec& graph, absl::Span<const pto::v1::Kernel> kernels,
                         GraphBuilder* builder)
    : graph_(graph), builder_(builder) {
  for (const pto::v1::Kernel& kernel : kernels) {
    // Tasks name a kernel by its id, or by its full name.
    signatures_[kernel.name().substr(kernel.name().rfind('/') + 1)] = &kernel;
    signatures_[kernel.name()] = &kernel;
  }
  for (const pto::v1::ScalarSpec& scalar : graph.scalars()) {
    scalars_[scalar.name()] = scalar.value();
  }
  if (graph.explicit_dependencies_only()) builder->ExplicitDependenciesOnly();
}

void GraphFiller::AddTensors() {
  for (const pto::v1::TensorSpec& tensor : graph_.tensors()) {
    tensors_.emplace(tensor.name(), builder_->Tensor(tensor.name(), tensor.buffer(), tensor.dtype(),
                                                     List(tensor.shape()), List(tensor.strides()),
                                                     tensor.offset()));
  }
}

absl::Status GraphFiller::AddTasks(bool with_names) {
  std::vector<TaskRef> tasks;
  absl::flat_hash_map<std::string, int> task_index;
  for (int i = 0; i < graph_.tasks_size(); ++i) {
    const pto::v1::TaskSpec& spec = graph_.tasks(i);
    const std::string path = absl::StrCat("graph.tasks[", i, "]");
    const auto signature = signatures_.find(spec.kernel());
    if (signature == signatures_.end()) {
      return Error(reason::kKernelUnknown, absl::StrCat("there is no kernel '", spec.kernel(), "'"))
          .At(path + ".kernel");
    }
    if (spec.scalars_size() != signature->second->scalars_size()) {
      return Error(reason::kScalarCount,
                   absl::StrCat(spec.kernel(), " takes ", signature->second->scalars_size(),
                                " scalars, got ", spec.scalars_size()))
          .At(path + ".scalars");
    }
    absl::StatusOr<TaskRef> added = AddTask(spec, tensors_, path, builder_);
    if (!added.ok()) return added.status();
    TaskRef task = *added;
    if (with_names && !spec.name().empty()) task.Name(spec.name());
    for (int s = 0; s < spec.scalars_size(); ++s) {
      pto::v1::Scalar scalar = spec.scalars(s);
      if (scalar.has_ref()) scalar = scalars_[scalar.ref()];
      absl::Status added = AddScalar(scalar, signature->second->scalars(s).type(),
                                     absl::StrCat(path, ".scalars[", s, "]"), &task);
      if (!added.ok()) return added;
    }
    Describe(spec, tensors_, task);
    for (const std::string& after : spec.after()) {
      const auto named = task_index.find(after);
      int index = 0;
      if (named != task_index.end()) {
        index = named->second;
      } else if (!absl::SimpleAtoi(after, &index) || index < 0 || index >= i) {
        return Error(reason::kDependencyUnknown,
                     absl::StrCat("there is no earlier task '", after, "'"))
            .At(path + ".after");
      }
      task.After(tasks[index]);
    }
    tasks.push_back(task);
    if (!spec.name().empty()) task_index[spec.name()] = i;
  }
  return builder_->status();
}

absl::Status FillBuilder(const pto::v1::GraphSpec& graph, absl::Span<const pto::v1::Kernel> kernels,
                         GraphBuilder* builder) {
  GraphFiller filler(graph, kernels, builder);
  filler.AddTensors();
  return filler.AddTasks(true);
}

}  // namespace pto::job
