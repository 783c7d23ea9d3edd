#include "daemon/services/stream_run.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/admission/admission.h"
#include "daemon/graph/fields.h"
#include "daemon/graph/graph_bytes.h"
#include "daemon/names/names.h"
#include "daemon/services/run_request.h"
#include "daemon/wire/convert.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::daemon {
namespace {

absl::Status OrderError(absl::string_view part, absl::string_view message) {
  return Error(reason::kStreamOrder, message).At(part);
}

// An error about what is in the header. When the session is not there, no field is wrong but the
// id.
absl::Status InHeader(const absl::Status& status, const Admission::Request& request) {
  const absl::optional<ErrorDetail> detail = GetErrorDetail(status);
  const bool found = request.hold.session() != nullptr;
  if (!found && (!detail.has_value() || detail->field.empty())) return status;
  return PrefixField(status, "header.");
}

}  // namespace

StreamRun* StreamRun::Make(Node& node, Gate gate, StopList& streams) {
  std::shared_ptr<StreamRun> stream(new StreamRun(node, gate, streams));
  stream->self_ = stream;
  return stream.get();
}

void StreamRun::OnStart() {
  const absl::StatusOr<auth::Caller> caller = gate_.Admit(*this);
  if (!caller.ok()) return AnswerWithError(caller.status());
  caller_ = *caller;
  stay_ = gate_.Stay(*this, caller_);
  stop_id_ = streams_.Add([weak = weak_from_this()] {
    const std::shared_ptr<StreamRun> stream = weak.lock();
    if (stream == nullptr) return;
    std::shared_ptr<StreamedRun> run;
    {
      MutexLock lock(stream->mutex_);
      run = stream->run_;
    }
    if (run == nullptr) {
      stream->AnswerWithError(Error(reason::kNodeDraining, "the daemon stops"));
    } else {
      run->Stop(engine::RunState::kCancelled,
                Error(reason::kRunCancelled, "the daemon stops").With("by", "stop"));
    }
  });
  ReadNext();
}

// ---- reading

void StreamRun::ReadNext() {
  std::shared_ptr<StreamedRun> run;
  {
    MutexLock lock(mutex_);
    if (finished_ || reading_ || committed_) return;
    run = run_;
  }
  if (run != nullptr && !run->AwaitRoom([weak = weak_from_this()] {
        if (const std::shared_ptr<StreamRun> stream = weak.lock()) stream->ReadNext();
      })) {
    return;
  }
  MutexLock lock(mutex_);
  if (finished_ || reading_ || committed_) return;
  reading_ = true;
  StartRead(&request_);
}

void StreamRun::OnReadDone(bool ok) {
  {
    MutexLock lock(mutex_);
    if (finished_) return;
  }
  if (!ok) {
    OnReadsEnded();
    return;
  }
  const absl::Status taken = Take(request_);
  {
    // Only now: the message is not needed any more.
    MutexLock lock(mutex_);
    reading_ = false;
  }
  if (!taken.ok()) {
    // A block that is not finished because the client has gone is not wrong.
    if (gone()) return OnCancel();
    Fail(engine::RunState::kFailed, taken);
    return;
  }
  ReadNext();
}

void StreamRun::OnReadsEnded() {
  if (malformed()) {
    Fail(engine::RunState::kFailed, rpc::MalformedError());
  } else if (decoder_.has_value()) {
    // Whether the client has ended its half or has gone cannot be told apart.
    Fail(engine::RunState::kCancelled,
         Error(reason::kStreamBroken, "the stream ended without a commit")
             .With("tasks", decoder_->tasks()));
  } else {
    Fail(engine::RunState::kFailed,
         Error(reason::kStreamEmpty, "the stream has no header").At("header"));
  }
}

absl::Status StreamRun::Take(const v1::StreamRunRequest& request) {
  switch (request.part_case()) {
    case v1::StreamRunRequest::kHeader:
      if (decoder_.has_value()) return OrderError("header", "a second header came");
      return TakeHeader(request.header());
    case v1::StreamRunRequest::kBlock:
      if (!decoder_.has_value()) return OrderError("block", "a block came before the header");
      return TakeBlock(request.block());
    case v1::StreamRunRequest::kCommit:
      if (!decoder_.has_value()) return OrderError("commit", "the commit came before the header");
      return TakeCommit(request.commit());
    case v1::StreamRunRequest::PART_NOT_SET:
      break;
  }
  return Error(reason::kFieldInvalid, "a part is empty")
      .At("part")
      .Hint("set header, block or commit");
}

