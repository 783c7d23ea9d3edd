#include "client/internal/launch_pipe.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/internal/rpc_error.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::internal {
namespace {

constexpr absl::string_view kRpc = "LaunchStream";

}  // namespace

LaunchPipe::LaunchPipe(std::shared_ptr<Core> core, std::shared_ptr<SessionState> session)
    : core_(std::move(core)), session_(std::move(session)) {
  MutexLock lock(driver_.mutex());
  stream_ = core_->transport().run.stub->PrepareAsyncLaunchStream(&context_, driver_.queue());
  stream_->StartCall(driver_.Begin(start_));
}

void LaunchPipe::Close(std::unique_ptr<LaunchPipe> pipe) {
  const std::shared_ptr<Core> core = std::move(pipe->core_);
  core->transport().run.connection.Release(std::move(pipe));
}

absl::StatusOr<uint64_t> LaunchPipe::Launch(const v1::LaunchGraphRequest& request,
                                            const Deadline& deadline) {
  MutexLock lock(driver_.mutex());
  return LaunchLocked(request, deadline);
}

absl::StatusOr<v1::LaunchCompletion> LaunchPipe::Next(const Deadline& deadline) {
  MutexLock lock(driver_.mutex());
  while (true) {
    if (absl::optional<v1::LaunchCompletion> next = Take(absl::nullopt)) return *std::move(next);
    if (finish_.done()) return EndStatus(deadline);
    PTO_RETURN_IF_ERROR(Advance(deadline));
  }
}

absl::StatusOr<v1::LaunchCompletion> LaunchPipe::LaunchAndWait(
    const v1::LaunchGraphRequest& request, const Deadline& deadline) {
  MutexLock lock(driver_.mutex());
  PTO_ASSIGN_OR_RETURN(const uint64_t tag, LaunchLocked(request, deadline));
  claimed_.push_back(tag);
  absl::Status error;
  absl::optional<v1::LaunchCompletion> own;
  while (error.ok()) {
    own = Take(tag);
    if (own.has_value()) break;
    error = finish_.done() ? EndStatus(deadline) : Advance(deadline);
  }
  claimed_.erase(std::find(claimed_.begin(), claimed_.end(), tag));
  if (own.has_value()) return *std::move(own);
  return error;
}

absl::Status LaunchPipe::Done(const Deadline& deadline) {
  MutexLock lock(driver_.mutex());
  if (writes_done_) return absl::OkStatus();
  PTO_RETURN_IF_ERROR(AwaitWritable(deadline));
  writes_done_ = true;
  stream_->WritesDone(driver_.Begin(write_));
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> LaunchPipe::LaunchLocked(const v1::LaunchGraphRequest& request,
                                                  const Deadline& deadline) {
  PTO_RETURN_IF_ERROR(session_->status());
  if (writes_done_) {
    return Error(reason::kStreamEnded, "this launch stream was told that no launch follows");
  }
  PTO_RETURN_IF_ERROR(AwaitWritable(deadline));
  const uint64_t tag = ++last_tag_;
  outgoing_.set_tag(tag);
  // Borrows the caller's message instead of copying it: Write has serialized it when it returns.
  outgoing_.unsafe_arena_set_allocated_launch(const_cast<v1::LaunchGraphRequest*>(&request));
  stream_->Write(outgoing_, driver_.Begin(write_));
  outgoing_.unsafe_arena_release_launch();
  return tag;
}

absl::Status LaunchPipe::AwaitWritable(const Deadline& deadline) {
  TakeFinishedOps();
  while (!started_ || !write_.idle()) {
    if (finish_.done()) return EndStatus(deadline);
    PTO_RETURN_IF_ERROR(Advance(deadline));
  }
  // A broken call may have messages left; they are kept for Next, and then it has a status.
  while (broken_ || exhausted_) {
    if (finish_.done()) return EndStatus(deadline);
    PTO_RETURN_IF_ERROR(Advance(deadline));
  }
  return absl::OkStatus();
}

absl::Status LaunchPipe::Advance(const Deadline& deadline) {
  if (started_ && !exhausted_ && read_.idle()) {
    stream_->Read(&incoming_, driver_.Begin(read_));
  }
  if (exhausted_ && write_.idle() && finish_.idle()) {
    stream_->Finish(&finish_status_, driver_.Begin(finish_));
  }
  if (!driver_.Step(deadline) && deadline.Passed()) {
    // An operation may have ended at the last moment, in another thread.
    TakeFinishedOps();
    return TimeoutError(kRpc, core_->address(), deadline.timeout());
  }
  TakeFinishedOps();
  return absl::OkStatus();
}

void LaunchPipe::TakeFinishedOps() {
  if (start_.done() && !started_) {
    started_ = true;
    broken_ = !start_.ok;
  }
  if (write_.done()) {
    write_.state = CallOp::State::kIdle;
    if (!write_.ok) broken_ = true;
  }
  if (read_.done()) {
    read_.state = CallOp::State::kIdle;
    if (read_.ok) {
      ready_.push_back(std::move(incoming_));
    } else {
      exhausted_ = true;
    }
  }
}

absl::Status LaunchPipe::EndStatus(const Deadline& deadline) {
  if (!end_.has_value()) {
    const grpc::Status status = finish_status_;
    // Asks the daemon, so release the lock for others meanwhile.
    driver_.mutex().Unlock();
    absl::Status end = RpcError(status, kRpc, core_->address(), deadline.timeout());
    if (end.ok()) {
      end = Error(reason::kStreamEnded, "the launch stream has ended; no completion is left");
    } else {
      end = core_->Examine(*session_, end, deadline);
    }
    driver_.mutex().Lock();
    end_ = std::move(end);
  }
  return *end_;
}

absl::optional<v1::LaunchCompletion> LaunchPipe::Take(absl::optional<uint64_t> tag) {
  for (auto it = ready_.begin(); it != ready_.end(); ++it) {
    if (tag.has_value() ? it->tag() != *tag : IsClaimed(it->tag())) continue;
    v1::LaunchCompletion completion = std::move(*it);
    ready_.erase(it);
    return completion;
  }
  return absl::nullopt;
}

bool LaunchPipe::IsClaimed(uint64_t tag) {
  return std::find(claimed_.begin(), claimed_.end(), tag) != claimed_.end();
}

}  // namespace pto::internal
