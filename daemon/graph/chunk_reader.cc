#include "daemon/graph/chunk_reader.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "daemon/graph/fields.h"
#include "kernels/domain_scalar.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::daemon {
namespace {

// The number in `[3]`; 0 for anything else.
uint32_t IndexIn(absl::string_view field) {
  uint32_t index = 0;
  if (absl::ConsumePrefix(&field, "[") && absl::ConsumeSuffix(&field, "]")) {
    (void)absl::SimpleAtoi(field, &index);
  }
  return index;
}

std::string At(absl::string_view list, int index) { return absl::StrCat(list, "[", index, "]"); }

}  // namespace

template <typename Builder>
struct ChunkReader<Builder>::Columns {
  const v1::TaskBlock& chunk;
  uint32_t number;  // of the chunk
  int next_arg = 0;
  int next_scalar = 0;
  int next_dependency = 0;
  int next_extra = 0;
  int64_t last_arg = 0;
};

// ---- errors

template <typename Builder>
std::string ChunkReader<Builder>::Path(absl::string_view kind, uint32_t chunk,
                                       absl::string_view rest) const {
  return options_.paths == Paths::kOpen ? absl::StrCat("blocks[", chunk, "].", kind, ".", rest)
                                        : absl::StrCat(kind, "[block ", chunk, "].", rest);
}

template <typename Builder>
std::string ChunkReader<Builder>::ChunkPath(absl::string_view kind, uint32_t chunk,
                                            absl::string_view column, size_t index) const {
  return absl::StrCat(Path(kind, chunk, column), "[", index, "]");
}

template <typename Builder>
absl::Status ChunkReader<Builder>::ChunkError(absl::string_view kind, uint32_t chunk,
                                              absl::string_view column, size_t index, uint32_t row,
                                              absl::string_view message) const {
  Error error(reason::kBlockInvalid, message);
  error.At(ChunkPath(kind, chunk, column, index)).With("block", chunk).With("row", row);
  if (options_.paths == Paths::kOpen && kind == "tasks") error.With("task", builder_->task_count());
  return error;
}

// For a column whose length differs from the others; `row` is the first row without a value, or the
// first one too many.
template <typename Builder>
absl::Status ChunkReader<Builder>::LengthError(absl::string_view kind, uint32_t chunk,
                                               absl::string_view column, int have, int want) const {
  return Error(reason::kBlockInvalid,
               absl::StrCat("the column has ", have, " values for ", want, " rows"))
      .At(Path(kind, chunk, column))
      .With("block", chunk)
      .With("row", have < want ? have : want)
      .With("have", have)
      .With("want", want);
}

// For a chunk that would make the graph too large.
template <typename Builder>
absl::Status ChunkReader<Builder>::TooLargeError(absl::string_view kind, uint32_t chunk,
                                                 absl::string_view column, absl::string_view things,
                                                 absl::string_view limit_name, uint64_t limit,
                                                 uint64_t have, int more) const {
  return Error(reason::kGraphTooLarge, absl::StrCat("a graph has at most ", limit, " ", things))
      .At(Path(kind, chunk, column))
      .With("block", chunk)
      .Limit(limit_name, limit, have, static_cast<uint64_t>(more));
}

// ---- lists

template <typename Builder>
absl::Status ChunkReader<Builder>::AddKernels(
    const google::protobuf::RepeatedPtrField<std::string>& names, absl::string_view path) {
  for (int i = 0; i < names.size(); ++i) {
    PTO_ASSIGN_OR_RETURN(std::shared_ptr<const Kernel> kernel,
                         ReadKernel(names[i], *source_, At(path, i)));
    kernels_.push_back(builder_->AddKernel(std::move(kernel)));
  }
  return absl::OkStatus();
}

template <typename Builder>
absl::Status ChunkReader<Builder>::AddChips(
    const google::protobuf::RepeatedPtrField<std::string>& names, absl::string_view path) {
  for (int i = 0; i < names.size(); ++i) {
    PTO_ASSIGN_OR_RETURN(const uint32_t chip, ReadChip(names[i], target_, At(path, i)));
    chips_.push_back(chip);
  }
  return absl::OkStatus();
}

template <typename Builder>
absl::Status ChunkReader<Builder>::AddDomains(
    const google::protobuf::RepeatedPtrField<std::string>& names, absl::string_view session,
    absl::string_view path) {
  for (int i = 0; i < names.size(); ++i) {
    PTO_ASSIGN_OR_RETURN(const std::string id, ReadDomain(names[i], session, At(path, i)));
    const auto [known, is_new] = domain_by_id_.try_emplace(id, 0);
    if (is_new) known->second = builder_->AddDomain(DomainScalarName(id));
    domains_.push_back(known->second);
  }
  return absl::OkStatus();
}

