#include "daemon/graph/spec_decoder.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "daemon/graph/fields.h"
#include "daemon/names/names.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::daemon {
namespace {

constexpr size_t kMaxName = 255;
constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

using IndexByName = absl::flat_hash_map<absl::string_view, uint32_t>;

// Many tensors share a layout. Hashing the bytes of Layout is correct because it has no padding.
struct LayoutHash {
  static_assert(std::has_unique_object_representations_v<engine::Layout>);
  size_t operator()(const engine::Layout& layout) const {
    return absl::Hash<absl::string_view>()(
        absl::string_view(reinterpret_cast<const char*>(&layout), sizeof layout));
  }
};

absl::Status CheckNameLength(absl::string_view name, absl::string_view path) {
  if (name.size() <= kMaxName) return absl::OkStatus();
  return Error(reason::kFieldInvalid,
               absl::StrCat("a name has at most ", kMaxName, " bytes, not ", name.size()))
      .At(absl::StrCat(path, ".name"))
      .With("have", name.size())
      .With("want", kMaxName);
}

// Adds a name, which must not be empty or known.
absl::Status AddName(absl::string_view name, uint32_t index, absl::string_view list,
                     IndexByName& by_name) {
  const auto path = [&] { return absl::StrCat("graph.", list, "[", index, "]"); };
  if (name.empty()) {
    return Error(reason::kFieldInvalid, "a name is required").At(path() + ".name");
  }
  if (name.size() > kMaxName) return CheckNameLength(name, path());
  const auto [it, is_new] = by_name.try_emplace(name, index);
  if (is_new) return absl::OkStatus();
  return Error(reason::kFieldInvalid,
               absl::StrCat("the name ", names::Quoted(name), " is already used by ", list, "[",
                            it->second, "]"))
      .At(path() + ".name")
      .With("first", it->second)
      .Hint("use unique names");
}

class SpecDecoder {
 public:
  SpecDecoder(const v1::GraphSpec& spec, absl::string_view session,
              const engine::GraphTarget& target, const GraphLimits& limits,
              engine::WorkBudget::Cancelled cancelled)
      : spec_(spec),
        session_(session),
        target_(target),
        limits_(limits),
        builder_(target, {.find_dependencies = !spec.explicit_dependencies_only(),
                          .cancelled = std::move(cancelled)}) {}

  absl::StatusOr<DecodedGraph> Decode() {
    if (spec_.tasks().empty()) {
      return Error(reason::kGraphEmpty, "the graph has no task").At("graph.tasks");
    }
    PTO_RETURN_IF_ERROR(CheckSize());
    PTO_RETURN_IF_ERROR(AddTensors());
    PTO_RETURN_IF_ERROR(AddScalars());
    PTO_RETURN_IF_ERROR(NameTasks());
    for (int i = 0; i < spec_.tasks_size(); ++i) {
      absl::Status status = AddTask(static_cast<uint32_t>(i));
      if (!status.ok()) return InTask(status, i);
    }
    absl::StatusOr<std::shared_ptr<const engine::GraphImage>> image = builder_.Build();
    if (!image.ok()) return PrefixField(image.status(), "graph.");
    return DecodedGraph{*std::move(image)};
  }

