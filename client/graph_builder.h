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

// A tensor of a graph that is being built. Valid for its builder only.
class TensorRef {
 private:
  friend class GraphBuilder;
  friend class TaskRef;
  TensorRef(const GraphBuilder* graph, uint32_t index) : graph_(graph), index_(index) {}
  const GraphBuilder* graph_;
  uint32_t index_;
};

// A named scalar of a graph that is being built. Valid for its builder only.
class ScalarRef {
 private:
  friend class GraphBuilder;
  friend class TaskRef;
  ScalarRef(const GraphBuilder* graph, uint32_t index) : graph_(graph), index_(index) {}
  const GraphBuilder* graph_;
  uint32_t index_;
};

// The part of a task on one of its chips.
struct GroupMember {
  uint32_t chip = 0;
  std::vector<TensorRef> args = {};
};

// A task of a graph that is being built. Its methods describe the task further; they must be
// called before the next task is added, so that a builder can keep a million tasks in columns.
class TaskRef {
 public:
  // Unique in the graph.
  TaskRef& Name(absl::string_view name);
  // The next scalar, in the order of the kernel's. A floating-point number becomes a double, an
  // integer an int64; give what the kernel takes.
  template <std::floating_point F>
  TaskRef& Scalar(F value) {
    return AddFloat(static_cast<double>(value));
  }
  template <std::integral I>
  TaskRef& Scalar(I value) {
    return AddInteger(static_cast<int64_t>(value));
  }
  TaskRef& Scalar(ScalarRef scalar);
  // Number of blocks, at least 1; 1 unless said.
  TaskRef& Blocks(uint32_t count);
  // Kind of core; the kernel's default unless said.
  TaskRef& Core(v1::Core core);
  // All blocks start together, or none.
  TaskRef& SyncStart();
  // What the vector cores of each cluster run, with the same arguments, beside the task's kernel
  // on the cube core. Up to two; for v1::MIX.
  TaskRef& VectorKernels(absl::Span<const std::string> kernels);
  TaskRef& VectorKernels(std::initializer_list<std::string> kernels) {
    return VectorKernels(absl::Span<const std::string>(kernels.begin(), kernels.size()));
  }
  // Longest time from its start to its end. Zero: the run's limit for tasks.
  TaskRef& Timeout(absl::Duration timeout);
  // The task is passed over, and those after it go on, unless the tensor's one element, an
  // integer, compares true when its turn comes.
  TaskRef& If(TensorRef tensor, v1::Comparison compare, int64_t value);
  // The argument at this position is no reason to wait for others, nor for others to wait.
  TaskRef& NoDependency(uint32_t arg);
  // An earlier task that must end well before this one starts.
  TaskRef& After(const TaskRef& task);
  TaskRef& After(std::initializer_list<TaskRef> tasks);

  // Position in the graph, from 0: what events and errors call the task.
  uint32_t index() const { return index_; }

 private:
  friend class GraphBuilder;
  TaskRef(GraphBuilder* graph, uint32_t index) : graph_(graph), index_(index) {}
  TaskRef& AddFloat(double value);
  TaskRef& AddInteger(int64_t value);

  GraphBuilder* graph_;
  uint32_t index_;
};

// Puts a graph together, in program order:
//
//   GraphBuilder g;
//   TensorRef a = g.Tensor("a", buffer_a, v1::F32, {1024});
//   TensorRef b = g.Tensor("b", buffer_b, v1::F32, {1024});
//   g.Task("scale", 0, {a, b}).Name("x").Scalar(2.0).Blocks(4);
//
// The first mistake is kept and returned by Build; a mistake is found here when the builder alone
// can see it (names, shapes, bounds and chips of known buffers, order), by the daemon otherwise.
// Not thread-safe. It must stay in place while references to it are used.
class GraphBuilder {
 public:
  GraphBuilder();
  GraphBuilder(const GraphBuilder&) = delete;
  GraphBuilder& operator=(const GraphBuilder&) = delete;

  // A view of a known buffer. Shape, strides and offset are in elements; no strides means
  // contiguous.
  TensorRef Tensor(absl::string_view name, const Buffer& buffer, v1::DType dtype,
                   absl::Span<const int64_t> shape, absl::Span<const int64_t> strides = {},
                   int64_t offset = 0);
  // A view of a slot by name: the id of a buffer, or what a launch binds. Empty means `name`.
  TensorRef Tensor(absl::string_view name, absl::string_view slot, v1::DType dtype,
                   absl::Span<const int64_t> shape, absl::Span<const int64_t> strides = {},
                   int64_t offset = 0);
  // The whole of a typed tensor, under the name of its buffer's id.
  template <typename T>
  TensorRef Tensor(const pto::Tensor<T>& tensor) {
    return Tensor(tensor.buffer().id(), tensor.buffer(), DTypeOf<T>::value, tensor.shape());
  }

