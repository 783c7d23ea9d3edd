#pragma once

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "daemon/rpc/call.h"
#include "daemon/rpc/chaos.h"
#include "daemon/rpc/tag.h"
#include "grpcpp/impl/call_op_set.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/status.h"

namespace pto::daemon::rpc {

class StreamReactor;

namespace internal {

// The part of a streaming call that does not depend on its messages: which operations are under
// way, and the order of the reactor's callbacks. Callbacks of one reactor never overlap: an
// event that comes while one runs is left in state_ and delivered by the thread that runs it.
//
// Deletes itself after the reactor's OnDone.
class StreamCall : public Tag {
 public:
  enum Operation : uint32_t { kRead = 1 << 0, kWrite = 1 << 1, kFinish = 1 << 2 };

  explicit StreamCall(Method& method);
  StreamCall(const StreamCall&) = delete;
  StreamCall& operator=(const StreamCall&) = delete;

  grpc::ServerContext& context() { return context_; }
  // Whether the client has gone or its deadline has passed, also before a callback says so.
  bool gone() const;

  // Notes that the operation starts. Returns the tag to start it with.
  void* Begin(Operation operation);
  // The same for a write that finishes the call too.
  void* BeginLastWrite();

  // The call ends like this. Before the operation that says so to the client; returns what it is
  // told.
  grpc::Status NoteEnd(const absl::Status& status);

  // How to write the next message, which may wait in gRPC's buffer for the one after it.
  grpc::WriteOptions WriteOptions(bool may_wait);

  // A client has called, or, when not ok, the server stops.
  void Proceed(bool ok) override;

 protected:
  virtual ~StreamCall() = default;

  // Makes the reactor and binds it to the call's stream; when `refused`, one that only finishes.
  // Never returns nullptr.
  virtual StreamReactor* MakeReactor(bool refused) = 0;

 private:
  // An operation's bit, shifted: it has come back, and it went well.
  static constexpr int kArrivedShift = 4;
  static constexpr int kOkShift = 8;
  // The fourth operation, which gRPC starts: the call as a whole is over.
  static constexpr uint32_t kWhole = 1 << 3;
  static constexpr uint32_t kOperations = kRead | kWrite | kFinish | kWhole;
  static constexpr uint32_t kFinishCalled = 1 << 12;
  // A thread is in Run.
  static constexpr uint32_t kRunning = 1 << 13;

  struct OperationTag final : Tag {
    OperationTag(StreamCall* owner, uint32_t bit) : call(owner), operation(bit) {}
    void Proceed(bool ok) override { call->Arrive(operation, ok); }
    StreamCall* call;
    uint32_t operation;
  };

  void Arrive(uint32_t operation, bool ok);
  // Delivers events until there are none; deletes the call when it is over.
  void Run();
  void Deliver(uint32_t arrived, uint32_t ok);

  // First, so that it goes last: the server may stop when it is gone.
  Alive alive_;
  Method& method_;
  std::atomic<uint32_t> state_{kWhole | kRunning};
  StreamReactor* reactor_ = nullptr;
  uint64_t began_ = 0;
  // What a failpoint made of the call before it began.
  FailAction refused_ = FailAction::kNone;
  // Belongs to whoever writes.
  bool wrote_ = false;
  OperationTag read_tag_{this, kRead};
  OperationTag write_tag_{this, kWrite};
  OperationTag finish_tag_{this, kFinish};
  OperationTag whole_tag_{this, kWhole};
  grpc::ServerContext context_;
};

}  // namespace internal
}  // namespace pto::daemon::rpc
