#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "client/buffer.h"
#include "client/tensor.h"
#include "pto/v1/graph.pb.h"
#include "pto/v1/run.pb.h"
#include "pto/v1/tensor.pb.h"

namespace pto {

class GraphBuilder;

// Refers to a tensor in a GraphBuilder. Valid only for that builder.
class TensorRef {
 private:
  friend class GraphBuilder;
  friend class TaskRef;
  TensorRef(const GraphBuilder* graph, uint32_t index) : graph_(graph), index_(index) {}
  const GraphBuilder* graph_;
  uint32_t index_;
};

// Refers to a named scalar in a GraphBuilder. Valid only for that builder.
class ScalarRef {
 private:
  friend class GraphBuilder;
  friend class TaskRef;
  ScalarRef(const GraphBuilder* graph, uint32_t index) : graph_(graph), index_(index) {}
  const GraphBuilder* graph_;
  uint32_t index_;
};

// The part of a group task on one chip.
struct GroupMember {
  uint32_t chip = 0;
  std::vector<TensorRef> args = {};
};

// Refers to a task in a GraphBuilder. Its methods set properties of the task. Call them before the
// next task is added: the builder stores tasks in columns and can change only the last one.
class TaskRef {
 public:
  // Unique in the graph.
  TaskRef& Name(absl::string_view name);
  // Adds the next scalar, in the order that the kernel declares. Floating-point values become
  // double and integers int64; use the type that the kernel expects.
  template <std::floating_point F>
  TaskRef& Scalar(F value) {
    return AddFloat(static_cast<double>(value));
  }
  template <std::integral I>
  TaskRef& Scalar(I value) {
    return AddInteger(static_cast<int64_t>(value));
  }
  TaskRef& Scalar(ScalarRef scalar);
  // Adds a domain of the session as the next scalar, for a parameter of type DOMAIN, by its id. The
  // kernel gets the windows of all ranks, and the rank of its chip.
  TaskRef& Domain(absl::string_view id);
  // Number of blocks, at least 1 (default 1).
  TaskRef& Blocks(uint32_t count);
  // Core type (default: the kernel's).
  TaskRef& Core(v1::Core core);
  // All blocks start at the same time.
  TaskRef& SyncStart();
  // Kernels that the vector cores of each cluster run, with the same arguments, while the cube core
  // runs the task's kernel. At most two; only for v1::MIX.
  TaskRef& VectorKernels(absl::Span<const std::string> kernels);
  TaskRef& VectorKernels(std::initializer_list<std::string> kernels) {
    return VectorKernels(absl::Span<const std::string>(kernels.begin(), kernels.size()));
  }
  // Time limit from start to end of the task. Zero means the run's task timeout.
  TaskRef& Timeout(absl::Duration timeout);
  // Executes the task only if the tensor, a single integer, compares true when the task is ready.
  // Otherwise the task is skipped and its successors proceed.
  TaskRef& If(TensorRef tensor, v1::Comparison compare, int64_t value);
  // Ignores the argument at this position when dependencies are derived, in both directions.
  TaskRef& NoDependency(uint32_t arg);
  // Makes this task depend on an earlier task: that task must succeed before this one starts.
  TaskRef& After(const TaskRef& task);
  TaskRef& After(std::initializer_list<TaskRef> tasks);

  // Position in the graph, from 0. Events and errors identify the task by it.
  uint32_t index() const { return index_; }

 private:
  friend class GraphBuilder;
  TaskRef(GraphBuilder* graph, uint32_t index) : graph_(graph), index_(index) {}
  TaskRef& AddFloat(double value);
  TaskRef& AddInteger(int64_t value);

  GraphBuilder* graph_;
  uint32_t index_;
};

// Builds a graph in program order:
//
//   GraphBuilder g;
//   TensorRef a = g.Tensor("a", buffer_a, v1::F32, {1024});
//   TensorRef b = g.Tensor("b", buffer_b, v1::F32, {1024});
//   g.Task("scale", 0, {a, b}).Name("x").Scalar(2.0).Blocks(4);
//
// The builder keeps the first error, and Build returns it. The builder checks what it can see
// itself: names, shapes, bounds and chips of known buffers, and order. The daemon checks the rest.
// Not thread-safe. Not movable, because references point to it.
class GraphBuilder {
 public:
  GraphBuilder();
  GraphBuilder(const GraphBuilder&) = delete;
  GraphBuilder& operator=(const GraphBuilder&) = delete;

