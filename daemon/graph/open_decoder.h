#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "daemon/graph/block_reader.h"
#include "daemon/graph/graph_limits.h"
#include "pto/v1/run.pb.h"
#include "runtime/graph/open_graph.h"
#include "runtime/graph/work_budget.h"

namespace pto {

// Compiles the blocks of an open run as they come. Each is checked as a whole; after an error the
// decoder is of no use. Paths look like `blocks[2].kernels[1]` and
// `blocks[2].tasks.dep_back[17]`; errors have the block's number and, where it is one task's
// fault, the task's number in the run in their metadata. Not thread-safe.
class OpenDecoder {
 public:
  // What is known of a buffer of the session; BUFFER_UNKNOWN.
  using FindBuffer = std::function<absl::StatusOr<OpenGraph::SlotMemory>(absl::string_view id)>;

  struct Options {
    std::string session;  // its id
    uint32_t max_block_tasks = 0;
    GraphLimits limits;  // tensors: of the run; dependencies: of a block
    bool find_dependencies = true;
    int64_t run_timeout_ns = 0;  // no task may have more; 0 means no limit
    FindBuffer find_buffer;
    // Blocks are refused with CLIENT_GONE once it says so.
    WorkBudget::Cancelled cancelled = nullptr;
  };

  OpenDecoder(const GraphTarget& target, Options options);

  // The tasks of the block, if it has any.
  absl::StatusOr<absl::optional<GraphSegment>> Add(const v1::StreamRunBlock& block);

  uint32_t blocks() const { return blocks_; }
  uint32_t tasks() const { return graph_.task_count(); }

  // All tasks below have ended well.
  void ForgetBefore(uint32_t task) { graph_.ForgetBefore(task); }
  // What has to be remembered of tasks that only read.
  size_t live_readers() const { return graph_.live_readers(); }

 private:
  absl::Status AddLists(const v1::StreamRunBlock& block, const std::string& path);
  absl::Status AddBuffers(const v1::StreamRunBlock& block, const std::string& path);
  absl::Status CheckTimes(const v1::StreamRunBlock& block, const std::string& path) const;

  const Options options_;
  OpenGraph graph_;
  BlockReader<OpenGraph> reader_;
  uint32_t blocks_ = 0;
  uint64_t listed_ = 0;  // kernels, chips, buffers and layouts of all blocks
};

}  // namespace pto
