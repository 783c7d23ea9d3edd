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

// A run to which tasks are appended while the first ones run already. Made by
// Session::BeginOpenRun.
//
//   PTO_ASSIGN_OR_RETURN(pto::OpenRun run, session.BeginOpenRun());
//   pto::TensorRef x = run.graph().Tensor(tensor);
//   while (more) {
//     run.graph().Task("scale", 0, {x, x}).Scalar(2.0);
//     PTO_RETURN_IF_ERROR(run.Flush());  // now and then
//   }
//   PTO_ASSIGN_OR_RETURN(pto::v1::Run ended, run.Finish());
//
// A task may wait for any earlier one, by After or by its tensors; one that has ended is no
// reason to wait. The builder forgets tasks that were sent, and the daemon those that have ended,
// so a run can have millions; tensors stay. What one Flush sends is a block, or several when it has
// more tasks than the node's max_block_tasks, or than 4096. Signals of a domain begin at zero in
// each block that uses them, and such blocks take turns, so a wait and its notification belong into
// one: with signals, Flush before there are more tasks than that. Destroying it before Finish has
// returned cancels the run, unless the daemon has all its tasks. Not thread-safe.
class OpenRun {
 public:
  ~OpenRun();
  OpenRun(OpenRun&&) noexcept;
  OpenRun& operator=(OpenRun&&) noexcept;

  // `sessions/{session}/runs/{id}`.
  const std::string& name() const { return name_; }

  // Tasks that are added here go with the next Flush. It stays in place when this object moves.
  GraphBuilder& graph() { return *graph_; }

  // Sends what was added. Waits while the daemon has more tasks of the session than it wants to
  // hold; CLIENT_TIMEOUT then, and what was not sent goes with the next call. Any other error is
  // the end of the run: a mistake in a task, GRAPH_TOO_LARGE for more tasks than fit one block when
  // some use signals of a domain, or how the run ended.
  absl::Status Flush(absl::Duration timeout = kDefaultTimeout);

  // Sends what is left, says that no more tasks follow, and returns the run when it has ended;
  // StatusOf tells how. CLIENT_TIMEOUT when it has not in time: call it again.
  absl::StatusOr<v1::Run> Finish(absl::Duration timeout = kDefaultTimeout);

  // Ends the stream, and by that the run. Returns at once.
  void Cancel();

 private:
  friend class Session;
  using Pipe = std::unique_ptr<internal::RunPipe, internal::RunPipeCloser>;
  OpenRun(Pipe pipe, v1::StreamRunHeader header, uint32_t block_tasks);

  // Takes what was added to the graph.
  absl::Status Queue();
  absl::Status Send(const internal::Deadline& deadline);
  absl::Status Gone() const;

  Pipe pipe_;
  std::string name_;
  uint32_t block_tasks_;
  std::unique_ptr<GraphBuilder> graph_;
  v1::StreamRunHeader header_;
  bool header_queued_ = false;
  bool commit_queued_ = false;
  std::deque<v1::StreamRunRequest> unsent_;
};

}  // namespace pto