absl::Status StreamRun::TakeHeader(const v1::StreamRunHeader& header) {
  const absl::Status begun = Begin(header);
  // The run is what is accepted or refused; how it ends is an event.
  if (!noted_.exchange(true)) gate_.Note(*this, caller_, &request_, begun);
  return begun;
}

absl::Status StreamRun::Begin(const v1::StreamRunHeader& header) {
  const Admission admission(node_);
  PTO_RETURN_IF_ERROR(admission.CheckAccepting());
  Admission::Request start;
  start.caller = caller_.get();
  start.open = true;
  PTO_ASSIGN_OR_RETURN(start.session, names::ParseSession(header.parent(), "header.parent"));
  PTO_RETURN_IF_ERROR(names::CheckId(header.run_id(), "header.run_id"));
  PTO_RETURN_IF_ERROR(ParseRunOptions(*caller_, header.options(), "header.options", &start.run));
  start.run.id = header.run_id();
  if (header.has_wait()) {
    PTO_ASSIGN_OR_RETURN(wait_, ParseWait(header.wait(), "header.wait"));
  }
  OpenDecoder::Options options;
  options.session = start.session;
  options.max_block_tasks = node_.limits().max_block_tasks;
  options.limits = {node_.limits().max_graph_tensors, node_.limits().max_graph_edges};
  options.find_dependencies = !header.explicit_dependencies_only();
  options.run_timeout_ns = start.run.timeout_ns;
  terms_.timeout_ns = start.run.timeout_ns;
  terms_.task_timeout_ns = start.run.task_timeout_ns;
  options.cancelled =
      engine::WorkBudget::Cancelled([this] { return gone(); }).WithTime(&compile_time_);
  if (const absl::Status started = admission.Start(start).status(); !started.ok()) {
    return InHeader(started, start);
  }
  options.find_buffer =
      [weak = std::weak_ptr<Session>(start.hold.session())](
          absl::string_view buffer) -> absl::StatusOr<engine::OpenGraph::SlotMemory> {
    const std::shared_ptr<Session> owner = weak.lock();
    if (owner == nullptr) return Error(reason::kSessionEnded, "the session has ended");
    PTO_ASSIGN_OR_RETURN(const std::shared_ptr<SessionBuffer> found, owner->FindBuffer(buffer));
    return engine::OpenGraph::SlotMemory{found->memory->chip(), found->memory->bytes()};
  };
  decoder_.emplace(start.hold->target(), std::move(options));
  hold_ = std::move(start.hold);
  charge_ = HostCharge(hold_->memory());
  {
    MutexLock lock(mutex_);
    run_ = start.opened;
  }
  start.opened->AddWaiter(
      [stream = shared_from_this()](const RunStatus& status) { stream->OnRunEnded(status); });
  return absl::OkStatus();
}

absl::Status StreamRun::TakeBlock(const v1::StreamRunBlock& block) {
  std::shared_ptr<StreamedRun> run;
  {
    MutexLock lock(mutex_);
    run = run_;
  }
  decoder_->ForgetBefore(run->ended_before());
  PTO_RETURN_IF_ERROR(ChargeBlock(block));
  const uint32_t number = decoder_->blocks();
  compile_time_.Restart();
  PTO_ASSIGN_OR_RETURN(absl::optional<engine::GraphSegment> segment, decoder_->Add(block));
  if (!segment.has_value()) return absl::OkStatus();
  PTO_RETURN_IF_ERROR(CheckWork(node_, terms_, *segment->image));
  const absl::Status appended = run->Append(*std::move(segment));
  if (!appended.ok()) {
    // A buffer that was there is there no more, or is another.
    return Relocate(appended, absl::StrCat("blocks[", number, "].tasks"),
                    {{"block", absl::StrCat(number)}});
  }
  CheckFailures();
  return absl::OkStatus();
}

