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
#include "runtime/base/status_macros.h"

namespace pto::daemon {
namespace {

// A buffer and its session, which is held during the transfer.
struct Target {
  SessionHold session;
  std::shared_ptr<SessionBuffer> buffer;
  std::string name;
};

absl::StatusOr<Target> FindTarget(Node& node, const std::string& name) {
  PTO_ASSIGN_OR_RETURN(const names::Child child, names::ParseAnyBuffer(name, "name"));
  Target target;
  PTO_ASSIGN_OR_RETURN(std::shared_ptr<Session> session, node.sessions().Use(child.session));
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
  explicit WriteBuffer(Node& node) : node_(node) {}

  void OnStart() override { StartRead(&request_); }

  void OnReadDone(bool ok) override {
    if (!ok) {
      if (target_.buffer == nullptr) {
        FinishWithError(Error(reason::kStreamEmpty, "the stream ended before its first message"));
        return;
      }
      v1::WriteBufferResponse response;
      response.set_written_bytes(written_);
      Finish(absl::OkStatus(), response);
      return;
    }
    const absl::Status status = Write();
    if (!status.ok()) {
      FinishWithError(status);
      return;
    }
    StartRead(&request_);
  }

  void OnDone() override { delete this; }

 private:
  absl::Status Write() {
    if (target_.buffer == nullptr) {
      PTO_ASSIGN_OR_RETURN(target_, FindTarget(node_, request_.name()));
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
    PTO_RETURN_IF_ERROR(target_.buffer->Write(request_.offset(), data));
    written_ += data.size();
    return absl::OkStatus();
  }

  Node& node_;
  v1::WriteBufferRequest request_;
  Target target_;
  uint64_t written_ = 0;
};

class ReadBuffer final : public rpc::ServerStreamReactor<v1::ReadBufferResponse> {
 public:
  ReadBuffer(Node& node, const v1::ReadBufferRequest& request) : node_(node), request_(request) {}

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
    PTO_ASSIGN_OR_RETURN(target_, FindTarget(node_, request_.name()));
    const uint64_t size = target_.buffer->memory->bytes();
    const uint64_t limit = request_.limit() != 0      ? request_.limit()
                           : request_.offset() < size ? size - request_.offset()
                                                      : 0;
    PTO_RETURN_IF_ERROR(CheckRange(target_, request_.offset(), limit));
    PTO_RETURN_IF_ERROR(CheckUsable(target_));
    next_ = request_.offset();
    end_ = next_ + limit;
    return absl::OkStatus();
  }

  void SendNext() {
    const uint64_t bytes = std::min(end_ - next_, node_.limits().max_chunk_bytes);
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
  const v1::ReadBufferRequest request_;
  v1::ReadBufferResponse response_;
  Target target_;
  uint64_t next_ = 0;
  uint64_t end_ = 0;
};

}  // namespace

rpc::ClientStreamReactor<v1::WriteBufferRequest, v1::WriteBufferResponse>* NewWriteBuffer(
    Node& node) {
  return new WriteBuffer(node);
}

rpc::ServerStreamReactor<v1::ReadBufferResponse>* NewReadBuffer(
    Node& node, const v1::ReadBufferRequest& request) {
  return new ReadBuffer(node, request);
}

}  // namespace pto::daemon
