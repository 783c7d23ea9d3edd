#include "client/graph_builder.h"

#include <bit>
#include <limits>

#include "absl/strings/str_cat.h"
#include "client/internal/duration_proto.h"
#include "client/internal/graph_names.h"
#include "client/tensor_bytes.h"
#include "runtime/base/error.h"

namespace pto {
namespace {

using internal::IsName;
using internal::NameError;
using internal::TaskPath;
using internal::TensorPath;

constexpr size_t kMaxDims = 5;

// Validates a view. Returns an error message, or an empty string if the view is valid.
std::string WrongView(v1::DType dtype, absl::Span<const int64_t> shape,
                      absl::Span<const int64_t> strides, int64_t offset) {
  if (ElementBytes(dtype) == 0) return "unknown element type";
  if (shape.size() > kMaxDims) {
    return absl::StrCat("it has ", shape.size(), " dimensions; at most ", kMaxDims,
                        " are possible");
  }
  if (!strides.empty() && strides.size() != shape.size()) {
    return absl::StrCat("it has ", shape.size(), " dimensions and ", strides.size(), " strides");
  }
  for (int64_t size : shape) {
    if (size < 0) return absl::StrCat("a dimension has the size ", size);
  }
  for (int64_t stride : strides) {
    if (stride < 1) return absl::StrCat("a stride is ", stride, "; it must be at least 1");
  }
  if (offset < 0) return absl::StrCat("the offset is ", offset);
  return "";
}

// Bytes from the start of the buffer to the end of the view, which must be valid. Returns the
// maximum value on overflow.
uint64_t ViewEnd(v1::DType dtype, absl::Span<const int64_t> shape,
                 absl::Span<const int64_t> strides, int64_t offset) {
  constexpr uint64_t kTooLarge = std::numeric_limits<uint64_t>::max();
  uint64_t elements = static_cast<uint64_t>(offset) + 1;
  uint64_t contiguous = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    const auto size = static_cast<uint64_t>(shape[i]);
    if (size == 0) return 0;
    const uint64_t stride = strides.empty() ? contiguous : static_cast<uint64_t>(strides[i]);
    uint64_t span = 0;
    if (__builtin_mul_overflow(size - 1, stride, &span) ||
        __builtin_add_overflow(elements, span, &elements) ||
        __builtin_mul_overflow(contiguous, size, &contiguous)) {
      return kTooLarge;
    }
  }
  uint64_t bytes = 0;
  return __builtin_mul_overflow(elements, ElementBytes(dtype), &bytes) ? kTooLarge : bytes;
}

}  // namespace

GraphBuilder::GraphBuilder() { InternLaunch(LaunchRow()); }

void GraphBuilder::Fail(absl::Status status) {
  if (status_.ok()) status_ = std::move(status);
}

bool GraphBuilder::IsLast(const TaskRef& task, absl::string_view what) {
  if (task.index_ + 1 == task_count()) return true;
  Fail(Error(reason::kFieldInvalid,
             absl::StrCat(what, " of a task must be set before the next task is added"))
           .At(TaskPath(task.index_)));
  return false;
}

uint32_t GraphBuilder::Names::Intern(absl::string_view name) {
  if (const auto it = index_.find(name); it != index_.end()) return it->second;
  const auto index = static_cast<uint32_t>(list_.size());
  index_.emplace(name, index);
  list_.emplace_back(name);
  return index;
}

uint32_t GraphBuilder::InternLaunch(const LaunchRow& row) {
  const auto [it, is_new] = launch_index_.emplace(row, static_cast<uint32_t>(launches_.size()));
  if (is_new) launches_.push_back(row);
  return it->second;
}

uint32_t GraphBuilder::InternLayout(v1::DType dtype, absl::Span<const int64_t> shape,
                                    absl::Span<const int64_t> strides) {
  v1::Layout layout;
  layout.set_dtype(dtype);
  layout.mutable_shape()->Add(shape.begin(), shape.end());
  layout.mutable_strides()->Add(strides.begin(), strides.end());
  const auto [it, is_new] =
      layout_index_.emplace(layout.SerializeAsString(), static_cast<uint32_t>(layouts_.size()));
  if (is_new) layouts_.push_back(std::move(layout));
  return it->second;
}

