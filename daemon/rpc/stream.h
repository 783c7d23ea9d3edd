#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "daemon/rpc/call_peer.h"
#include "daemon/rpc/incoming.h"
#include "daemon/rpc/stream_call.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/async_stream.h"

namespace pto::daemon::rpc {

// One streaming call, as a class with callbacks. A service derives from one of the three templates
// below.
//
// The callbacks run on the polling thread, one at a time, in no promised order among operations
// that ended together. Start... and Finish may be called on any thread, from OnStart on, but two
// of the same direction (reading; writing and finishing) never at the same time, and none after
// Finish. Each reactor must call Finish once, also after OnCancel. Operations that are under way
// at Finish still come back.
class StreamReactor {
 public:
  virtual ~StreamReactor() = default;

  // The call has begun. Operations can be started from here on.
  virtual void OnStart() {}
  // StartRead has ended. Not ok: the client has ended its half, has sent bytes that are not a
  // message (see malformed below), or the call is broken.
  virtual void OnReadDone(bool /*ok*/) {}
  // StartWrite has ended. Not ok: the call is broken.
  virtual void OnWriteDone(bool /*ok*/) {}
  // The client has gone, or its deadline has passed, before Finish.
  virtual void OnCancel() {}
  // All operations have ended and no more callbacks follow. Delete the reactor here.
  virtual void OnDone() = 0;

  // Valid from OnStart until OnDone returns.
  const grpc::ServerContext& context() const { return call_->context(); }
  // As of UnaryCall. Valid as long as context().
  std::shared_ptr<const Peer> peer() const { return PeerOf(context()); }
  absl::optional<std::string> Metadata(absl::string_view key) const {
    return MetadataOf(context(), key);
  }
  // Whether the client has disconnected or its deadline has passed. For slow callbacks, which
  // OnCancel cannot interrupt. Valid as long as context().
  bool gone() const { return call_->gone(); }

 protected:
  internal::StreamCall* call_ = nullptr;
};

// Whether a message leaves at once, or may wait in gRPC's buffer for the ones that follow.
enum class Flush { kNow, kWithNext };

namespace internal {

// What the two reactors that read have in common.
template <typename Request>
class ReadingReactor : public StreamReactor {
 public:
  // Valid in OnReadDone and later: the client has sent bytes that are not a message. Earlier
  // messages are valid, nothing after them is. The call ends with MESSAGE_INVALID, whatever status
  // the reactor passes.
  bool malformed() const { return incoming_.malformed.load(std::memory_order_acquire); }

 protected:
  NextMessage<Request>* Into(Request* message) {
    incoming_.message = message;
    return &incoming_;
  }
  grpc::Status EndWith(const absl::Status& status) const {
    return call_->NoteEnd(malformed() ? MalformedError() : status);
  }

 private:
  NextMessage<Request> incoming_;
};

}  // namespace internal

// The client sends one request, the server many responses.
template <typename Response>
class ServerStreamReactor : public StreamReactor {
 public:
  // One write at a time: start the next after OnWriteDone. The message may be changed at once.
  void StartWrite(const Response* message, Flush flush = Flush::kNow) {
    stream_->Write(*message, call_->WriteOptions(flush == Flush::kWithNext),
                   call_->Begin(internal::StreamCall::kWrite));
  }
  // Saves a pass through the queue. OnWriteDone is not called.
  void StartWriteAndFinish(const Response* message) {
    stream_->WriteAndFinish(*message, grpc::WriteOptions(), call_->NoteEnd(absl::OkStatus()),
                            call_->BeginLastWrite());
  }
  void Finish(const absl::Status& status) {
    stream_->Finish(call_->NoteEnd(status), call_->Begin(internal::StreamCall::kFinish));
  }

  // For the server.
  void Bind(internal::StreamCall* call, grpc::ServerAsyncWriter<Response>* stream) {
    call_ = call;
    stream_ = stream;
  }

 private:
  grpc::ServerAsyncWriter<Response>* stream_ = nullptr;
};

// The client sends many requests, the server one response.
template <typename Request, typename Response>
class ClientStreamReactor : public internal::ReadingReactor<Request> {
 public:
  // `message` must not be touched until OnReadDone.
  void StartRead(Request* message) {
    stream_->Read(this->Into(message), this->call_->Begin(internal::StreamCall::kRead));
  }
  // The response is sent only with an OK status; it may be changed at once.
  void Finish(const absl::Status& status, const Response& response) {
    stream_->Finish(response, this->EndWith(status),
                    this->call_->Begin(internal::StreamCall::kFinish));
  }
  void FinishWithError(const absl::Status& status) {
    stream_->FinishWithError(this->EndWith(status),
                             this->call_->Begin(internal::StreamCall::kFinish));
  }

  // For the server.
  void Bind(internal::StreamCall* call,
            grpc::ServerAsyncReader<Response, internal::NextMessage<Request>>* stream) {
    this->call_ = call;
    stream_ = stream;
  }

 private:
  grpc::ServerAsyncReader<Response, internal::NextMessage<Request>>* stream_ = nullptr;
};

// Both send many. One read and one write may be under way at the same time.
template <typename Request, typename Response>
class BidiStreamReactor : public internal::ReadingReactor<Request> {
 public:
  // See the two above.
  void StartRead(Request* message) {
    stream_->Read(this->Into(message), this->call_->Begin(internal::StreamCall::kRead));
  }
  void StartWrite(const Response* message, Flush flush = Flush::kNow) {
    stream_->Write(*message, this->call_->WriteOptions(flush == Flush::kWithNext),
                   this->call_->Begin(internal::StreamCall::kWrite));
  }
  void StartWriteAndFinish(const Response* message) {
    stream_->WriteAndFinish(*message, grpc::WriteOptions(), this->EndWith(absl::OkStatus()),
                            this->call_->BeginLastWrite());
  }
  void Finish(const absl::Status& status) {
    stream_->Finish(this->EndWith(status), this->call_->Begin(internal::StreamCall::kFinish));
  }

  // For the server.
  void Bind(internal::StreamCall* call,
            grpc::ServerAsyncReaderWriter<Response, internal::NextMessage<Request>>* stream) {
    this->call_ = call;
    stream_ = stream;
  }

 private:
  grpc::ServerAsyncReaderWriter<Response, internal::NextMessage<Request>>* stream_ = nullptr;
};

}  // namespace pto::daemon::rpc