  // Adds a view of a known buffer. Shape, strides and offset are in elements. Empty strides mean a
  // contiguous view.
  TensorRef Tensor(absl::string_view name, const Buffer& buffer, v1::DType dtype,
                   absl::Span<const int64_t> shape, absl::Span<const int64_t> strides = {},
                   int64_t offset = 0);
  // Adds a view of a slot: a buffer id, or a name that a launch binds. An empty `slot` means
  // `name`.
  TensorRef Tensor(absl::string_view name, absl::string_view slot, v1::DType dtype,
                   absl::Span<const int64_t> shape, absl::Span<const int64_t> strides = {},
                   int64_t offset = 0);
  // Adds a view of a whole typed tensor, named after its buffer id.
  template <typename T>
  TensorRef Tensor(const pto::Tensor<T>& tensor) {
    return Tensor(tensor.buffer().id(), tensor.buffer(), DTypeOf<T>::value, tensor.shape());
  }

  // Adds a named scalar, which a launch can bind to another value.
  ScalarRef Scalar(absl::string_view name, double value);
  ScalarRef Scalar(absl::string_view name, int64_t value);
  ScalarRef Scalar(absl::string_view name, int value) {
    return Scalar(name, static_cast<int64_t>(value));
  }

  // Adds a task: a kernel (id or full name) on a chip, with the arguments in the kernel's order.
  TaskRef Task(absl::string_view kernel, uint32_t chip, absl::Span<const TensorRef> args);
  TaskRef Task(absl::string_view kernel, uint32_t chip, std::initializer_list<TensorRef> args) {
    return Task(kernel, chip, absl::Span<const TensorRef>(args.begin(), args.size()));
  }

  // Adds one task that spans several chips and starts on all of them at the same time.
  TaskRef Group(absl::string_view kernel, absl::Span<const GroupMember> members);
  TaskRef Group(absl::string_view kernel, std::initializer_list<GroupMember> members) {
    return Group(kernel, absl::Span<const GroupMember>(members.begin(), members.size()));
  }

  // ---- control tasks: they need no core and can access buffers of all chips
  // Adds an empty task that depends on `tasks`. Other tasks can depend on it instead of on all of
  // them.
  TaskRef Join(std::initializer_list<TaskRef> tasks = {});
  // Changes a signal (a tensor of one I32 or I64) and wakes its waiters. Signals create no
  // dependencies: use After to order this task.
  TaskRef Notify(TensorRef signal, int64_t value, v1::NotifyOp op = v1::SET);
  // Waits until the signal compares true. Fails after `timeout`; zero means the run's wait timeout.
  // Dependent tasks use After or read the token.
  TaskRef WaitFor(TensorRef signal, v1::Comparison compare, int64_t value,
                  absl::Duration timeout = {});
  TaskRef WaitFor(TensorRef signal, TensorRef token, v1::Comparison compare, int64_t value,
                  absl::Duration timeout = {});
  // Copies between tensors of the same shape and type, on any chips.
  TaskRef Copy(TensorRef to, TensorRef from);

  // Tasks depend only on those given with After; the daemon derives no other dependencies.
  void ExplicitDependenciesOnly() { explicit_dependencies_only_ = true; }

  // For an open run this includes tasks that were already sent.
  uint64_t task_count() const { return first_task_ + tasks_.size(); }

  // OK, or the first error.
  const absl::Status& status() const { return status_; }

  // Returns the graph with names.
  absl::StatusOr<v1::GraphSpec> Build() const;

  // Returns the graph in packed columns: a header (with parent, id and options unset), chunks of at
  // most `max_block_tasks` rows, and a commit. Names of tasks and tensors are omitted. Returns
  // SCALAR_INVALID if the graph uses named scalars.
  absl::StatusOr<std::vector<v1::PackedGraphPart>> BuildPacked(
      uint32_t max_block_tasks = 4096) const;

 private:
  friend class OpenRun;
  friend class TaskRef;

  struct TensorRow {
    std::string name;
    uint32_t slot;
    uint32_t layout;
    int64_t offset;
    // Chip of the buffer; -1 if unknown.
    int64_t chip;
  };
  struct TaskRow {
    uint32_t kernel;
    uint32_t chip;
    uint32_t launch;
    // Index of the first row in args_, scalars_ and deps_. The rows end where those of the next
    // task begin.
    uint64_t first_arg;
    uint64_t first_scalar;
    uint64_t first_dep;
  };
  enum class ScalarKind : uint8_t { kFloat, kInteger, kRef, kDomain };
  struct ScalarRow {
    ScalarKind kind;
    // Bits of the number, or index of the named scalar or of the domain.
    uint64_t bits;
  };
  struct NamedScalar {
    std::string name;
    ScalarRow value;
  };
  struct LaunchRow {
    v1::Core core = v1::CORE_UNSPECIFIED;
    uint32_t blocks = 1;
    bool sync_start = false;
    std::vector<std::string> vector_kernels = {};
    absl::Duration timeout = {};
    bool operator==(const LaunchRow&) const = default;
    template <typename H>
    friend H AbslHashValue(H h, const LaunchRow& row) {
      return H::combine(std::move(h), static_cast<int>(row.core), row.blocks, row.sync_start,
                        row.vector_kernels, row.timeout);
    }
  };
  struct MemberRow {
    uint32_t chip = 0;  // index into chips_
    std::vector<uint32_t> args;
  };
  struct PredicateRow {
    uint32_t tensor = 0;
    v1::Comparison compare = v1::COMPARISON_UNSPECIFIED;
    int64_t value = 0;
  };
  // Properties that few tasks have.
  struct ExtraRow {
    std::vector<MemberRow> members;
    uint32_t no_dependency_mask = 0;
    absl::optional<PredicateRow> predicate;
  };