TensorRef GraphBuilder::Tensor(absl::string_view name, const Buffer& buffer, v1::DType dtype,
                               absl::Span<const int64_t> shape, absl::Span<const int64_t> strides,
                               int64_t offset) {
  return AddTensor(name, buffer.id(), dtype, shape, strides, offset, &buffer);
}

TensorRef GraphBuilder::Tensor(absl::string_view name, absl::string_view slot, v1::DType dtype,
                               absl::Span<const int64_t> shape, absl::Span<const int64_t> strides,
                               int64_t offset) {
  return AddTensor(name, slot.empty() ? name : slot, dtype, shape, strides, offset, nullptr);
}

TensorRef GraphBuilder::AddTensor(absl::string_view name, absl::string_view slot, v1::DType dtype,
                                  absl::Span<const int64_t> shape,
                                  absl::Span<const int64_t> strides, int64_t offset,
                                  const Buffer* buffer) {
  const size_t index = tensors_.size();
  const bool repeated = !tensor_names_.emplace(name).second;
  if (repeated || !IsName(name)) Fail(NameError(name, repeated, TensorPath(index) + ".name"));
  if (const std::string wrong = WrongView(dtype, shape, strides, offset); !wrong.empty()) {
    Fail(Error(reason::kTensorInvalid, absl::StrCat("tensor '", name, "': ", wrong))
             .At(TensorPath(index))
             .With("tensor", name));
  } else if (buffer != nullptr && ViewEnd(dtype, shape, strides, offset) > buffer->bytes()) {
    Fail(Error(reason::kTensorOutOfBounds,
               absl::StrCat("tensor '", name, "' extends beyond the ", buffer->bytes(),
                            " bytes of ", buffer->name()))
             .At(TensorPath(index))
             .With("tensor", name)
             .With("have", buffer->bytes())
             .With("want", ViewEnd(dtype, shape, strides, offset)));
  }
  tensors_.push_back({std::string(name), slots_.Intern(slot), InternLayout(dtype, shape, strides),
                      offset, buffer == nullptr ? -1 : static_cast<int64_t>(buffer->chip())});
  return TensorRef(this, static_cast<uint32_t>(index));
}

ScalarRef GraphBuilder::Scalar(absl::string_view name, double value) {
  return AddScalar(name, {ScalarKind::kFloat, std::bit_cast<uint64_t>(value)});
}

ScalarRef GraphBuilder::Scalar(absl::string_view name, int64_t value) {
  return AddScalar(name, {ScalarKind::kInteger, std::bit_cast<uint64_t>(value)});
}

ScalarRef GraphBuilder::AddScalar(absl::string_view name, ScalarRow value) {
  const size_t index = named_scalars_.size();
  const bool repeated = !scalar_names_.emplace(name).second;
  if (repeated || !IsName(name)) {
    Fail(NameError(name, repeated, absl::StrCat("graph.scalars[", index, "].name")));
  }
  named_scalars_.push_back({std::string(name), value});
  return ScalarRef(this, static_cast<uint32_t>(index));
}

GraphBuilder::Rows GraphBuilder::RowsOf(uint64_t task) const {
  const TaskRow& row = tasks_[task];
  const bool is_last = task + 1 == tasks_.size();
  const uint64_t end_arg = is_last ? args_.size() : tasks_[task + 1].first_arg;
  const uint64_t end_scalar = is_last ? scalars_.size() : tasks_[task + 1].first_scalar;
  const uint64_t end_dep = is_last ? deps_.size() : tasks_[task + 1].first_dep;
  return {absl::MakeSpan(args_).subspan(row.first_arg, end_arg - row.first_arg),
          absl::MakeSpan(scalars_).subspan(row.first_scalar, end_scalar - row.first_scalar),
          absl::MakeSpan(deps_).subspan(row.first_dep, end_dep - row.first_dep)};
}

const GraphBuilder::ExtraRow* GraphBuilder::ExtraOf(uint64_t task) const {
  if (extras_.empty()) return nullptr;
  const auto it = extras_.find(task);
  return it == extras_.end() ? nullptr : &it->second;
}

