#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "daemon/graph/chunk_reader.h"
#include "daemon/graph/graph_limits.h"
#include "pto/v1/run.pb.h"
#include "runtime/graph/open_graph.h"
#include "runtime/graph/work_budget.h"

namespace pto::daemon {

// Compiles the segments of an open run as they arrive. Each is checked as a whole; do not use the
// decoder after an error. Paths look like `blocks[2].kernels[1]` and
// `blocks[2].tasks.dep_back[17]`. The metadata of errors has the segment's number and, if one task
// is at fault, the task's number in the run. Not thread-safe.
class OpenDecoder {
 public:
  // Looks up a buffer of the session; BUFFER_UNKNOWN.
  using FindBuffer =
      std::function<absl::StatusOr<engine::OpenGraph::SlotMemory>(absl::string_view id)>;

  struct Options {
    std::string session;  // the session's id
    uint32_t max_block_tasks = 0;
    GraphLimits limits;  // tensors: for the run; dependencies: for a segment
    bool find_dependencies = true;
    int64_t run_timeout_ns = 0;  // upper limit for task timeouts; 0 means no limit
    FindBuffer find_buffer;
    // Segments fail with CLIENT_GONE once this returns true.
    engine::WorkBudget::Cancelled cancelled = nullptr;
  };

  OpenDecoder(const engine::GraphTarget& target, Options options);

  // Returns the tasks of the segment, if it has any.
  absl::StatusOr<absl::optional<engine::GraphSegment>> Add(const v1::StreamRunBlock& message);

  uint32_t blocks() const { return segments_; }
  uint32_t tasks() const { return graph_.task_count(); }

  // All tasks below `task` have succeeded.
  void ForgetBefore(uint32_t task) { graph_.ForgetBefore(task); }
  // The number of readers that the dependency search keeps.
  size_t live_readers() const { return graph_.live_readers(); }

 private:
  absl::Status AddLists(const v1::StreamRunBlock& message, const std::string& path);
  absl::Status AddBuffers(const v1::StreamRunBlock& message, const std::string& path);
  absl::Status CheckTimes(const v1::StreamRunBlock& message, const std::string& path) const;

  const Options options_;
  engine::OpenGraph graph_;
  ChunkReader<engine::OpenGraph> reader_;
  uint32_t segments_ = 0;
  uint64_t listed_ = 0;  // kernels, chips, buffers and layouts of all segments
};

}  // namespace pto::daemon