 private:
  // Checks sizes before anything is built.
  absl::Status CheckSize() const {
    const auto task_count = static_cast<uint64_t>(spec_.tasks_size());
    if (task_count > target_.max_tasks) {
      return Error(reason::kGraphTooLarge, absl::StrCat("a graph has at most ", target_.max_tasks,
                                                        " tasks, not ", task_count))
          .At("graph.tasks")
          .Limit("max_graph_tasks", target_.max_tasks, 0, task_count);
    }
    const auto tensor_count = static_cast<uint64_t>(spec_.tensors_size());
    if (tensor_count > limits_.max_tensors) {
      return Error(reason::kGraphTooLarge, absl::StrCat("a graph has at most ", limits_.max_tensors,
                                                        " tensors, not ", tensor_count))
          .At("graph.tensors")
          .Limit("max_graph_tensors", limits_.max_tensors, 0, tensor_count);
    }
    uint64_t edges = 0;
    for (int i = 0; i < spec_.tasks_size(); ++i) {
      const auto more = static_cast<uint64_t>(spec_.tasks(i).after_size());
      if (more > limits_.max_edges - edges) {
        return Error(reason::kGraphTooLarge,
                     absl::StrCat("a graph has at most ", limits_.max_edges, " dependencies"))
            .At(absl::StrCat("graph.tasks[", i, "].after"))
            .Limit("max_graph_edges", limits_.max_edges, edges, more);
      }
      edges += more;
    }
    return absl::OkStatus();
  }

  absl::Status AddTensors() {
    tensors_.reserve(static_cast<size_t>(spec_.tensors_size()));
    for (int i = 0; i < spec_.tensors_size(); ++i) {
      const v1::TensorSpec& tensor = spec_.tensors(i);
      PTO_RETURN_IF_ERROR(AddName(tensor.name(), static_cast<uint32_t>(i), "tensors", tensors_));
      absl::Status status = AddTensor(tensor);
      if (!status.ok()) return PrefixField(status, absl::StrCat("graph.tensors[", i, "]."));
    }
    return absl::OkStatus();
  }

  absl::Status AddTensor(const v1::TensorSpec& tensor) {
    PTO_ASSIGN_OR_RETURN(const uint32_t slot, SlotOf(tensor));
    PTO_ASSIGN_OR_RETURN(const engine::Layout layout,
                         ReadLayout(tensor.dtype(), tensor.shape(), tensor.strides()));
    auto known = layouts_.find(layout);
    if (known == layouts_.end()) {
      const auto shape = absl::MakeConstSpan(layout.shape).first(layout.ndim);
      const auto strides = absl::MakeConstSpan(layout.strides).first(layout.ndim);
      PTO_ASSIGN_OR_RETURN(const uint32_t index, builder_.AddLayout(layout.dtype, shape, strides));
      known = layouts_.emplace(layout, index).first;
    }
    return builder_.AddTensor(slot, known->second, tensor.offset()).status();
  }

  absl::StatusOr<uint32_t> SlotOf(const v1::TensorSpec& tensor) {
    const absl::string_view name =
        tensor.buffer().empty() ? tensor.name() : absl::string_view(tensor.buffer());
    // A tensor's name need not be a valid buffer id; a launch then has to bind the slot.
    if (tensor.buffer().empty()) return builder_.AddSlot(name);
    const auto known = slots_.find(name);
    if (known != slots_.end()) return known->second;
    PTO_ASSIGN_OR_RETURN(const std::string id, ReadBuffer(name, session_, "buffer"));
    return slots_.emplace(name, builder_.AddSlot(id)).first->second;
  }

  absl::Status AddScalars() {
    for (int i = 0; i < spec_.scalars_size(); ++i) {
      const v1::ScalarSpec& scalar = spec_.scalars(i);
      PTO_RETURN_IF_ERROR(AddName(scalar.name(), static_cast<uint32_t>(i), "scalars", scalars_));
      engine::ScalarInput value;
      if (scalar.value().value_case() == v1::Scalar::kRef) {
        return Error(reason::kScalarInvalid,
                     "a named scalar needs a number, not the name of another scalar")
            .At(absl::StrCat("graph.scalars[", i, "].value.ref"));
      }
      absl::Status status = ReadNumber(scalar.value(), value);
      if (!status.ok()) return PrefixField(status, absl::StrCat("graph.scalars[", i, "].value."));
      builder_.AddScalar(scalar.name(), value);
    }
    return absl::OkStatus();
  }

