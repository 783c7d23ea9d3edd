#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "daemon/graph/chunk_reader.h"
#include "daemon/graph/decoded_graph.h"
#include "daemon/graph/graph_limits.h"
#include "pto/v1/graph.pb.h"
#include "runtime/graph/builder.h"
#include "runtime/graph/work_budget.h"

namespace pto::daemon {

// Compiles a graph that arrives in columns, chunk by chunk. Each chunk is checked on arrival, so a
// wrong stream is rejected at its first error; after an error every call returns that error. Paths
// look like `header.chips[1]`, `tensors[block 0].layout[4]` and `tasks[block 2].dep_back[17]`;
// chunks of each kind are counted from 0. The metadata of an error in a chunk has the chunk's
// number and the row of the tensor or task. Not thread-safe.
class PackedDecoder {
 public:
  // Chunks fail with CLIENT_GONE once `cancelled` returns true.
  PackedDecoder(const engine::GraphTarget& target, uint32_t max_block_tasks,
                const GraphLimits& limits = {}, engine::WorkBudget::Cancelled cancelled = nullptr);

  // Where to find kernels, in place of the target's. Before the header.
  void UseKernels(const KernelSource* source) { reader_.UseKernels(source); }

  // STREAM_ORDER if the chunk is out of order, or any other error in it.
  absl::Status Add(const v1::PackedGraphPart& part);

  // Whether a valid header has arrived.
  bool has_header() const { return has_header_; }
  // The header; its parent is a valid session name. Empty before it arrives.
  const v1::PackedHeader& header() const { return header_; }
  // The id of the session that the header names.
  const std::string& session() const { return session_; }

  // Call once, at the end of the stream. STREAM_EMPTY if there was no header or no commit.
  absl::StatusOr<DecodedGraph> Finish();

 private:
  absl::Status AddPart(const v1::PackedGraphPart& part);
  absl::Status AddHeader(const v1::PackedHeader& header);
  absl::Status AddCommit(const v1::PackedCommit& commit);

  const engine::GraphTarget target_;
  const engine::WorkBudget::Cancelled cancelled_;
  // Replaced when a header sets options.
  absl::optional<engine::GraphBuilder> builder_;
  ChunkReader<engine::GraphBuilder> reader_;
  absl::Status status_;
  bool has_header_ = false;
  bool has_commit_ = false;
  v1::PackedHeader header_;
  std::string session_;
  uint32_t tensor_chunks_ = 0;
  uint32_t task_chunks_ = 0;
};

}  // namespace pto::daemon
