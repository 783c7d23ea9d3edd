#pragma once

#include <atomic>

#include "absl/status/status.h"
#include "grpcpp/impl/codegen/proto_utils.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/status.h"
#include "runtime/base/error.h"

namespace pto::daemon::rpc {

// The error of a call whose client sent bytes that are not a message of the method.
inline absl::Status MalformedError() {
  return Error(reason::kMessageInvalid, "the bytes of a request are not a message of this method");
}

namespace internal {

// The target for the request of a call. gRPC would refuse bytes that it cannot parse with an error
// without a reason. Here the call begins and the server refuses it.
template <typename Message>
struct FirstMessage {
  explicit FirstMessage(Message* to) : message(to) {}
  Message* const message;
  bool malformed = false;
};

// The target for the next message of a stream. A failed read means the end of the stream or bytes
// that gRPC cannot parse; only this class can distinguish them.
template <typename Message>
struct NextMessage {
  Message* message = nullptr;
  // Never reset. Written by the read, checked by the thread that finishes the call.
  std::atomic<bool> malformed{false};
};

template <typename Message>
grpc::Status ParseInPlace(grpc::ByteBuffer* bytes, Message* message) {
  return grpc::SerializationTraits<Message>::Deserialize(bytes, message);
}

}  // namespace internal
}  // namespace pto::daemon::rpc

namespace grpc {

template <typename Message>
class SerializationTraits<pto::daemon::rpc::internal::FirstMessage<Message>> {
 public:
  static Status Deserialize(ByteBuffer* bytes,
                            pto::daemon::rpc::internal::FirstMessage<Message>* to) {
    to->malformed = !pto::daemon::rpc::internal::ParseInPlace(bytes, to->message).ok();
    return Status::OK;
  }
};

template <typename Message>
class SerializationTraits<pto::daemon::rpc::internal::NextMessage<Message>> {
 public:
  static Status Deserialize(ByteBuffer* bytes,
                            pto::daemon::rpc::internal::NextMessage<Message>* to) {
    const Status status = pto::daemon::rpc::internal::ParseInPlace(bytes, to->message);
    if (!status.ok()) to->malformed.store(true, std::memory_order_release);
    return status;
  }
};

}  // namespace grpc