  absl::Status ReadScalar(const v1::Scalar& scalar, engine::ScalarInput& out) {
    if (scalar.value_case() == v1::Scalar::kDomain) {
      PTO_ASSIGN_OR_RETURN(const std::string id, ReadDomain(scalar.domain(), session_, "domain"));
      const auto [known, is_new] = domains_.try_emplace(id, 0);
      if (is_new) known->second = builder_.AddDomain(DomainScalarName(id));
      out.kind = engine::ScalarInput::Kind::kNamed;
      out.named = known->second;
      return absl::OkStatus();
    }
    if (scalar.value_case() != v1::Scalar::kRef) return ReadNumber(scalar, out);
    const auto found = scalars_.find(scalar.ref());
    if (found == scalars_.end()) {
      return Error(reason::kScalarUnknown,
                   absl::StrCat("the graph has no scalar ", names::Quoted(scalar.ref())))
          .At("ref");
    }
    out.kind = engine::ScalarInput::Kind::kNamed;
    out.named = found->second;
    return absl::OkStatus();
  }

  // Collects all names before the first task is added, so that a reference to a later task gets the
  // right error.
  absl::Status NameTasks() {
    tasks_.reserve(static_cast<size_t>(spec_.tasks_size()));
    for (int i = 0; i < spec_.tasks_size(); ++i) {
      const std::string& name = spec_.tasks(i).name();
      if (name.empty()) continue;
      if (name.size() > kMaxName)
        return CheckNameLength(name, absl::StrCat("graph.tasks[", i, "]"));
      const auto [it, is_new] = tasks_.try_emplace(name, static_cast<uint32_t>(i));
      if (is_new) continue;
      return Error(reason::kTaskNameDuplicate,
                   absl::StrCat("tasks ", it->second, " and ", i, " are both called ",
                                names::Quoted(name)))
          .At(absl::StrCat("graph.tasks[", i, "].name"))
          .With("first", it->second)
          .Hint("use unique task names, or none");
    }
    return absl::OkStatus();
  }

  absl::Status AddTask(uint32_t index) {
    const v1::TaskSpec& spec = spec_.tasks(static_cast<int>(index));
    engine::TaskInput task;
    task.name = spec.name();
    PTO_ASSIGN_OR_RETURN(task.kernel, KernelOf(spec.kernel(), "kernel"));
    PTO_RETURN_IF_ERROR(AddLaunch(spec.launch(), task));
    args_.clear();
    if (spec.members().empty()) {
      PTO_RETURN_IF_ERROR(AddChip(spec, task));
      PTO_RETURN_IF_ERROR(AddArgs(spec.args(), "args"));
      task.args = args_;
    } else {
      PTO_RETURN_IF_ERROR(AddMembers(spec, task));
    }

    values_.resize(static_cast<size_t>(spec.scalars_size()));
    for (int i = 0; i < spec.scalars_size(); ++i) {
      absl::Status status = ReadScalar(spec.scalars(i), values_[static_cast<size_t>(i)]);
      if (!status.ok()) return PrefixField(status, absl::StrCat("scalars[", i, "]."));
    }
    task.scalars = values_;

    after_.clear();
    for (int i = 0; i < spec.after_size(); ++i) {
      absl::StatusOr<uint32_t> before = FindEarlier(spec.after(i), index);
      if (!before.ok()) return PrefixField(before.status(), absl::StrCat("after[", i, "]"));
      after_.push_back(*before);
    }
    task.dependencies = after_;
    PTO_RETURN_IF_ERROR(AddNoDependency(spec, task));
    if (spec.has_predicate()) {
      PTO_ASSIGN_OR_RETURN(const uint32_t tensor,
                           TensorOf(spec.predicate().tensor(), "predicate.tensor"));
      task.predicate = {tensor, static_cast<uint32_t>(spec.predicate().compare()),
                        spec.predicate().value()};
    }
    return builder_.AddTask(task).status();
  }

