#include "client/launch_stream.h"

#include <utility>

#include "client/internal/launch_pipe.h"

namespace pto {

void internal::LaunchPipeCloser::operator()(LaunchPipe* pipe) const {
  LaunchPipe::Close(std::unique_ptr<LaunchPipe>(pipe));
}

LaunchStream::LaunchStream(std::unique_ptr<internal::LaunchPipe, internal::LaunchPipeCloser> pipe)
    : pipe_(std::move(pipe)) {}
LaunchStream::~LaunchStream() = default;
LaunchStream::LaunchStream(LaunchStream&&) noexcept = default;
LaunchStream& LaunchStream::operator=(LaunchStream&&) noexcept = default;

absl::StatusOr<uint64_t> LaunchStream::Launch(const v1::LaunchGraphRequest& request,
                                              absl::Duration timeout) {
  return pipe_->Launch(request, pipe_->DeadlineOf(timeout));
}

absl::StatusOr<v1::LaunchCompletion> LaunchStream::Next(absl::Duration timeout) {
  return pipe_->Next(pipe_->DeadlineOf(timeout));
}

absl::StatusOr<v1::LaunchCompletion> LaunchStream::LaunchAndWait(
    const v1::LaunchGraphRequest& request, absl::Duration timeout) {
  return pipe_->LaunchAndWait(request, pipe_->DeadlineOf(timeout));
}

absl::Status LaunchStream::Done(absl::Duration timeout) {
  return pipe_->Done(pipe_->DeadlineOf(timeout));
}

}  // namespace pto
