#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "daemon/rpc/call.h"
#include "daemon/rpc/call_peer.h"
#include "daemon/rpc/chaos.h"
#include "daemon/rpc/incoming.h"
#include "daemon/rpc/tag.h"
#include "google/protobuf/arena.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/async_unary_call.h"
#include "proto/status/grpc_status.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"

namespace pto::daemon::rpc {

namespace internal {
template <typename Request, typename Response>
class UnaryMethod;

struct CallReleaser {
  template <typename Call>
  void operator()(Call* call) const {
    call->Release();
  }
};
}  // namespace internal

// One unary call. The handler gets it as a UnaryCallPtr, fills response() and calls Finish once, at
// once or later, on any thread. The object lives until the pointer is released and gRPC has
// finished, so the pointer remains valid. Releasing it without Finish answers INTERNAL, so no
// client waits forever.
template <typename Request, typename Response>
class UnaryCall final {
 public:
  UnaryCall(const UnaryCall&) = delete;
  UnaryCall& operator=(const UnaryCall&) = delete;

  const Request& request() const { return *request_; }
  // The handler may modify or move from it: the call owns the request.
  Request& mutable_request() { return *request_; }
  Response* response() { return response_; }
  const grpc::ServerContext& context() const { return context_; }
  // Who has called; never nullptr. Costs an allocation: keep it rather than ask twice.
  std::shared_ptr<const Peer> peer() const { return PeerOf(context_); }
  // The first value of a key of the call's metadata.
  absl::optional<std::string> Metadata(absl::string_view key) const {
    return MetadataOf(context_, key);
  }

  // Whether the client does not wait any more: its deadline has passed or, in methods registered
  // with LongUnary, it has disconnected. For slow handlers. Thread-safe.
  bool gone() const {
    return (cancel_state_.load(std::memory_order_acquire) & kCancelled) != 0 ||
           std::chrono::system_clock::now() > context_.deadline();
  }

  // Keeps this until the response has been sent. Before Finish.
  void Hold(std::shared_ptr<void> what) { held_ = std::move(what); }

  // Sends the response, or the error without the response.
  void Finish(const absl::Status& status) {
    const FailAction chaos = method_.Chaos(internal::ChaosPlace::kAfter);
    if (chaos != FailAction::kNone) {
      Break(chaos);
      return;
    }
    PTO_CHECK(!finished_.exchange(true, std::memory_order_acq_rel), "Finish was called twice");
    method_.Ended(status, began_);
    // gRPC may have finished, and only the caller's pointer keeps the object, before this returns.
    if (status.ok()) {
      writer_.Finish(*response_, grpc::Status::OK, static_cast<Tag*>(&finish_tag_));
    } else {
      writer_.FinishWithError(ToGrpcStatus(status), static_cast<Tag*>(&finish_tag_));
    }
  }

  // Only for methods registered with LongUnary, and at most once: `callback` is called when the
  // client disconnects or its deadline passes before Finish: at once if that has already happened,
  // otherwise on the polling thread, possibly concurrently with Finish on another thread. The call
  // must still be finished. The callback must not own the call's pointer, but look it up where it
  // is stored.
  void OnCancelled(std::function<void()> callback) {
    PTO_CHECK(notices_cancel_, "OnCancelled needs LongUnary");
    on_cancelled_ = std::move(callback);
    if (cancel_state_.fetch_or(kCallbackSet, std::memory_order_acq_rel) == kCancelled) {
      on_cancelled_();
    }
  }

 private:
  friend class internal::UnaryMethod<Request, Response>;
  friend struct internal::CallReleaser;

  struct RequestTag final : Tag {
    explicit RequestTag(UnaryCall* owner) : call(owner) {}
    void Proceed(bool ok) override { call->method_.OnCall(call, ok); }
    UnaryCall* call;
  };
  struct FinishTag final : Tag {
    explicit FinishTag(UnaryCall* owner) : call(owner) {}
    void Proceed(bool /*ok*/) override { call->Unref(); }
    UnaryCall* call;
  };
  struct DoneTag final : Tag {
    explicit DoneTag(UnaryCall* owner) : call(owner) {}
    void Proceed(bool /*ok*/) override { call->OnDone(); }
    UnaryCall* call;
  };

  enum CancelState : int { kCallbackSet = 1, kCancelled = 2 };

  UnaryCall(internal::UnaryMethod<Request, Response>& method, bool notices_cancel)
      : alive_(method.live()),
        method_(method),
        notices_cancel_(notices_cancel),
        references_(notices_cancel ? 3 : 2),
        request_(google::protobuf::Arena::CreateMessage<Request>(&arena_)),
        response_(google::protobuf::Arena::CreateMessage<Response>(&arena_)),
        writer_(&context_) {
    if (notices_cancel) context_.AsyncNotifyWhenDone(static_cast<Tag*>(&done_tag_));
  }
  ~UnaryCall() = default;