  absl::Status AddLaunch(const v1::LaunchSpec& launch, engine::TaskInput& task) {
    absl::Status status = ReadLaunch(launch, task);
    if (!status.ok()) return PrefixField(status, "launch.");
    vector_kernels_.clear();
    for (int i = 0; i < launch.vector_kernels_size(); ++i) {
      PTO_ASSIGN_OR_RETURN(
          const uint32_t kernel,
          KernelOf(launch.vector_kernels(i), absl::StrCat("launch.vector_kernels[", i, "]")));
      vector_kernels_.push_back(kernel);
    }
    task.vector_kernels = vector_kernels_;
    return absl::OkStatus();
  }

  absl::Status AddChip(const v1::TaskSpec& spec, engine::TaskInput& task) {
    // Tasks that need no core have no chip.
    if (spec.chip().empty() && builder_.kernel(task.kernel).control != PTO_CONTROL_NONE) {
      return absl::OkStatus();
    }
    PTO_ASSIGN_OR_RETURN(task.chip, ChipOf(spec.chip(), "chip"));
    return absl::OkStatus();
  }

  absl::StatusOr<uint32_t> TensorOf(absl::string_view name, absl::string_view field) const {
    const auto found = tensors_.find(name);
    if (found != tensors_.end()) return found->second;
    return Error(reason::kTensorUnknown,
                 absl::StrCat("the graph has no tensor ", names::Quoted(name)))
        .At(field);
  }

  absl::Status AddArgs(const google::protobuf::RepeatedPtrField<std::string>& args,
                       absl::string_view path) {
    for (int i = 0; i < args.size(); ++i) {
      const auto found = tensors_.find(args[i]);
      if (found == tensors_.end())
        return TensorOf(args[i], absl::StrCat(path, "[", i, "]")).status();
      args_.push_back(found->second);
    }
    return absl::OkStatus();
  }

  absl::Status AddMembers(const v1::TaskSpec& spec, engine::TaskInput& task) {
    if (!spec.chip().empty() || !spec.args().empty()) {
      return Error(reason::kFieldInvalid, "with members, chip and args must be empty")
          .At(spec.chip().empty() ? "args" : "chip");
    }
    members_.clear();
    for (int i = 0; i < spec.members_size(); ++i) {
      const v1::TaskMember& member = spec.members(i);
      const std::string path = absl::StrCat("members[", i, "]");
      PTO_ASSIGN_OR_RETURN(const uint32_t chip, ChipOf(member.chip(), path + ".chip"));
      PTO_RETURN_IF_ERROR(AddArgs(member.args(), path + ".args"));
      members_.push_back({chip, {}});
    }
    // Set only now, because the vector does not move any more.
    size_t first = 0;
    for (int i = 0; i < spec.members_size(); ++i) {
      const auto count = static_cast<size_t>(spec.members(i).args_size());
      members_[static_cast<size_t>(i)].args = absl::MakeConstSpan(args_).subspan(first, count);
      first += count;
    }
    task.members = members_;
    return absl::OkStatus();
  }

  absl::Status AddNoDependency(const v1::TaskSpec& spec, engine::TaskInput& task) const {
    const uint32_t count = builder_.kernel(task.kernel).argument_count;
    for (int i = 0; i < spec.no_dependency_args_size(); ++i) {
      const uint32_t arg = spec.no_dependency_args(i);
      if (arg >= count) {
        return Error(reason::kFieldInvalid,
                     absl::StrCat("there is no argument ", arg, "; kernel '",
                                  builder_.kernel(task.kernel).name, "' takes ", count))
            .At(absl::StrCat("no_dependency_args[", i, "]"))
            .With("have", arg)
            .With("want", count);
      }
      task.no_dependency_args |= 1u << arg;
    }
    return absl::OkStatus();
  }

