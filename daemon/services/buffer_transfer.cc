#include "daemon/services/buffer_transfer.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "daemon/names/names.h"
#include "daemon/names/window_name.h"
#include "daemon/session/session_hold.h"
#include "runtime/base/error.h"
#include "runtime/base/memory_account.h"
#include "runtime/base/status_macros.h"

namespace pto::daemon {
namespace {

// A buffer and its session, which is held during the transfer.
struct Target {
  SessionHold session;
  std::shared_ptr<SessionBuffer> buffer;
  std::string name;
};

absl::StatusOr<Target> FindTarget(Node& node, const auth::Principal& caller,
                                  const std::string& name) {
  PTO_ASSIGN_OR_RETURN(const names::Child child, names::ParseAnyBuffer(name, "name"));
  Target target;
  PTO_ASSIGN_OR_RETURN(std::shared_ptr<Session> session,
                       node.sessions().Use(caller, child.session));
  target.session = SessionHold(std::move(session));
  PTO_ASSIGN_OR_RETURN(target.buffer, target.session->FindBuffer(child.id));
  target.name = name;
  return target;
}

// Whether the transfer may continue: between two messages a run may start, or the buffer may be
// deleted.
absl::Status CheckUsable(const Target& target) {
  return target.session->CheckTransfer(*target.buffer);
}

absl::Status CheckRange(const Target& target, uint64_t offset, uint64_t bytes) {
  const uint64_t size = target.buffer->memory->bytes();
  if (offset <= size && bytes <= size - offset) return absl::OkStatus();
  return Error(reason::kRangeOutOfBounds,
               absl::StrCat(bytes, " bytes from byte ", offset, " reach beyond ", target.name,
                            ", which has ", size))
      .At("offset")
      .With("buffer", target.name)
      .With("have", size)
      .With("offset", offset)
      .With("bytes", bytes);
}

class WriteBuffer final
    : public rpc::ClientStreamReactor<v1::WriteBufferRequest, v1::WriteBufferResponse> {
 public:
  WriteBuffer(Node& node, Gate gate) : node_(node), gate_(gate) {}

  void OnStart() override {
    const absl::StatusOr<auth::Caller> caller = gate_.Admit(*this);
    if (!caller.ok()) {
      FinishWithError(caller.status());
      return;
    }
    caller_ = *caller;
    stay_ = gate_.Stay(*this, caller_);
    StartRead(&request_);
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      if (target_.buffer == nullptr) {
        Refuse(Error(reason::kStreamEmpty, "the stream ended before its first message"));
        return;
      }
      gate_.Note(*this, caller_, &first_, absl::OkStatus());
      v1::WriteBufferResponse response;
      response.set_written_bytes(written_);
      Finish(absl::OkStatus(), response);
      return;
    }
    const absl::Status status = Write();
    if (!status.ok()) {
      Refuse(status);
      return;
    }
    StartRead(&request_);
  }

  void OnDone() override { delete this; }

 private:
  void Refuse(const absl::Status& status) {
    gate_.Note(*this, caller_, &first_, status);
    FinishWithError(status);
  }

  absl::Status Write() {
    if (target_.buffer == nullptr) {
      first_.set_name(request_.name());
      PTO_ASSIGN_OR_RETURN(target_, FindTarget(node_, *caller_, request_.name()));
      if (target_.buffer->signals) {
        return Error(reason::kFieldInvalid,
                     absl::StrCat(target_.name, " are signals, which only Notify changes"))
            .At("name")
            .With("buffer", target_.name)
            .Hint("call DomainService.Notify");
      }
    } else if (!request_.name().empty() && request_.name() != target_.name) {
      return Error(reason::kFieldInvalid,
                   absl::StrCat("a stream writes one buffer, ", target_.name, ", not ",
                                names::Quoted(request_.name()), " too"))
          .At("name");
    }
    const std::string& data = request_.data();
    if (data.size() > node_.limits().max_chunk_bytes) {
      return Error(reason::kChunkTooLarge,
                   absl::StrCat("a message carries at most ", node_.limits().max_chunk_bytes,
                                " bytes, not ", data.size()))
          .At("data")
          .Limit("max_chunk_bytes", node_.limits().max_chunk_bytes, 0, data.size());
    }
    PTO_RETURN_IF_ERROR(CheckUsable(target_));
    PTO_RETURN_IF_ERROR(CheckRange(target_, request_.offset(), data.size()));
    // The message keeps its room for the next one, however long that takes to come.
    if (data.size() > charge_.bytes()) {
      if (charge_.bytes() == 0) charge_ = HostCharge(target_.session->memory());
      PTO_RETURN_IF_ERROR(target_.session->WithRoom(
          [&] { return charge_.Resize(data.size(), "a chunk of a buffer"); }));
    }
    PTO_RETURN_IF_ERROR(target_.buffer->Write(request_.offset(), data));
    written_ += data.size();
    return absl::OkStatus();
  }

