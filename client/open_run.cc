#include "client/open_run.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/internal/run_pipe.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto {

using internal::Deadline;

void internal::RunPipeCloser::operator()(RunPipe* pipe) const {
  RunPipe::Close(std::unique_ptr<RunPipe>(pipe));
}

OpenRun::OpenRun(Pipe pipe, v1::StreamRunHeader header, uint32_t segment_tasks)
    : pipe_(std::move(pipe)),
      name_(absl::StrCat(header.parent(), "/runs/", header.run_id())),
      segment_tasks_(segment_tasks),
      graph_(std::make_unique<GraphBuilder>()),
      header_(std::move(header)) {}
OpenRun::~OpenRun() = default;
OpenRun::OpenRun(OpenRun&&) noexcept = default;
OpenRun& OpenRun::operator=(OpenRun&&) noexcept = default;

absl::Status OpenRun::Gone() const {
  return Error(reason::kStreamEnded, absl::StrCat(name_, " was cancelled by this client"))
      .Hint("begin another run");
}

absl::Status OpenRun::Queue() {
  PTO_ASSIGN_OR_RETURN(std::vector<v1::StreamRunBlock> segments,
                       graph_->TakeBlocks(segment_tasks_));
  if (!header_queued_) {
    header_queued_ = true;
    header_.set_explicit_dependencies_only(graph_->explicit_dependencies_only_);
    *unsent_.emplace_back().mutable_header() = std::move(header_);
  }
  for (v1::StreamRunBlock& segment : segments) {
    *unsent_.emplace_back().mutable_block() = std::move(segment);
  }
  return absl::OkStatus();
}

absl::Status OpenRun::Send(const Deadline& deadline) {
  while (!unsent_.empty()) {
    PTO_RETURN_IF_ERROR(pipe_->Write(unsent_.front(), deadline));
    unsent_.pop_front();
  }
  return absl::OkStatus();
}

absl::Status OpenRun::Flush(absl::Duration timeout) {
  if (pipe_ == nullptr) return Gone();
  const Deadline deadline = pipe_->DeadlineOf(timeout);
  PTO_RETURN_IF_ERROR(Queue());
  const absl::Status sent = Send(deadline);
  if (!absl::IsAborted(sent) || !ReasonOf(sent).empty()) return sent;
  // The daemon ended the run before it received the commit.
  PTO_ASSIGN_OR_RETURN(const v1::Run ended, pipe_->Finish(deadline));
  return StatusOf(ended);
}

absl::StatusOr<v1::Run> OpenRun::Finish(absl::Duration timeout) {
  if (pipe_ == nullptr) return Gone();
  const Deadline deadline = pipe_->DeadlineOf(timeout);
  PTO_RETURN_IF_ERROR(Queue());
  if (!commit_queued_) {
    commit_queued_ = true;
    unsent_.emplace_back().mutable_commit()->set_task_count(graph_->task_count());
  }
  const absl::Status sent = Send(deadline);
  if (!sent.ok() && !(absl::IsAborted(sent) && ReasonOf(sent).empty())) return sent;
  return pipe_->Finish(deadline);
}

void OpenRun::Cancel() { pipe_.reset(); }

}  // namespace pto