template <typename Builder>
absl::Status ChunkReader<Builder>::AddLayouts(
    const google::protobuf::RepeatedPtrField<v1::Layout>& layouts, absl::string_view path) {
  for (int i = 0; i < layouts.size(); ++i) {
    const v1::Layout& in = layouts[i];
    const absl::StatusOr<engine::Layout> layout = ReadLayout(in.dtype(), in.shape(), in.strides());
    if (!layout.ok()) return PrefixField(layout.status(), At(path, i) + ".");
    // One to one, so that indices stay the same.
    PTO_RETURN_IF_ERROR(builder_
                            ->AddLayout(layout->dtype,
                                        absl::MakeConstSpan(layout->shape).first(layout->ndim),
                                        absl::MakeConstSpan(layout->strides).first(layout->ndim))
                            .status());
    ++layout_count_;
  }
  return absl::OkStatus();
}

template <typename Builder>
absl::Status ChunkReader<Builder>::AddLaunches(
    const google::protobuf::RepeatedPtrField<v1::LaunchSpec>& launches, absl::string_view list) {
  // An empty launch takes two bytes in the message, and a hundred times that here.
  const size_t count = launches_.size() + static_cast<size_t>(launches.size());
  if (count > options_.max_block_tasks) {
    return Error(reason::kGraphTooLarge,
                 absl::StrCat("a graph has at most ", options_.max_block_tasks, " launch specs"))
        .At(list)
        .Limit("max_block_tasks", options_.max_block_tasks, 0, count);
  }
  for (int i = 0; i < launches.size(); ++i) {
    const v1::LaunchSpec& launch = launches[i];
    engine::TaskInput task;
    const std::string path = At(list, i) + ".";
    absl::Status status = ReadLaunch(launch, task);
    if (!status.ok()) return PrefixField(status, path);
    if (!v1::Core_IsValid(launch.core())) {
      return Error(reason::kLaunchInvalid,
                   absl::StrCat("core kind ", static_cast<int>(launch.core()), " is not known"))
          .At(path + "core")
          .Hint("use AIC, AIV or MIX");
    }
    if (launch.vector_kernels_size() > 2) {
      return Error(reason::kLaunchInvalid, "a cluster has two vector cores")
          .At(path + "vector_kernels")
          .With("have", launch.vector_kernels_size())
          .With("want", 2);
    }
    std::vector<uint32_t>& kernels = vector_kernels_.emplace_back();
    for (int k = 0; k < launch.vector_kernels_size(); ++k) {
      PTO_ASSIGN_OR_RETURN(std::shared_ptr<const Kernel> kernel,
                           ReadKernel(launch.vector_kernels(k), *source_,
                                      absl::StrCat(path, "vector_kernels[", k, "]")));
      kernels.push_back(builder_->AddKernel(std::move(kernel)));
    }
    // Does not move when the outer list grows.
    task.vector_kernels = kernels;
    launches_.push_back(task);
    launch_paths_.push_back(At(list, i));
  }
  return absl::OkStatus();
}

// ---- chunks

template <typename Builder>
absl::Status ChunkReader<Builder>::AddTensors(const v1::TensorBlock& chunk, uint32_t number) {
  const int count = chunk.buffer_size();
  if (chunk.layout_size() != count) {
    return LengthError("tensors", number, "layout", chunk.layout_size(), count);
  }
  if (chunk.offset_delta_size() != count) {
    return LengthError("tensors", number, "offset_delta", chunk.offset_delta_size(), count);
  }
  if (static_cast<uint64_t>(count) + tensor_count_ > options_.limits.max_tensors) {
    return TooLargeError("tensors", number, "buffer", "tensors", "max_graph_tensors",
                         options_.limits.max_tensors, tensor_count_, count);
  }
  int64_t offset = 0;
  for (int i = 0; i < count; ++i) {
    const auto row = static_cast<uint32_t>(i);
    const uint32_t buffer = chunk.buffer(i);
    if (buffer >= slots_.size()) {
      return ChunkError("tensors", number, "buffer", row, row,
                        absl::StrCat("there is no buffer ", buffer, ", only ", slots_.size()));
    }
    const uint32_t layout = chunk.layout(i);
    if (layout >= layout_count_) {
      return ChunkError("tensors", number, "layout", row, row,
                        absl::StrCat("there is no layout ", layout, ", only ", layout_count_));
    }
    if (__builtin_add_overflow(offset, chunk.offset_delta(i), &offset)) {
      return ChunkError("tensors", number, "offset_delta", row, row,
                        "the offset is beyond 64 bits");
    }
    const absl::StatusOr<uint32_t> index = builder_->AddTensor(slots_[buffer], layout, offset);
    if (!index.ok()) {
      return Relocate(index.status(), ChunkPath("tensors", number, "offset_delta", row),
                      {{"block", absl::StrCat(number)}, {"row", absl::StrCat(row)}});
    }
    tensor_count_ = *index + 1;
  }
  return absl::OkStatus();
}