  Node& node_;
  const Gate gate_;
  auth::Caller caller_;
  v1::WriteBufferRequest first_;  // without its data
  v1::WriteBufferRequest request_;
  Target target_;
  HostCharge charge_;  // for a message
  uint64_t written_ = 0;
  // Last, so that it goes first.
  std::unique_ptr<auth::OpenCalls::Stay> stay_;
};

class ReadBuffer final : public rpc::ServerStreamReactor<v1::ReadBufferResponse> {
 public:
  ReadBuffer(Node& node, Gate gate, const v1::ReadBufferRequest& request, UnreadBytes& unread)
      : node_(node), gate_(gate), unread_(unread), request_(request) {}
  ~ReadBuffer() override { unread_.GiveBack(taken_); }

  void OnStart() override {
    const absl::Status status = Begin();
    if (!status.ok()) {
      Finish(status);
      return;
    }
    SendNext();
  }

  void OnWriteDone(bool ok) override {
    if (!ok) {
      Finish(Error(reason::kClientGone, "the client has gone"));
      return;
    }
    const absl::Status status = CheckUsable(target_);
    if (!status.ok()) {
      Finish(status);
      return;
    }
    SendNext();
  }

  void OnDone() override { delete this; }

 private:
  absl::Status Begin() {
    PTO_ASSIGN_OR_RETURN(const auth::Caller caller, gate_.Admit(*this, &request_));
    stay_ = gate_.Stay(*this, caller);
    PTO_ASSIGN_OR_RETURN(target_, FindTarget(node_, *caller, request_.name()));
    const uint64_t size = target_.buffer->memory->bytes();
    const uint64_t limit = request_.limit() != 0      ? request_.limit()
                           : request_.offset() < size ? size - request_.offset()
                                                      : 0;
    PTO_RETURN_IF_ERROR(CheckRange(target_, request_.offset(), limit));
    PTO_RETURN_IF_ERROR(CheckUsable(target_));
    next_ = request_.offset();
    end_ = next_ + limit;
    return ChargeChunk();
  }

  // Chunks are smaller when the client may not hold as much.
  absl::Status ChargeChunk() {
    // The message, and gRPC's copy of it until the client has read that.
    constexpr uint64_t kCopies = 2;
    constexpr uint64_t kSmallChunk = uint64_t{64} << 10;
    chunk_ = std::min(end_ - next_, node_.limits().max_chunk_bytes);
    charge_ = HostCharge(target_.session->memory());
    if (charge_.TryResize(kCopies * chunk_)) return absl::OkStatus();
    chunk_ = std::min(chunk_, kSmallChunk);
    return target_.session->WithRoom(
        [&] { return charge_.Resize(kCopies * chunk_, "a chunk of a buffer"); });
  }

  void SendNext() {
    unread_.GiveBack(taken_);
    taken_ = unread_.Take(std::min(end_ - next_, chunk_));
    const uint64_t bytes = taken_;
    if (bytes == 0) {
      Finish(absl::OkStatus());
      return;
    }
    response_.set_offset(next_);
    const absl::Status read = target_.buffer->Read(next_, bytes, response_.mutable_data());
    if (!read.ok()) {
      Finish(read);
      return;
    }
    next_ += bytes;
    StartWrite(&response_, next_ < end_ ? rpc::Flush::kWithNext : rpc::Flush::kNow);
  }

  Node& node_;
  const Gate gate_;
  UnreadBytes& unread_;
  uint64_t taken_ = 0;
  const v1::ReadBufferRequest request_;
  v1::ReadBufferResponse response_;
  Target target_;
  HostCharge charge_;   // for a message and its copy
  uint64_t chunk_ = 0;  // the largest that is sent
  uint64_t next_ = 0;
  uint64_t end_ = 0;
  // Last, so that it goes first.
  std::unique_ptr<auth::OpenCalls::Stay> stay_;
};

}  // namespace

rpc::ClientStreamReactor<v1::WriteBufferRequest, v1::WriteBufferResponse>* NewWriteBuffer(
    Node& node, Gate gate) {
  return new WriteBuffer(node, gate);
}

rpc::ServerStreamReactor<v1::ReadBufferResponse>* NewReadBuffer(
    Node& node, Gate gate, const v1::ReadBufferRequest& request, UnreadBytes& unread) {
  return new ReadBuffer(node, gate, request, unread);
}

}  // namespace pto::daemon