  // A scalar that a launch can bind to another value.
  ScalarRef Scalar(absl::string_view name, double value);
  ScalarRef Scalar(absl::string_view name, int64_t value);
  ScalarRef Scalar(absl::string_view name, int value) {
    return Scalar(name, static_cast<int64_t>(value));
  }

  // A step: a kernel by id or full name, on a chip, with the kernel's arguments in order.
  TaskRef Task(absl::string_view kernel, uint32_t chip, absl::Span<const TensorRef> args);
  TaskRef Task(absl::string_view kernel, uint32_t chip, std::initializer_list<TensorRef> args) {
    return Task(kernel, chip, absl::Span<const TensorRef>(args.begin(), args.size()));
  }

  // One step over several chips, which starts on all of them at once.
  TaskRef Group(absl::string_view kernel, absl::Span<const GroupMember> members);
  TaskRef Group(absl::string_view kernel, std::initializer_list<GroupMember> members) {
    return Group(kernel, absl::Span<const GroupMember>(members.begin(), members.size()));
  }

  // ---- steps that need no core, and reach the buffers of all chips
  // Does nothing, after these tasks: something to wait for in place of all of them.
  TaskRef Join(std::initializer_list<TaskRef> tasks = {});
  // Changes a signal, a tensor of one I32 or I64, and wakes who waits for it. A signal makes no
  // dependency: say with After what must come before.
  TaskRef Notify(TensorRef signal, int64_t value, v1::NotifyOp op = v1::SET);
  // Ends when the signal compares true, or fails when the timeout has passed; zero means the
  // run's limit for waits. Tasks that must wait say so with After, or by reading the token.
  TaskRef WaitFor(TensorRef signal, v1::Comparison compare, int64_t value,
                  absl::Duration timeout = {});
  TaskRef WaitFor(TensorRef signal, TensorRef token, v1::Comparison compare, int64_t value,
                  absl::Duration timeout = {});
  // Copies between tensors of one shape and type, on whatever chips.
  TaskRef Copy(TensorRef to, TensorRef from);

  // Tasks wait only for those that After names; the daemon looks for no others.
  void ExplicitDependenciesOnly() { explicit_dependencies_only_ = true; }

  // Of an open run: those that were sent, too.
  uint64_t task_count() const { return first_task_ + tasks_.size(); }

  // OK, or the first mistake.
  const absl::Status& status() const { return status_; }

  // The graph with its names.
  absl::StatusOr<v1::GraphSpec> Build() const;

  // The graph in columns: a header (parent, id and options left empty), blocks of at most
  // `max_block_tasks` rows, a commit. Names of tasks and tensors stay behind; a graph that uses
  // named scalars is refused with SCALAR_INVALID.
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
    // Chip of its buffer; -1 when not known.
    int64_t chip;
  };
  struct TaskRow {
    uint32_t kernel;
    uint32_t chip;
    uint32_t launch;
    // Where its rows begin in args_, scalars_ and deps_; they end where the next task's begin.
    uint64_t first_arg;
    uint64_t first_scalar;
    uint64_t first_dep;
  };
  enum class ScalarKind : uint8_t { kFloat, kInteger, kRef };
  struct ScalarRow {
    ScalarKind kind;
    // Bits of the number, or the index of the named scalar.
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
  // What only few tasks have.
  struct ExtraRow {
    std::vector<MemberRow> members;
    uint32_t no_dependency_mask = 0;
    absl::optional<PredicateRow> predicate;
  };

  // What belongs to one task.
  struct Rows {
    absl::Span<const uint32_t> args;
    absl::Span<const ScalarRow> scalars;
    absl::Span<const uint32_t> deps;
  };

  // Strings, each kept once.
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
  // Of the last task.
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
  // Whether a task, of those that were not sent, uses signals of a domain.
  bool UsesSignals() const;
  // For an open run: takes out the tasks, as blocks of at most so many rows with what the builder
  // has got since the last time. References to the tasks stay valid. GRAPH_TOO_LARGE when tasks on
  // signals of a domain would be in more than one block.
  absl::StatusOr<std::vector<v1::StreamRunBlock>> TakeBlocks(uint32_t max_block_tasks);
  void PackLists(v1::StreamRunBlock& block);
  v1::TensorBlock PackTensors(uint64_t begin, uint64_t end) const;
  v1::TaskBlock PackTasks(uint64_t begin, uint64_t end) const;
  static void PackExtra(const ExtraRow& row, v1::TaskExtra& extra);

  absl::Status status_;

  Names kernels_;
  Names slots_;
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
  // Tasks, and what else, an open run has sent; tasks_ begins there.
  uint64_t first_task_ = 0;
  struct Sent {
    size_t kernels = 0;
    size_t chips = 0;
    size_t slots = 0;
    size_t layouts = 0;
    size_t launches = 0;
    size_t tensors = 0;
  } sent_;
  bool explicit_dependencies_only_ = false;
};

}  // namespace pto