template <typename Builder>
absl::Status ChunkReader<Builder>::CheckTaskChunk(const v1::TaskBlock& chunk,
                                                  uint32_t number) const {
  const int count = chunk.kernel_size();
  const auto path = [&](absl::string_view field) { return Path("tasks", number, field); };
  if (static_cast<uint32_t>(count) > options_.max_block_tasks) {
    return Error(reason::kBlockInvalid,
                 absl::StrCat("a chunk has at most ", options_.max_block_tasks, " tasks, not ",
                              count))
        .At(path("kernel"))
        .With("block", number)
        .With("row", options_.max_block_tasks)
        .Limit("max_block_tasks", options_.max_block_tasks, 0, static_cast<uint64_t>(count))
        .Hint("send more chunks with fewer tasks each");
  }
  if (chunk.first_task() != builder_->task_count()) {
    return Error(reason::kBlockInvalid,
                 absl::StrCat("the chunk begins with task ", chunk.first_task(), ", but ",
                              builder_->task_count(), " came before"))
        .At(path("first_task"))
        .With("block", number)
        .With("row", 0)
        .With("have", chunk.first_task())
        .With("want", builder_->task_count());
  }
  const uint64_t total = uint64_t{builder_->task_count()} + static_cast<uint64_t>(count);
  if (options_.max_tasks != 0 && total > options_.max_tasks) {
    return TooLargeError("tasks", number, "kernel", "tasks", "max_graph_tasks", options_.max_tasks,
                         builder_->task_count(), count);
  }
  if (static_cast<uint64_t>(chunk.dep_back_size()) + edge_count_ > options_.limits.max_edges) {
    return TooLargeError("tasks", number, "dep_back", "dependencies", "max_graph_edges",
                         options_.limits.max_edges, edge_count_, chunk.dep_back_size());
  }
  if (!chunk.chip().empty() && chunk.chip_size() != count) {
    return LengthError("tasks", number, "chip", chunk.chip_size(), count);
  }
  if (!chunk.launch().empty() && chunk.launch_size() != count) {
    return LengthError("tasks", number, "launch", chunk.launch_size(), count);
  }
  if (!chunk.dep_count().empty() && chunk.dep_count_size() != count) {
    return LengthError("tasks", number, "dep_count", chunk.dep_count_size(), count);
  }
  absl::Status rows = ExtraReader::CheckRows(chunk, static_cast<uint32_t>(count));
  if (!rows.ok()) {
    return Annotate(PrefixField(rows, path("")), {{"block", absl::StrCat(number)}});
  }
  return absl::OkStatus();
}

template <typename Builder>
absl::Status ChunkReader<Builder>::AddTasks(const v1::TaskBlock& chunk, uint32_t number) {
  PTO_RETURN_IF_ERROR(CheckTaskChunk(chunk, number));
  Columns columns{chunk, number};
  const auto count = static_cast<uint32_t>(chunk.kernel_size());
  for (uint32_t row = 0; row < count; ++row) PTO_RETURN_IF_ERROR(AddTask(columns, row));

  const auto left_over = [&](absl::string_view column, int used, int size) -> absl::Status {
    if (used == size) return absl::OkStatus();
    return ChunkError("tasks", columns.number, column, static_cast<size_t>(used), count,
                      absl::StrCat("the tasks of the chunk use ", used, " of ", size, " values"));
  };
  PTO_RETURN_IF_ERROR(left_over("arg_delta", columns.next_arg, chunk.arg_delta_size()));
  PTO_RETURN_IF_ERROR(left_over("scalar", columns.next_scalar, chunk.scalar_size()));
  PTO_RETURN_IF_ERROR(left_over("dep_back", columns.next_dependency, chunk.dep_back_size()));
  edge_count_ += static_cast<uint64_t>(chunk.dep_back_size());
  return absl::OkStatus();
}