void GraphBuilder::AddExtra(const ExtraRow& row, v1::TaskSpec& task) const {
  for (const MemberRow& in : row.members) {
    v1::TaskMember& member = *task.add_members();
    member.set_chip(absl::StrCat("chips/", chips_[in.chip]));
    for (uint32_t arg : in.args) member.add_args(tensors_[arg].name);
  }
  for (uint32_t arg = 0; arg < 32; ++arg) {
    if ((row.no_dependency_mask >> arg & 1) != 0) task.add_no_dependency_args(arg);
  }
  if (!row.predicate.has_value()) return;
  task.mutable_predicate()->set_tensor(tensors_[row.predicate->tensor].name);
  task.mutable_predicate()->set_compare(row.predicate->compare);
  task.mutable_predicate()->set_value(row.predicate->value);
}

absl::Status GraphBuilder::Check() const {
  if (!status_.ok()) return status_;
  if (tasks_.empty()) return Error(reason::kGraphEmpty, "the graph has no task").At("graph.tasks");
  return absl::OkStatus();
}

v1::Scalar GraphBuilder::ToScalar(const ScalarRow& row) const {
  v1::Scalar scalar;
  switch (row.kind) {
    case ScalarKind::kFloat:
      scalar.set_f64(std::bit_cast<double>(row.bits));
      break;
    case ScalarKind::kInteger:
      scalar.set_i64(std::bit_cast<int64_t>(row.bits));
      break;
    case ScalarKind::kRef:
      scalar.set_ref(named_scalars_[row.bits].name);
      break;
    case ScalarKind::kDomain:
      scalar.set_domain(domains_.list()[row.bits]);
      break;
  }
  return scalar;
}

v1::LaunchSpec GraphBuilder::ToLaunch(const LaunchRow& row) {
  v1::LaunchSpec launch;
  launch.set_core(row.core);
  launch.set_block_num(row.blocks);
  launch.set_require_sync_start(row.sync_start);
  for (const std::string& kernel : row.vector_kernels) launch.add_vector_kernels(kernel);
  if (row.timeout != absl::ZeroDuration()) {
    internal::ToProto(row.timeout, *launch.mutable_timeout());
  }
  return launch;
}

absl::StatusOr<v1::GraphSpec> GraphBuilder::Build() const {
  if (absl::Status wrong = Check(); !wrong.ok()) return wrong;
  v1::GraphSpec graph;
  graph.set_explicit_dependencies_only(explicit_dependencies_only_);
  for (const TensorRow& row : tensors_) {
    v1::TensorSpec& tensor = *graph.add_tensors();
    tensor.set_name(row.name);
    tensor.set_buffer(slots_.list()[row.slot]);
    tensor.set_dtype(layouts_[row.layout].dtype());
    *tensor.mutable_shape() = layouts_[row.layout].shape();
    *tensor.mutable_strides() = layouts_[row.layout].strides();
    tensor.set_offset(row.offset);
  }
  for (const NamedScalar& named : named_scalars_) {
    v1::ScalarSpec& scalar = *graph.add_scalars();
    scalar.set_name(named.name);
    *scalar.mutable_value() = ToScalar(named.value);
  }
  graph.mutable_tasks()->Reserve(static_cast<int>(tasks_.size()));
  for (uint64_t i = 0; i < tasks_.size(); ++i) {
    const Rows rows = RowsOf(i);
    v1::TaskSpec& task = *graph.add_tasks();
    if (const auto it = task_names_.find(i); it != task_names_.end()) task.set_name(it->second);
    task.set_kernel(kernels_.list()[tasks_[i].kernel]);
    if (const ExtraRow* extra = ExtraOf(i); extra != nullptr) AddExtra(*extra, task);
    if (task.members().empty()) task.set_chip(absl::StrCat("chips/", chips_[tasks_[i].chip]));
    for (uint32_t arg : rows.args) task.add_args(tensors_[arg].name);
    for (const ScalarRow& scalar : rows.scalars) *task.add_scalars() = ToScalar(scalar);
    if (tasks_[i].launch != 0) *task.mutable_launch() = ToLaunch(launches_[tasks_[i].launch]);
    for (uint32_t dep : rows.deps) {
      const auto it = task_names_.find(dep);
      task.add_after(it != task_names_.end() ? it->second : absl::StrCat(dep));
    }
  }
  return graph;
}

}  // namespace pto