  absl::StatusOr<uint32_t> KernelOf(const std::string& name, absl::string_view field) {
    const auto known = kernels_.find(name);
    if (known != kernels_.end()) return known->second;
    PTO_ASSIGN_OR_RETURN(std::shared_ptr<const Kernel> kernel,
                         ReadKernel(name, *target_.kernels, field));
    // The kernel may be known by its other spelling. The builder keeps the kernel, and so the key,
    // alive.
    const absl::string_view id = kernel->name();
    auto found = kernels_.find(id);
    if (found == kernels_.end()) {
      found = kernels_.emplace(id, builder_.AddKernel(std::move(kernel))).first;
    }
    const uint32_t index = found->second;
    kernels_.emplace(name, index);
    return index;
  }

  absl::StatusOr<uint32_t> ChipOf(const std::string& name, absl::string_view field) {
    const auto known = chips_.find(name);
    if (known != chips_.end()) return known->second;
    PTO_ASSIGN_OR_RETURN(const uint32_t chip, ReadChip(name, target_, field));
    chips_.emplace(name, chip);
    return chip;
  }

  // The task with that name, or the unnamed task with that index; kNone if there is none.
  uint32_t FindTask(absl::string_view name) const {
    const auto found = tasks_.find(name);
    if (found != tasks_.end()) return found->second;
    uint32_t index = 0;
    if (name.empty() || !absl::ascii_isdigit(name[0]) || (name[0] == '0' && name.size() > 1) ||
        !absl::ascii_isdigit(name.back()) || !absl::SimpleAtoi(name, &index) ||
        index >= static_cast<uint32_t>(spec_.tasks_size()) ||
        !spec_.tasks(static_cast<int>(index)).name().empty()) {
      return kNone;
    }
    return index;
  }

  absl::StatusOr<uint32_t> FindEarlier(absl::string_view name, uint32_t task) const {
    const uint32_t before = FindTask(name);
    if (before == kNone) {
      return Error(reason::kDependencyUnknown,
                   absl::StrCat("the graph has no task ", names::Quoted(name)))
          .Hint("name an earlier task; an index names only a task without a name");
    }
    if (before >= task) {
      return Error(reason::kDependencyCycle,
                   before == task ? absl::StrCat("task ", task, " waits for itself")
                                  : absl::StrCat("task ", task, " waits for ", names::Quoted(name),
                                                 ", which comes later, as task ", before))
          .With("task", task)
          .With("after", before);
    }
    return before;
  }

  // Adds the task's path and name to an error.
  absl::Status InTask(const absl::Status& status, int index) const {
    absl::Status placed = PrefixField(status, absl::StrCat("graph.tasks[", index, "]."));
    const std::string& name = spec_.tasks(index).name();
    return name.empty() ? placed : Annotate(placed, {{"task_name", name}});
  }

  const v1::GraphSpec& spec_;
  const absl::string_view session_;
  const engine::GraphTarget& target_;
  const GraphLimits& limits_;
  engine::GraphBuilder builder_;

  // The keys point into the message.
  IndexByName tensors_;
  IndexByName scalars_;
  IndexByName tasks_;
  IndexByName slots_;
  IndexByName kernels_;
  IndexByName chips_;
  absl::flat_hash_map<engine::Layout, uint32_t, LayoutHash> layouts_;
  absl::flat_hash_map<std::string, uint32_t> domains_;  // by id

  // For the current task; members, to avoid allocations.
  std::vector<uint32_t> args_;
  std::vector<engine::TaskInput::Member> members_;
  std::vector<uint32_t> vector_kernels_;
  std::vector<engine::ScalarInput> values_;
  std::vector<uint32_t> after_;
};

}  // namespace

absl::StatusOr<DecodedGraph> DecodeGraphSpec(const v1::GraphSpec& spec, absl::string_view session,
                                             const engine::GraphTarget& target,
                                             const GraphLimits& limits,
                                             engine::WorkBudget::Cancelled cancelled) {
  return SpecDecoder(spec, session, target, limits, std::move(cancelled)).Decode();
}

}  // namespace pto::daemon