template <typename Builder>
absl::Status ChunkReader<Builder>::AddTask(Columns& columns, uint32_t row) {
  const v1::TaskBlock& chunk = columns.chunk;
  const auto i = static_cast<int>(row);
  const auto no_such = [&](absl::string_view column, uint32_t index, size_t size) {
    return ChunkError("tasks", columns.number, column, row, row,
                      absl::StrCat("there is no ", column, " ", index, ", only ", size));
  };
  const uint32_t kernel = chunk.kernel(i);
  if (kernel >= kernels_.size()) return no_such("kernel", kernel, kernels_.size());
  const uint32_t chip = chunk.chip().empty() ? 0 : chunk.chip(i);
  if (chip >= chips_.size()) return no_such("chip", chip, chips_.size());
  const uint32_t launch = chunk.launch().empty() ? 0 : chunk.launch(i);
  const size_t launches = std::max<size_t>(1, launches_.size());
  if (launch >= launches) return no_such("launch", launch, launches);

  engine::TaskInput task = launches_.empty() ? engine::TaskInput() : launches_[launch];
  task.kernel = kernels_[kernel];
  task.chip = chips_[chip];
  const auto first_arg = static_cast<uint32_t>(columns.next_arg);
  PTO_RETURN_IF_ERROR(ReadExtra(columns, row, task));
  if (task.members.empty()) {
    PTO_RETURN_IF_ERROR(ReadArgs(columns, row, task));
  } else if (chip != 0) {
    return ChunkError("tasks", columns.number, "chip", row, row,
                      "a task with members has its chips there; this column must be 0");
  }
  PTO_RETURN_IF_ERROR(ReadScalars(columns, row, task));
  PTO_RETURN_IF_ERROR(ReadDependencies(columns, row, task));
  const absl::StatusOr<uint32_t> index = builder_->AddTask(task);
  if (!index.ok()) return Locate(index.status(), columns, row, first_arg, launch);
  return absl::OkStatus();
}

template <typename Builder>
absl::Status ChunkReader<Builder>::ReadExtra(Columns& columns, uint32_t row,
                                             engine::TaskInput& task) {
  const int next = columns.next_extra;
  if (next == columns.chunk.extras_size() || columns.chunk.extras(next).row() != row) {
    return absl::OkStatus();
  }
  ++columns.next_extra;
  const absl::Status status = extra_.Read(columns.chunk.extras(next), builder_->kernel(task.kernel),
                                          chips_, tensor_count_, task);
  if (status.ok()) return status;
  return Annotate(
      PrefixField(status,
                  ChunkPath("tasks", columns.number, "extras", static_cast<size_t>(next)) + "."),
      {{"block", absl::StrCat(columns.number)}, {"row", absl::StrCat(row)}});
}

template <typename Builder>
absl::Status ChunkReader<Builder>::ReadArgs(Columns& columns, uint32_t row,
                                            engine::TaskInput& task) {
  const v1::TaskBlock& chunk = columns.chunk;
  const auto count = static_cast<int>(builder_->kernel(task.kernel).argument_count);
  if (count > chunk.arg_delta_size() - columns.next_arg) {
    return ChunkError("tasks", columns.number, "arg_delta",
                      static_cast<size_t>(chunk.arg_delta_size()), row,
                      absl::StrCat("the column ends before the arguments of row ", row));
  }
  for (int i = 0; i < count; ++i) {
    const int position = columns.next_arg++;
    const auto wrong = [&](absl::string_view message) {
      return ChunkError("tasks", columns.number, "arg_delta", static_cast<size_t>(position), row,
                        message);
    };
    if (__builtin_add_overflow(columns.last_arg, chunk.arg_delta(position), &columns.last_arg)) {
      return wrong("the tensor's index is beyond 64 bits");
    }
    if (columns.last_arg < 0 || columns.last_arg >= int64_t{tensor_count_}) {
      return wrong(
          absl::StrCat("there is no tensor ", columns.last_arg, " yet, only ", tensor_count_));
    }
    args_[i] = static_cast<uint32_t>(columns.last_arg);
  }
  task.args = absl::MakeConstSpan(args_, static_cast<size_t>(count));
  return absl::OkStatus();
}

