#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "daemon/graph/extra_reader.h"
#include "daemon/graph/graph_limits.h"
#include "google/protobuf/repeated_field.h"
#include "pto/v1/graph.pb.h"
#include "runtime/graph/builder.h"
#include "runtime/graph/open_graph.h"

namespace pto::daemon {

// Reads tensors and tasks in columns into a builder, and the lists that these refer to by index,
// which may grow between chunks. Checks everything; maps errors of the builder to the columns.
// Errors in a chunk have its number, and the row of the tensor or task, in their metadata. For
// GraphBuilder and OpenGraph. Not thread-safe.
template <typename Builder>
class ChunkReader {
 public:
  enum class Paths {
    kPacked,  // for example `tasks[block 2].dep_back[17]`
    kOpen,    // for example `blocks[2].tasks.dep_back[17]`, with the task's number
  };
  struct Options {
    Paths paths = Paths::kPacked;
    uint32_t max_block_tasks = 0;
    // For all chunks together; 0 means no limit.
    uint64_t max_tasks = 0;
    GraphLimits limits;
  };

  ChunkReader(const engine::GraphTarget& target, const Options& options)
      : target_(target), options_(options), source_(target.kernels) {}

  // Where to find kernels from now on.
  void UseKernels(const KernelSource* source) { source_ = source; }

  // Sets the builder. Call before anything is added.
  void Use(Builder* builder) { builder_ = builder; }

  // ---- lists; `path` is the path of the list
  absl::Status AddKernels(const google::protobuf::RepeatedPtrField<std::string>& names,
                          absl::string_view path);
  absl::Status AddChips(const google::protobuf::RepeatedPtrField<std::string>& names,
                        absl::string_view path);
  absl::Status AddDomains(const google::protobuf::RepeatedPtrField<std::string>& names,
                          absl::string_view session, absl::string_view path);
  absl::Status AddLayouts(const google::protobuf::RepeatedPtrField<v1::Layout>& layouts,
                          absl::string_view path);
  absl::Status AddLaunches(const google::protobuf::RepeatedPtrField<v1::LaunchSpec>& launches,
                           absl::string_view path);
  // Maps the next entry of the list of buffers to this slot of the builder.
  void AddSlot(uint32_t slot) { slots_.push_back(slot); }

  // ---- chunks; `number` is their number in paths
  absl::Status AddTensors(const v1::TensorBlock& chunk, uint32_t number);
  absl::Status AddTasks(const v1::TaskBlock& chunk, uint32_t number);

  size_t chip_count() const { return chips_.size(); }
  size_t slot_count() const { return slots_.size(); }
  size_t launch_count() const { return launches_.size(); }
  // Resets the number of named dependencies.
  void ForgetEdges() { edge_count_ = 0; }

 private:
  // The columns of a TaskBlock, and how far each has been read.
  struct Columns;

  std::string Path(absl::string_view kind, uint32_t chunk, absl::string_view rest) const;
  std::string ChunkPath(absl::string_view kind, uint32_t chunk, absl::string_view column,
                        size_t index) const;
  absl::Status ChunkError(absl::string_view kind, uint32_t chunk, absl::string_view column,
                          size_t index, uint32_t row, absl::string_view message) const;
  absl::Status LengthError(absl::string_view kind, uint32_t chunk, absl::string_view column,
                           int have, int want) const;
  absl::Status TooLargeError(absl::string_view kind, uint32_t chunk, absl::string_view column,
                             absl::string_view things, absl::string_view limit_name, uint64_t limit,
                             uint64_t have, int more) const;

  absl::Status CheckTaskChunk(const v1::TaskBlock& chunk, uint32_t number) const;
  absl::Status AddTask(Columns& columns, uint32_t row);
  // Reads the row's extra, if any.
  absl::Status ReadExtra(Columns& columns, uint32_t row, engine::TaskInput& task);
  absl::Status ReadArgs(Columns& columns, uint32_t row, engine::TaskInput& task);
  absl::Status ReadScalars(Columns& columns, uint32_t row, engine::TaskInput& task);
  absl::Status ReadDependencies(Columns& columns, uint32_t row, engine::TaskInput& task);
  // Finds the place of a builder's error in the chunk or in the lists.
  absl::Status Locate(const absl::Status& status, const Columns& columns, uint32_t row,
                      uint32_t first_arg, uint32_t launch) const;

  const engine::GraphTarget target_;
  const Options options_;
  const KernelSource* source_;
  Builder* builder_ = nullptr;

  // From indices in the lists to the builder's.
  std::vector<uint32_t> kernels_;
  std::vector<uint32_t> chips_;
  std::vector<uint32_t> slots_;
  std::vector<uint32_t> domains_;
  absl::flat_hash_map<std::string, uint32_t> domain_by_id_;
  uint32_t layout_count_ = 0;  // indices are the same in the builder
  std::vector<engine::TaskInput>
      launches_;  // only the fields of a launch spec; if empty, there is one with all defaults
  std::vector<std::vector<uint32_t>> vector_kernels_;  // of each launch
  std::vector<std::string> launch_paths_;

  uint32_t tensor_count_ = 0;
  uint64_t edge_count_ = 0;

  // For the current task; members, to avoid allocations.
  uint32_t args_[PTO_MAX_ARGS] = {};
  engine::ScalarInput scalars_[PTO_MAX_SCALARS];
  std::vector<uint32_t> dependencies_;
  ExtraReader extra_;
};

extern template class ChunkReader<engine::GraphBuilder>;
extern template class ChunkReader<engine::OpenGraph>;

}  // namespace pto::daemon
