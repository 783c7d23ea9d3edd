#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/graph_builder.h"
#include "client/options.h"
#include "client/run_state.h"
#include "pto/v1/run.pb.h"

namespace pto {

namespace internal {
class Deadline;
class RunPipe;
struct RunPipeCloser {
  void operator()(RunPipe* pipe) const;
};
}  // namespace internal

// A run that accepts more tasks while earlier ones execute. Created by Session::BeginOpenRun.
//
//   PTO_ASSIGN_OR_RETURN(pto::OpenRun run, session.BeginOpenRun());
//   pto::TensorRef x = run.graph().Tensor(tensor);
//   while (more) {
//     run.graph().Task("scale", 0, {x, x}).Scalar(2.0);
//     PTO_RETURN_IF_ERROR(run.Flush());  // from time to time
//   }
//   PTO_ASSIGN_OR_RETURN(pto::v1::Run ended, run.Finish());
//
// A task may depend on any earlier task, by After or through its tensors. The builder discards
// tasks that were sent, and the daemon those that have ended, so a run can have millions of tasks.
// Tensors are kept.
//
// Each Flush sends one segment, or several if there are more tasks than the node's max_block_tasks
// or 4096. Signals of a domain start at zero in each segment that uses them, and such segments run
// one after the other. So a wait and its notification must be in the same segment: with signals,
// call Flush before there are more tasks than that.
//
// Destroying the object before Finish has returned cancels the run, unless the daemon already has
// all its tasks. Not thread-safe.
class OpenRun {
 public:
  ~OpenRun();
  OpenRun(OpenRun&&) noexcept;
  OpenRun& operator=(OpenRun&&) noexcept;

  // `sessions/{session}/runs/{id}`.
  const std::string& name() const { return name_; }

  // The next Flush sends the tasks added here. The reference stays valid when this object moves.
  GraphBuilder& graph() { return *graph_; }

  // Sends the added tasks. Waits while the daemon holds too many tasks of the session. After
  // CLIENT_TIMEOUT, the next call sends the remaining tasks. Any other error ends the run: an
  // invalid task, GRAPH_TOO_LARGE if tasks with signals of a domain do not fit one segment, or the
  // error that ended the run.
  absl::Status Flush(absl::Duration timeout = kDefaultTimeout);

  // Sends the remaining tasks, marks the run as complete, waits for it to end and returns it;
  // StatusOf gives its result. After CLIENT_TIMEOUT, call it again.
  absl::StatusOr<v1::Run> Finish(absl::Duration timeout = kDefaultTimeout);

  // Closes the stream, which cancels the run. Returns immediately.
  void Cancel();

 private:
  friend class Session;
  using Pipe = std::unique_ptr<internal::RunPipe, internal::RunPipeCloser>;
  OpenRun(Pipe pipe, v1::StreamRunHeader header, uint32_t segment_tasks);

  // Moves the tasks added to the graph into unsent_.
  absl::Status Queue();
  absl::Status Send(const internal::Deadline& deadline);
  absl::Status Gone() const;

  Pipe pipe_;
  std::string name_;
  uint32_t segment_tasks_;
  std::unique_ptr<GraphBuilder> graph_;
  v1::StreamRunHeader header_;
  bool header_queued_ = false;
  bool commit_queued_ = false;
  std::deque<v1::StreamRunRequest> unsent_;
};

}  // namespace pto
