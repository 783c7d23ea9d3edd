#include "runtime/graph/builder.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/dtype.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"
#include "runtime/graph/image_writer.h"
#include "runtime/graph/launch_check.h"

namespace pto {
namespace {

// Records refer to each other in 32 bits.
constexpr uint64_t kMaxRecords = std::numeric_limits<uint32_t>::max();

constexpr uint32_t kNoLayout = std::numeric_limits<uint32_t>::max();

// Marks a reference to one of the tasks' own scalars until the number of named ones is known.
constexpr uint32_t kOwnScalar = 1u << 31;

template <typename T>
uint64_t BitsOf(T value) {
  static_assert(sizeof(T) == sizeof(uint64_t));
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

}  // namespace

ImageText GraphBuilder::AddText(absl::string_view text) {
  const ImageText range{static_cast<uint32_t>(text_.size()), static_cast<uint32_t>(text.size())};
  text_.insert(text_.end(), text.begin(), text.end());
  return range;
}

absl::StatusOr<uint32_t> GraphBuilder::AddKernel(absl::string_view name) {
  const pto_kernel_info* info = target_.kernels->Find(name);
  if (info == nullptr) {
    return Error(reason::kKernelUnknown, absl::StrCat("there is no kernel '", name, "'"))
        .At("kernel")
        .With("kernel", name);
  }
  kernel_infos_.push_back(info);
  kernels_.push_back({AddText(name), info->argument_count, info->scalar_count});
  accepted_layouts_.emplace_back(info->argument_count, kNoLayout);
  return static_cast<uint32_t>(kernels_.size() - 1);
}

uint32_t GraphBuilder::AddSlot(absl::string_view name) {
  auto [it, is_new] =
      slot_by_name_.try_emplace(std::string(name), static_cast<uint32_t>(slots_.size()));
  if (is_new) {
    ImageSlot slot;
    slot.name = AddText(name);
    slots_.push_back(slot);
  }
  return it->second;
}

absl::StatusOr<uint32_t> GraphBuilder::AddLayout(uint32_t dtype, absl::Span<const int64_t> shape,
                                                 absl::Span<const int64_t> strides) {
  PTO_ASSIGN_OR_RETURN(Layout layout, MakeLayout(dtype, shape, strides));
  layouts_.push_back(layout);
  if (options_.find_dependencies) footprints_.push_back(accesses_.AddFootprint(layout));
  return static_cast<uint32_t>(layouts_.size() - 1);
}

absl::StatusOr<uint32_t> GraphBuilder::AddTensor(uint32_t slot, uint32_t layout, int64_t offset) {
  if (slot >= slots_.size()) {
    return Error(reason::kTensorInvalid,
                 absl::StrCat("there is no buffer ", slot, ", only ", slots_.size()))
        .At("buffer")
        .With("have", slots_.size())
        .With("want", slot);
  }
  if (layout >= layouts_.size()) {
    return Error(reason::kTensorInvalid,
                 absl::StrCat("there is no layout ", layout, ", only ", layouts_.size()))
        .At("layout")
        .With("have", layouts_.size())
        .With("want", layout);
  }
  if (tensors_.size() >= kMaxRecords) {
    return Error(reason::kGraphTooLarge, "the graph has more tensors than can be numbered");
  }
  PTO_ASSIGN_OR_RETURN(const uint64_t bytes, BytesNeeded(layouts_[layout], offset));
  const auto index = static_cast<uint32_t>(tensors_.size());
  if (bytes > slots_[slot].min_bytes) {
    slots_[slot].min_bytes = bytes;
    slots_[slot].largest_tensor = index;
  }
  tensors_.push_back({slot, layout, offset});
  if (options_.find_dependencies) {
    const auto element = static_cast<int64_t>(kernels::DtypeSize(layouts_[layout].dtype));
    accesses_.AddRegion(slot, footprints_[layout], offset * element);
  }
  return index;
}

uint32_t GraphBuilder::AddScalar(absl::string_view name, const ScalarInput& value) {
  ImageScalar scalar;
  scalar.name = AddText(name);
  scalar_names_.push_back(scalar);
  named_values_.push_back(value);
  return static_cast<uint32_t>(scalar_names_.size() - 1);
}

absl::Status GraphBuilder::AskKernel(uint32_t kernel, absl::Span<const uint32_t> args) {
  const pto_kernel_info& info = *kernel_infos_[kernel];
  if (info.check != nullptr) {
    pto_tensor described[PTO_MAX_ARGS];
    for (size_t i = 0; i < args.size(); ++i) described[i] = Described(args[i]);
    char message[512] = "";
    if (info.check(described, info.argument_count, message, sizeof message) != 0) {
      message[sizeof message - 1] = '\0';
      return Error(reason::kArgumentInvalid,
                   *message != '\0' ? absl::string_view(message) : "the kernel refuses its tensors")
          .At("args")
          .With("kernel", info.name);
    }
  }
  std::vector<uint32_t>& accepted = accepted_layouts_[kernel];
  for (size_t i = 0; i < accepted.size(); ++i) accepted[i] = tensors_[args[i]].layout;
  return absl::OkStatus();
}

absl::Status GraphBuilder::CheckArgs(uint32_t kernel, absl::Span<const uint32_t> args) {
  const pto_kernel_info& info = *kernel_infos_[kernel];
  if (args.size() != info.argument_count) {
    return Error(reason::kArgumentCount,
                 absl::StrCat("kernel '", info.name, "' takes ", info.argument_count,
                              " tensors, not ", args.size()))
        .At("args")
        .With("kernel", info.name)
        .With("have", args.size())
        .With("want", info.argument_count);
  }
  // Tensors may be all over the memory: fetch them side by side.
  for (const uint32_t arg : args) {
    if (arg >= tensors_.size()) break;
    __builtin_prefetch(&tensors_[arg]);
    if (options_.find_dependencies) accesses_.Prefetch(arg);
  }
  std::vector<uint32_t>& accepted = accepted_layouts_[kernel];
  bool all_accepted = !accepted.empty();
  for (size_t i = 0; i < args.size(); ++i) {
    const auto field = [i] { return absl::StrCat("args[", i, "]"); };
    if (args[i] >= tensors_.size()) {
      return Error(reason::kTensorUnknown,
                   absl::StrCat("there is no tensor ", args[i], ", only ", tensors_.size()))
          .At(field())
          .With("tensor", args[i]);
    }
    const ImageTensor& tensor = tensors_[args[i]];
    if (tensor.layout == accepted[i]) continue;
    all_accepted = false;
    const uint32_t dtype = layouts_[tensor.layout].dtype;
    if ((info.arguments[i].dtypes & PTO_DTYPE_BIT(dtype)) == 0) {
      return Error(reason::kDtypeUnsupported,
                   absl::StrCat("kernel '", info.name, "' does not take ",
                                kernels::DtypeName(dtype), " as '", info.arguments[i].name, "'"))
          .At(field())
          .With("kernel", info.name)
          .With("argument", info.arguments[i].name)
          .With("dtype", kernels::DtypeName(dtype));
    }
  }
  return all_accepted ? absl::OkStatus() : AskKernel(kernel, args);
}

absl::Status GraphBuilder::PlaceTensor(const pto_kernel_info& info, uint32_t chip,
                                       uint32_t tensor) {
  ImageSlot& slot = slots_[tensors_[tensor].slot];
  if (slot.chip == chip) return absl::OkStatus();
  if (info.control != PTO_CONTROL_NONE) {
    // The engine reaches all chips.
    if (slot.chip == ImageSlot::kUnused) slot.chip = ImageSlot::kAnyChip;
    return absl::OkStatus();
  }
  if (slot.chip == ImageSlot::kUnused || slot.chip == ImageSlot::kAnyChip) {
    slot.chip = chip;
    return absl::OkStatus();
  }
  return Error(reason::kBufferOnOtherChip,
               absl::StrCat("buffer '",
                            absl::string_view(text_.data() + slot.name.begin, slot.name.size),
                            "' is used on chips/", slot.chip, " and on chips/", chip))
      .With("have", absl::StrCat("chips/", slot.chip))
      .With("want", absl::StrCat("chips/", chip));
}

absl::Status GraphBuilder::AddArgs(const TaskInput& task) {
  const pto_kernel_info& info = *kernel_infos_[task.kernel];
  const auto add = [&](uint32_t chip, absl::Span<const uint32_t> args) -> absl::Status {
    PTO_RETURN_IF_ERROR(CheckArgs(task.kernel, args));
    for (const uint32_t kernel : task.vector_kernels) PTO_RETURN_IF_ERROR(CheckArgs(kernel, args));
    for (size_t i = 0; i < args.size(); ++i) {
      absl::Status placed = PlaceTensor(info, chip, args[i]);
      if (!placed.ok()) return PrefixField(placed, absl::StrCat("args[", i, "]"));
    }
    args_.append(args);
    return absl::OkStatus();
  };
  if (task.members.empty()) return add(task.chip, task.args);
  for (size_t i = 0; i < task.members.size(); ++i) {
    absl::Status added = add(task.members[i].chip, task.members[i].args);
    if (!added.ok()) return PrefixField(added, absl::StrCat("members[", i, "]."));
  }
  return absl::OkStatus();
}

absl::Status GraphBuilder::AddDetail(const TaskInput& task, ImageTask& record) {
  if (task.members.empty() && task.vector_kernels.empty() && !task.predicate.has_value() &&
      task.timeout_ns == 0 && task.no_dependency_args == 0) {
    return absl::OkStatus();
  }
  record.traits |= kTaskHasDetail;
  ImageDetail detail;
  detail.task = static_cast<uint32_t>(tasks_.size());
  detail.no_dependency_args = task.no_dependency_args;
  detail.timeout_ns = task.timeout_ns;
  detail.first_member = static_cast<uint32_t>(members_.size());
  if (task.members.empty()) members_.push_back(task.chip);
  for (const TaskInput::Member& member : task.members) members_.push_back(member.chip);
  detail.member_count = static_cast<uint32_t>(members_.size()) - detail.first_member;
  std::copy(task.vector_kernels.begin(), task.vector_kernels.end(), detail.vector_kernels);
  if (task.timeout_ns != 0) record.traits |= kTaskTimed;
  if (!task.vector_kernels.empty()) record.traits |= kTaskMixed;
  if (task.predicate.has_value()) {
    const PredicateInput& predicate = *task.predicate;
    const auto at = [](absl::string_view field) { return absl::StrCat("predicate.", field); };
    if (predicate.tensor >= tensors_.size()) {
      return Error(reason::kTensorUnknown, absl::StrCat("there is no tensor ", predicate.tensor,
                                                        ", only ", tensors_.size()))
          .At(at("tensor"))
          .With("tensor", predicate.tensor);
    }
    const Layout& layout = layouts_[tensors_[predicate.tensor].layout];
    if (layout.extent != 1) {
      return Error(reason::kArgumentInvalid,
                   absl::StrCat("a predicate looks at one element, not at ", ShapeText(layout)))
          .At(at("tensor"))
          .With("have", ShapeText(layout))
          .With("want", 1);
    }
    if (layout.dtype < PTO_I8) {
      return Error(reason::kDtypeUnsupported,
                   absl::StrCat("a predicate looks at an integer, not at ",
                                kernels::DtypeName(layout.dtype)))
          .At(at("tensor"))
          .With("dtype", kernels::DtypeName(layout.dtype));
    }
    if (predicate.compare < PTO_EQ || predicate.compare > PTO_LE) {
      return Error(reason::kFieldInvalid,
                   absl::StrCat("comparison ", predicate.compare, " is not known"))
          .At(at("compare"));
    }
    absl::Status placed = PlaceTensor(*kernel_infos_[task.kernel], record.chip, predicate.tensor);
    if (!placed.ok()) return PrefixField(placed, at("tensor"));
    record.traits |= kTaskPredicated;
    detail.predicate_tensor = predicate.tensor;
    detail.predicate_compare = predicate.compare;
    detail.predicate_value = predicate.value;
  }
  details_.push_back(detail);
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> GraphBuilder::ScalarBits(const ScalarInput& scalar,
                                                  const pto_scalar_info& info) {
  switch (scalar.kind) {
    case ScalarInput::Kind::kBits:
      return scalar.bits;
    case ScalarInput::Kind::kInteger:
      return info.type == PTO_INTEGER ? BitsOf(scalar.i64)
                                      : BitsOf(static_cast<double>(scalar.i64));
    case ScalarInput::Kind::kFloat: {
      if (info.type == PTO_FLOAT) return BitsOf(scalar.f64);
      constexpr double kLimit = 9223372036854775808.0;  // 2^63
      if (!(scalar.f64 >= -kLimit && scalar.f64 < kLimit) || std::trunc(scalar.f64) != scalar.f64) {
        return Error(reason::kScalarInvalid,
                     absl::StrCat("scalar '", info.name, "' is an integer, not ", scalar.f64))
            .With("scalar", info.name)
            .With("have", scalar.f64);
      }
      return BitsOf(static_cast<int64_t>(scalar.f64));
    }
    case ScalarInput::Kind::kNamed:
      break;
  }
  return Error(reason::kScalarInvalid, "a named scalar cannot stand for another")
      .With("scalar", info.name);
}

absl::Status GraphBuilder::AddScalars(const TaskInput& task) {
  const pto_kernel_info& info = *kernel_infos_[task.kernel];
  if (task.scalars.size() != info.scalar_count) {
    return Error(reason::kScalarCount,
                 absl::StrCat("kernel '", info.name, "' takes ", info.scalar_count,
                              " scalars, not ", task.scalars.size()))
        .At("scalars")
        .With("kernel", info.name)
        .With("have", task.scalars.size())
        .With("want", info.scalar_count);
  }
  for (size_t i = 0; i < task.scalars.size(); ++i) {
    const ScalarInput& scalar = task.scalars[i];
    const auto field = [i] { return absl::StrCat("scalars[", i, "]"); };
    if (scalar.kind != ScalarInput::Kind::kNamed) {
      absl::StatusOr<uint64_t> bits = ScalarBits(scalar, info.scalars[i]);
      if (!bits.ok()) return PrefixField(bits.status(), field());
      if (info.control != PTO_CONTROL_NONE) {
        absl::Status known = CheckControlScalar(info, i, static_cast<int64_t>(*bits));
        if (!known.ok()) return PrefixField(known, field());
      }
      scalar_refs_.push_back(kOwnScalar | static_cast<uint32_t>(scalar_values_.size()));
      scalar_values_.push_back(*bits);
      continue;
    }
    if (scalar.named >= scalar_names_.size()) {
      return Error(reason::kScalarUnknown, absl::StrCat("there is no scalar ", scalar.named))
          .At(field());
    }
    ImageScalar& named = scalar_names_[scalar.named];
    if (named.type != 0 && named.type != static_cast<uint32_t>(info.scalars[i].type)) {
      return Error(reason::kScalarInvalid,
                   absl::StrCat("scalar '",
                                absl::string_view(text_.data() + named.name.begin, named.name.size),
                                "' is used as a float and as an integer"))
          .At(field());
    }
    named.type = info.scalars[i].type;
    scalar_refs_.push_back(scalar.named);
  }
  return absl::OkStatus();
}

absl::Status GraphBuilder::AddDependencies(const TaskInput& task, ImageTask& record) {
  const size_t first = dependencies_.size();
  if (task.dependencies.size() > 1) {
    for (const uint32_t before : task.dependencies) {
      if (before < dependents_.size()) __builtin_prefetch(&dependents_[before], 1);
    }
  }
  for (size_t i = 0; i < task.dependencies.size(); ++i) {
    const uint32_t before = task.dependencies[i];
    if (before >= tasks_.size()) {
      return Error(reason::kDependencyCycle,
                   before == tasks_.size()
                       ? absl::StrCat("task ", before, " waits for itself")
                       : absl::StrCat("task ", tasks_.size(), " waits for a later one, ", before))
          .At(absl::StrCat("after[", i, "]"))
          .With("task", tasks_.size())
          .With("after", before);
    }
    AddDependency(before);
  }
  if (options_.find_dependencies) FindDependencies(task);
  const uint64_t most = std::min(target_.max_dependencies, kMaxRecords);
  if (dependencies_.size() > most) {
    return Error(reason::kGraphTooLarge,
                 absl::StrCat("a graph has at most ", most, " dependencies"))
        .Limit("max_graph_dependencies", most, first, dependencies_.size() - first);
  }
  // Tensors that overlap in many ways can take long to compare, even without dependencies.
  if (accesses_.compared() / 4 > target_.max_dependencies) {
    return Error(reason::kGraphTooLarge, "too many tensors of the graph overlap")
        .Limit("max_graph_dependencies", most, first, accesses_.compared() / 4)
        .Hint("let tasks share tensors, or use tensors of the same strides");
  }
  record.dependencies = static_cast<uint32_t>(dependencies_.size() - first);
  return absl::OkStatus();
}

void GraphBuilder::FindDependencies(const TaskInput& task) {
  const auto own = static_cast<uint32_t>(tasks_.size());
  size_t fetched = 0;
  const auto find = [&](uint32_t kernel, absl::Span<const uint32_t> args) {
    const pto_kernel_info& info = *kernel_infos_[kernel];
    for (size_t i = 0; i < args.size(); ++i) {
      if ((task.no_dependency_args >> i & 1) != 0) continue;
      switch (info.arguments[i].direction) {
        case PTO_INPUT:
          accesses_.Read(own, args[i], found_);
          break;
        case PTO_OUTPUT:
        case PTO_INOUT:
          accesses_.Write(own, args[i], found_);
          break;
        case PTO_NO_DEPENDENCY:
          break;
      }
      for (; fetched < found_.size(); ++fetched) {
        __builtin_prefetch(&dependents_[found_[fetched]], 1);
      }
    }
  };
  if (task.members.empty()) {
    find(task.kernel, task.args);
    for (const uint32_t kernel : task.vector_kernels) find(kernel, task.args);
  }
  for (const TaskInput::Member& member : task.members) {
    find(task.kernel, member.args);
    for (const uint32_t kernel : task.vector_kernels) find(kernel, member.args);
  }
  if (task.predicate.has_value()) accesses_.Read(own, task.predicate->tensor, found_);
  for (const uint32_t before : found_) AddDependency(before);
  found_.clear();
}

absl::StatusOr<uint32_t> GraphBuilder::AddTask(const TaskInput& task) {
  if (tasks_.size() >= target_.max_tasks) {
    return Error(reason::kGraphTooLarge,
                 absl::StrCat("a graph has at most ", target_.max_tasks, " tasks"))
        .Limit("max_graph_tasks", target_.max_tasks, tasks_.size(), 1);
  }
  if (task.kernel >= kernel_infos_.size()) {
    return Error(reason::kKernelUnknown,
                 absl::StrCat("there is no kernel ", task.kernel, ", only ", kernel_infos_.size()))
        .At("kernel")
        .With("kernel", task.kernel);
  }
  ImageTask record;
  record.kernel = task.kernel;
  record.first_arg = static_cast<uint32_t>(args_.size());
  record.first_scalar = static_cast<uint32_t>(scalar_refs_.size());
  PTO_RETURN_IF_ERROR(CheckLaunch(target_, kernel_infos_, task, record));
  PTO_RETURN_IF_ERROR(AddArgs(task));
  PTO_RETURN_IF_ERROR(AddScalars(task));
  if (kernel_infos_[task.kernel]->plan != nullptr) {
    PTO_RETURN_IF_ERROR(CheckPlan(task, record));
  }
  PTO_RETURN_IF_ERROR(AddDetail(task, record));
  PTO_RETURN_IF_ERROR(AddDependencies(task, record));
  chip_used_[record.chip] = true;
  for (const TaskInput::Member& member : task.members) chip_used_[member.chip] = true;
  if (!task.name.empty()) {
    task_names_.resize(tasks_.size());
    task_names_.push_back(AddText(task.name));
  }
  tasks_.push_back(record);
  dependents_.push_back({});
  return static_cast<uint32_t>(tasks_.size() - 1);
}

absl::StatusOr<std::shared_ptr<const GraphImage>> GraphBuilder::Build() {
  if (tasks_.empty()) {
    return Error(reason::kGraphEmpty, "the graph has no task").At("tasks");
  }
  if (text_.size() > kMaxRecords) {
    return Error(reason::kGraphTooLarge, "the names of the graph are too long together");
  }

  // Not needed any more, and nearly as large as the image.
  accesses_ = AccessMap();

  // Scalars: the named ones first, then the tasks' own.
  BigVector<uint64_t> values;
  for (size_t i = 0; i < named_values_.size(); ++i) {
    const auto type = static_cast<pto_scalar_type>(
        scalar_names_[i].type == 0 ? static_cast<uint32_t>(PTO_FLOAT) : scalar_names_[i].type);
    absl::StatusOr<uint64_t> bits = ScalarBits(
        named_values_[i],
        {std::string(text_.data() + scalar_names_[i].name.begin, scalar_names_[i].name.size)
             .c_str(),
         type});
    if (!bits.ok()) {
      return PrefixField(bits.status(), absl::StrCat("scalars[", i, "].value"));
    }
    values.push_back(*bits);
  }
  values.append(absl::MakeConstSpan(scalar_values_.data(), scalar_values_.size()));
  const auto named = static_cast<uint32_t>(named_values_.size());
  for (uint32_t& ref : scalar_refs_) {
    if ((ref & kOwnScalar) != 0) ref = (ref & ~kOwnScalar) + named;
  }

  // Successors in rows: sum up how many there are, then place them.
  tasks_.push_back(ImageTask());
  const size_t count = tasks_.size() - 1;
  uint32_t next = 0;
  for (size_t i = 0; i < count; ++i) {
    tasks_[i].first_successor = next;
    next += dependents_[i].count;
    dependents_[i].count = tasks_[i].first_successor;  // from here on the place of the next one
  }
  tasks_[count].first_successor = next;
  BigVector<uint32_t> successors;
  successors.resize_uninitialized(dependencies_.size());
  BigVector<uint32_t> roots;
  size_t position = 0;
  for (size_t i = 0; i < count; ++i) {
    if (tasks_[i].dependencies == 0) roots.push_back(static_cast<uint32_t>(i));
    for (uint32_t d = 0; d < tasks_[i].dependencies; ++d, ++position) {
      // They may be all over the memory: fetch them ahead.
      if (position + 32 < dependencies_.size()) {
        __builtin_prefetch(&dependents_[dependencies_[position + 32]], 1);
        __builtin_prefetch(&successors[dependents_[dependencies_[position + 16]].count], 1);
      }
      successors[dependents_[dependencies_[position]].count++] = static_cast<uint32_t>(i);
    }
  }
  std::vector<uint32_t> chips;
  for (size_t i = 0; i < chip_used_.size(); ++i) {
    if (chip_used_[i]) chips.push_back(static_cast<uint32_t>(i));
  }
  if (!task_names_.empty()) task_names_.resize(count);

  ImageWriter writer;
  ImageHeader header;
  if (options_.find_dependencies) header.flags |= ImageHeader::kFindsDependencies;
  header.kernels = writer.Add(kernels_);
  header.slots = writer.Add(slots_);
  header.layouts = writer.Add(layouts_);
  header.tensors = writer.Add(tensors_);
  header.args = writer.Add(args_);
  header.scalar_names = writer.Add(scalar_names_);
  header.scalar_values = writer.Add(values);
  header.scalar_refs = writer.Add(scalar_refs_);
  header.tasks = writer.Add(tasks_);
  header.successors = writer.Add(successors);
  header.roots = writer.Add(roots);
  header.chips = writer.Add(chips);
  header.task_names = writer.Add(task_names_);
  header.text = writer.Add(text_);
  header.details = writer.Add(details_);
  header.members = writer.Add(members_);
  return std::make_shared<const GraphImage>(writer.Finish(header), std::move(kernel_infos_));
}

}  // namespace pto