absl::Status StreamRun::ChargeBlock(const v1::StreamRunBlock& block) {
  constexpr uint64_t kReader = 16;
  // Lists and tensors stay until the run has ended; of the tasks only what those after them need.
  kept_bytes_ += ListBytes(block) + BuilderBytes(block.tensors());
  return hold_->WithRoom([&] {
    return charge_.Resize(
        kept_bytes_ + BuilderBytes(block.tasks()) + kReader * decoder_->live_readers(),
        "an open run");
  });
}

void StreamRun::CheckFailures() {
  std::shared_ptr<StreamedRun> run;
  {
    MutexLock lock(mutex_);
    run = run_;
  }
  const uint64_t kept = run->failed_segment_tasks();
  if (kept == 0) return;
  const uint64_t limit = node_.limits().max_session_live_tasks;
  const uint64_t have = std::max<uint64_t>(kept, decoder_->live_readers() / 4);
  if (have <= limit) return;
  run->Stop(engine::RunState::kFailed,
            Error(reason::kGraphTooLarge, "too many tasks have failed to remember them all")
                .Limit("max_session_live_tasks", limit, have, 0)
                .Hint("see the first error"));
}

absl::Status StreamRun::TakeCommit(const v1::PackedCommit& commit) {
  if (commit.task_count() != decoder_->tasks()) {
    return Error(reason::kBlockInvalid, absl::StrCat("the commit counts ", commit.task_count(),
                                                     " tasks, but ", decoder_->tasks(), " came"))
        .At("commit.task_count")
        .With("block", decoder_->blocks())
        .With("have", decoder_->tasks())
        .With("want", commit.task_count());
  }
  std::shared_ptr<StreamedRun> run;
  {
    MutexLock lock(mutex_);
    committed_ = true;
    run = run_;
  }
  run->Close();
  if (!wait_.has_value()) return absl::OkStatus();
  if (*wait_ == absl::ZeroDuration()) {
    Answer(run->Status());
    return absl::OkStatus();
  }
  const TimerQueue::Id timer = node_.timers().Schedule(
      node_.clock().NowNanos() + absl::ToInt64Nanoseconds(*wait_),
      [weak = weak_from_this(), run] {
        if (const std::shared_ptr<StreamRun> stream = weak.lock()) stream->Answer(run->Status());
      },
      run->owner().get());
  MutexLock lock(mutex_);
  wait_timer_ = timer;
  return absl::OkStatus();
}

// ---- the end

void StreamRun::Fail(engine::RunState as, const absl::Status& error) {
  std::shared_ptr<StreamedRun> run;
  {
    MutexLock lock(mutex_);
    if (!error_.has_value()) error_ = error;
    run = run_;
  }
  if (run == nullptr) {
    if (!noted_.exchange(true)) gate_.Note(*this, caller_, nullptr, error);
    AnswerWithError(error);
  } else {
    run->Stop(as, error);
  }
}

void StreamRun::OnRunEnded(const RunStatus& status) {
  absl::optional<absl::Status> error;
  {
    MutexLock lock(mutex_);
    error = error_;
  }
  if (error.has_value()) {
    AnswerWithError(*error);
  } else {
    Answer(status);
  }
}

void StreamRun::Answer(const RunStatus& status) {
  v1::Run response;
  ToProto(status, &response);
  MutexLock lock(mutex_);
  if (std::exchange(finished_, true)) return;
  Finish(absl::OkStatus(), response);
}

void StreamRun::AnswerWithError(const absl::Status& error) {
  MutexLock lock(mutex_);
  if (std::exchange(finished_, true)) return;
  FinishWithError(error);
}

void StreamRun::OnCancel() {
  std::shared_ptr<StreamedRun> run;
  bool committed = false;
  {
    MutexLock lock(mutex_);
    run = run_;
    committed = committed_;
  }
  // Nobody reads it.
  AnswerWithError(Error(reason::kClientGone, "the client has gone"));
  if (run != nullptr && !committed) {
    run->Stop(engine::RunState::kCancelled,
              Error(reason::kStreamBroken, "the client has gone before the commit")
                  .With("by", "StreamRun"));
  }
}

void StreamRun::OnDone() {
  stay_.reset();
  streams_.Remove(stop_id_);
  TimerQueue::Id timer = 0;
  {
    MutexLock lock(mutex_);
    timer = wait_timer_;
  }
  if (timer != 0) node_.timers().Cancel(timer);
  hold_.Drop();
  const std::shared_ptr<StreamRun> last = std::move(self_);
}

}  // namespace pto::daemon