template <typename Builder>
absl::Status ChunkReader<Builder>::ReadScalars(Columns& columns, uint32_t row,
                                               engine::TaskInput& task) {
  const v1::TaskBlock& chunk = columns.chunk;
  const auto count = static_cast<int>(builder_->kernel(task.kernel).scalar_count);
  if (count > chunk.scalar_size() - columns.next_scalar) {
    return ChunkError("tasks", columns.number, "scalar", static_cast<size_t>(chunk.scalar_size()),
                      row, absl::StrCat("the column ends before the scalars of row ", row));
  }
  const pto_scalar_info* const infos = builder_->kernel(task.kernel).scalars;
  for (int i = 0; i < count; ++i) {
    const uint64_t bits = chunk.scalar(columns.next_scalar++);
    if (infos[i].type == kDomainScalar) {
      if (bits >= domains_.size()) {
        return ChunkError("tasks", columns.number, "scalar",
                          static_cast<size_t>(columns.next_scalar - 1), row,
                          absl::StrCat("there is no domain ", bits, ", only ", domains_.size()));
      }
      scalars_[i].kind = engine::ScalarInput::Kind::kNamed;
      scalars_[i].named = domains_[bits];
      continue;
    }
    scalars_[i].kind = engine::ScalarInput::Kind::kBits;
    scalars_[i].bits = bits;
  }
  task.scalars = absl::MakeConstSpan(scalars_, static_cast<size_t>(count));
  return absl::OkStatus();
}

template <typename Builder>
absl::Status ChunkReader<Builder>::ReadDependencies(Columns& columns, uint32_t row,
                                                    engine::TaskInput& task) {
  const v1::TaskBlock& chunk = columns.chunk;
  const uint32_t count = chunk.dep_count().empty() ? 0 : chunk.dep_count(static_cast<int>(row));
  if (count > static_cast<uint32_t>(chunk.dep_back_size() - columns.next_dependency)) {
    return ChunkError(
        "tasks", columns.number, "dep_count", row, row,
        absl::StrCat("row ", row, " has ", count, " dependencies, but dep_back has ",
                     chunk.dep_back_size() - columns.next_dependency, " values left"));
  }
  const uint32_t own = builder_->task_count();
  dependencies_.clear();
  for (uint32_t i = 0; i < count; ++i) {
    const int position = columns.next_dependency++;
    const uint32_t back = chunk.dep_back(position);
    if (back == 0 || back > own) {
      return ChunkError("tasks", columns.number, "dep_back", static_cast<size_t>(position), row,
                        back == 0
                            ? absl::StrCat("task ", own, " waits for itself")
                            : absl::StrCat("task ", own, " has no task ", back, " before it"));
    }
    dependencies_.push_back(own - back);
  }
  task.dependencies = dependencies_;
  return absl::OkStatus();
}

template <typename Builder>
absl::Status ChunkReader<Builder>::Locate(const absl::Status& status, const Columns& columns,
                                          uint32_t row, uint32_t first_arg, uint32_t launch) const {
  const absl::optional<ErrorDetail> detail = GetErrorDetail(status);
  if (!detail.has_value()) return status;
  std::string path = ChunkPath("tasks", columns.number, "kernel", row);
  absl::string_view field = detail->field;
  if (absl::ConsumePrefix(&field, "launch.")) {
    path = launches_.empty() ? ChunkPath("tasks", columns.number, "launch", row)
                             : absl::StrCat(launch_paths_[launch], ".", field);
  } else if (absl::ConsumePrefix(&field, "args")) {
    path = ChunkPath("tasks", columns.number, "arg_delta", first_arg + IndexIn(field));
  } else if (absl::ConsumePrefix(&field, "scalars")) {
    // All scalars of the task have been read.
    const uint32_t count =
        builder_->kernel(kernels_[columns.chunk.kernel(static_cast<int>(row))]).scalar_count;
    const auto next = static_cast<uint32_t>(columns.next_scalar);
    path = ChunkPath("tasks", columns.number, "scalar", next - count + IndexIn(field));
  } else if (absl::StartsWith(field, "members") || absl::StartsWith(field, "predicate")) {
    path = absl::StrCat(
        ChunkPath("tasks", columns.number, "extras", static_cast<size_t>(columns.next_extra - 1)),
        ".", field);
  }
  return Relocate(status, path,
                  {{"block", absl::StrCat(columns.number)},
                   {"row", absl::StrCat(row)},
                   {"task", absl::StrCat(builder_->task_count())}});
}

template class ChunkReader<engine::GraphBuilder>;
template class ChunkReader<engine::OpenGraph>;

}  // namespace pto::daemon
