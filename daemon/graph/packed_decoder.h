#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "daemon/graph/decoded_graph.h"
#include "daemon/graph/extra_reader.h"
#include "daemon/graph/graph_limits.h"
#include "pto/v1/graph.pb.h"
#include "runtime/graph/builder.h"

namespace pto {

// Compiles a graph that arrives in columns, part by part. Each part is checked when it comes, so
// a wrong stream is refused at its first wrong part; after an error every call returns it again.
// Paths look like `header.chips[1]`, `tensors[block 0].layout[4]` and
// `tasks[block 2].dep_back[17]`; blocks of each kind are counted from 0. Errors in a block have
// its number and the row, that of the tensor or the task in it, in their metadata.
// Not thread-safe.
class PackedDecoder {
 public:
  PackedDecoder(const GraphTarget& target, uint32_t max_block_tasks,
                const GraphLimits& limits = {});

  // STREAM_ORDER when the part does not belong here, else what is wrong with it.
  absl::Status Add(const v1::PackedGraphPart& part);

  // Whether the first part has come and was well.
  bool has_header() const { return has_header_; }
  // The first part; its parent is known to be the name of a session. Empty before it came.
  const v1::PackedHeader& header() const { return header_; }
  // The id of the session that the header names.
  const std::string& session() const { return session_; }

  // Call once, when the stream has ended. STREAM_EMPTY when it had no header or no commit.
  absl::StatusOr<DecodedGraph> Finish();

 private:
  // A task block's columns, and how far each has been read.
  struct Columns;

  absl::Status AddPart(const v1::PackedGraphPart& part);
  absl::Status AddHeader(const v1::PackedHeader& header);
  absl::Status AddLaunches(const v1::PackedHeader& header);
  absl::Status AddTensors(const v1::TensorBlock& block);
  absl::Status AddTasks(const v1::TaskBlock& block);
  absl::Status AddCommit(const v1::PackedCommit& commit);

  absl::Status CheckTaskBlock(const v1::TaskBlock& block) const;
  absl::Status AddTask(Columns& columns, uint32_t row);
  // Reads the row's extra, if it has one.
  absl::Status ReadExtra(Columns& columns, uint32_t row, TaskInput& task);
  absl::Status ReadArgs(Columns& columns, uint32_t row, TaskInput& task);
  absl::Status ReadScalars(Columns& columns, uint32_t row, TaskInput& task);
  absl::Status ReadDependencies(Columns& columns, uint32_t row, TaskInput& task);
  // Says where in the block or in the header an error of the builder comes from.
  absl::Status Locate(const absl::Status& status, const Columns& columns, uint32_t row,
                      uint32_t first_arg, uint32_t launch) const;

  const GraphTarget target_;
  const uint32_t max_block_tasks_;
  const GraphLimits limits_;
  // Made anew by a header that has options for it.
  absl::optional<GraphBuilder> builder_;
  absl::Status status_;
  bool has_header_ = false;
  bool has_commit_ = false;
  v1::PackedHeader header_;
  std::string session_;

  // From the header's indices to the builder's.
  std::vector<uint32_t> kernels_;
  std::vector<uint32_t> chips_;
  std::vector<uint32_t> slots_;
  std::vector<TaskInput> launches_;                    // only what a launch spec says
  std::vector<std::vector<uint32_t>> vector_kernels_;  // of the launches

  uint32_t tensor_blocks_ = 0;
  uint32_t task_blocks_ = 0;
  uint32_t tensor_count_ = 0;
  uint64_t edge_count_ = 0;

  // Of the task at hand; kept so that a task costs no allocation.
  uint32_t args_[PTO_MAX_ARGS] = {};
  ScalarInput scalars_[PTO_MAX_SCALARS];
  std::vector<uint32_t> dependencies_;
  ExtraReader extra_;
};

}  // namespace pto
