#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "daemon/graph/block_reader.h"
#include "daemon/graph/decoded_graph.h"
#include "daemon/graph/graph_limits.h"
#include "pto/v1/graph.pb.h"
#include "runtime/graph/builder.h"
#include "runtime/graph/work_budget.h"

namespace pto {

// Compiles a graph that arrives in columns, part by part. Each part is checked when it comes, so
// a wrong stream is refused at its first wrong part; after an error every call returns it again.
// Paths look like `header.chips[1]`, `tensors[block 0].layout[4]` and
// `tasks[block 2].dep_back[17]`; blocks of each kind are counted from 0. Errors in a block have
// its number and the row, that of the tensor or the task in it, in their metadata.
// Not thread-safe.
class PackedDecoder {
 public:
  // Parts are refused with CLIENT_GONE once `cancelled` says so.
  PackedDecoder(const GraphTarget& target, uint32_t max_block_tasks, const GraphLimits& limits = {},
                WorkBudget::Cancelled cancelled = nullptr);

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
  absl::Status AddPart(const v1::PackedGraphPart& part);
  absl::Status AddHeader(const v1::PackedHeader& header);
  absl::Status AddCommit(const v1::PackedCommit& commit);

  const GraphTarget target_;
  const WorkBudget::Cancelled cancelled_;
  // Made anew by a header that has options for it.
  absl::optional<GraphBuilder> builder_;
  BlockReader<GraphBuilder> reader_;
  absl::Status status_;
  bool has_header_ = false;
  bool has_commit_ = false;
  v1::PackedHeader header_;
  std::string session_;
  uint32_t tensor_blocks_ = 0;
  uint32_t task_blocks_ = 0;
};

}  // namespace pto