  // The rows of one task.
  struct Rows {
    absl::Span<const uint32_t> args;
    absl::Span<const ScalarRow> scalars;
    absl::Span<const uint32_t> deps;
  };

  // A list of unique strings.
  class Names {
   public:
    uint32_t Intern(absl::string_view name);
    const std::vector<std::string>& list() const { return list_; }

   private:
    absl::flat_hash_map<std::string, uint32_t> index_;
    std::vector<std::string> list_;
  };

  void Fail(absl::Status status);
  bool IsLast(const TaskRef& task, absl::string_view what);
  TensorRef AddTensor(absl::string_view name, absl::string_view slot, v1::DType dtype,
                      absl::Span<const int64_t> shape, absl::Span<const int64_t> strides,
                      int64_t offset, const Buffer* buffer);
  ScalarRef AddScalar(absl::string_view name, ScalarRow value);
  uint32_t InternLayout(v1::DType dtype, absl::Span<const int64_t> shape,
                        absl::Span<const int64_t> strides);
  uint32_t InternLaunch(const LaunchRow& row);
  uint32_t InternChip(uint32_t chip);
  // Changes the launch properties of the last task.
  template <typename F>
  void ChangeLaunch(const F& change) {
    LaunchRow row = launches_[tasks_.back().launch];
    change(row);
    tasks_.back().launch = InternLaunch(row);
  }
  // `path` ends with a dot.
  void AddArgs(absl::Span<const TensorRef> args, uint32_t chip, bool any_chip,
               const std::string& path, std::vector<uint32_t>& out);
  const ExtraRow* ExtraOf(uint64_t task) const;
  void AddExtra(const ExtraRow& row, v1::TaskSpec& task) const;
  Rows RowsOf(uint64_t task) const;
  absl::Status Check() const;
  v1::Scalar ToScalar(const ScalarRow& row) const;
  static v1::LaunchSpec ToLaunch(const LaunchRow& row);
  absl::Status CheckPackable() const;
  v1::PackedHeader PackHeader() const;
  // Whether any task that was not sent yet uses signals of a domain, or a domain as a whole.
  bool UsesSignals() const;
  // For an open run: removes the tasks and returns them as segments of at most `max_block_tasks`
  // rows, with everything else added since the last call. References to the tasks stay valid.
  // Returns GRAPH_TOO_LARGE if tasks that use signals of a domain would need more than one segment.
  absl::StatusOr<std::vector<v1::StreamRunBlock>> TakeBlocks(uint32_t max_block_tasks);
  void PackLists(v1::StreamRunBlock& segment);
  v1::TensorBlock PackTensors(uint64_t begin, uint64_t end) const;
  v1::TaskBlock PackTasks(uint64_t begin, uint64_t end) const;
  static void PackExtra(const ExtraRow& row, v1::TaskExtra& extra);

  absl::Status status_;

  Names kernels_;
  Names slots_;
  Names domains_;
  std::vector<uint32_t> chips_;
  absl::flat_hash_map<uint32_t, uint32_t> chip_index_;
  std::vector<v1::Layout> layouts_;
  absl::flat_hash_map<std::string, uint32_t> layout_index_;
  std::vector<LaunchRow> launches_;
  absl::flat_hash_map<LaunchRow, uint32_t> launch_index_;

  std::vector<TensorRow> tensors_;
  absl::flat_hash_set<std::string> tensor_names_;
  std::vector<NamedScalar> named_scalars_;
  absl::flat_hash_set<std::string> scalar_names_;
  std::vector<TaskRow> tasks_;
  absl::flat_hash_map<uint32_t, std::string> task_names_;
  absl::flat_hash_set<std::string> task_name_set_;
  std::vector<uint32_t> args_;
  std::vector<ScalarRow> scalars_;
  std::vector<uint32_t> deps_;
  absl::flat_hash_map<uint64_t, ExtraRow> extras_;  // by task
  // For an open run: how many tasks and other items were already sent. tasks_ starts after them.
  uint64_t first_task_ = 0;
  struct Sent {
    size_t kernels = 0;
    size_t chips = 0;
    size_t slots = 0;
    size_t domains = 0;
    size_t layouts = 0;
    size_t launches = 0;
    size_t tensors = 0;
  } sent_;
  bool explicit_dependencies_only_ = false;
};

}  // namespace pto