  void OnDone() {
    if (context_.IsCancelled() && !finished_.load(std::memory_order_acquire) &&
        cancel_state_.fetch_or(kCancelled, std::memory_order_acq_rel) == kCallbackSet) {
      on_cancelled_();
    }
    Unref();
  }

  // Finishes as a failpoint wants it.
  void Break(FailAction chaos) {
    PTO_CHECK(!finished_.exchange(true, std::memory_order_acq_rel), "Finish was called twice");
    const grpc::Status end = internal::ChaosStatus(chaos);
    method_.Ended(FromGrpcStatus(end), began_);
    writer_.FinishWithError(end, static_cast<Tag*>(&finish_tag_));
  }

  // The pointer to the call is released.
  void Release() {
    if (!finished_.load(std::memory_order_acquire)) {
      Finish(Error(reason::kInternal, "the call was dropped without an answer"));
    }
    Unref();
  }

  void Unref() {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

  // Small messages need no memory but the call's own; large graphs get large blocks.
  static constexpr size_t kFirstBlockBytes = 1024;
  static constexpr size_t kLargestBlockBytes = 64 << 10;
  google::protobuf::ArenaOptions ArenaOptions() {
    google::protobuf::ArenaOptions options;
    options.initial_block = first_block_;
    options.initial_block_size = sizeof first_block_;
    options.max_block_size = kLargestBlockBytes;
    return options;
  }

  // First, so that it is destroyed last: the server may stop when it is gone.
  internal::Alive alive_;
  internal::UnaryMethod<Request, Response>& method_;
  const bool notices_cancel_;
  std::shared_ptr<void> held_;
  uint64_t began_ = 0;
  std::atomic<bool> finished_{false};
  std::atomic<int> cancel_state_{0};
  // The pointer, the finish tag, and the done tag when there is one.
  std::atomic<int> references_;
  RequestTag request_tag_{this};
  FinishTag finish_tag_{this};
  DoneTag done_tag_{this};
  std::function<void()> on_cancelled_;
  alignas(std::max_align_t) char first_block_[kFirstBlockBytes];
  google::protobuf::Arena arena_{ArenaOptions()};
  Request* const request_;
  internal::FirstMessage<Request> incoming_{request_};
  Response* const response_;
  grpc::ServerContext context_;
  grpc::ServerAsyncResponseWriter<Response> writer_;
};

template <typename Request, typename Response>
using UnaryCallPtr = std::unique_ptr<UnaryCall<Request, Response>, internal::CallReleaser>;

template <typename Request, typename Response>
using UnaryHandler = std::function<void(UnaryCallPtr<Request, Response>)>;

namespace internal {

template <typename Request, typename Response>
class UnaryMethod final : public Method {
 public:
  using Call = UnaryCall<Request, Response>;
  // Hands a call to gRPC, which fills it and returns the tag when a client calls.
  using Requester = std::function<void(grpc::ServerContext*, FirstMessage<Request>*,
                                       grpc::ServerAsyncResponseWriter<Response>*, void* tag)>;

  UnaryMethod(LiveCount& live, Requester requester, UnaryHandler<Request, Response> handler,
              bool notices_cancel)
      : Method(live),
        requester_(std::move(requester)),
        handler_(std::move(handler)),
        notices_cancel_(notices_cancel) {}

  void Arm() override {
    auto* const call = new Call(*this, notices_cancel_);
    requester_(&call->context_, &call->incoming_, &call->writer_,
               static_cast<Tag*>(&call->request_tag_));
  }

  void OnCall(Call* call, bool ok) {
    if (!ok) {
      // The server stops. gRPC then never returns the done tag.
      delete call;
      return;
    }
    const Alive until_armed(live());
    call->began_ = Now();
    if (call->incoming_.malformed) {
      UnaryCallPtr<Request, Response>(call)->Finish(MalformedError());
    } else if (const FailAction chaos = Chaos(ChaosPlace::kBefore); chaos != FailAction::kNone) {
      UnaryCallPtr<Request, Response>(call)->Break(chaos);
    } else {
      if (Chaos(ChaosPlace::kDuring) != FailAction::kNone) call->context_.TryCancel();
      handler_(UnaryCallPtr<Request, Response>(call));
    }
    // After the handler, because the client waits for that and other calls are armed.
    Arm();
  }

 private:
  const Requester requester_;
  const UnaryHandler<Request, Response> handler_;
  const bool notices_cancel_;
};

}  // namespace internal
}  // namespace pto::daemon::rpc
