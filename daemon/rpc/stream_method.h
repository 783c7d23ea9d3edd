#pragma once

#include <functional>
#include <utility>

#include "daemon/rpc/call.h"
#include "daemon/rpc/incoming.h"
#include "daemon/rpc/stream.h"
#include "daemon/rpc/stream_call.h"
#include "runtime/base/log.h"

namespace pto::daemon::rpc {

// Make the reactor of one call. They run on the polling thread, must not return nullptr, and
// leave ownership to the reactor's own OnDone. The request is valid until OnDone returns.
template <typename Request, typename Response>
using ServerStreamFactory =
    std::function<ServerStreamReactor<Response>*(const Request&, const grpc::ServerContext&)>;
template <typename Request, typename Response>
using ClientStreamFactory =
    std::function<ClientStreamReactor<Request, Response>*(const grpc::ServerContext&)>;
template <typename Request, typename Response>
using BidiStreamFactory =
    std::function<BidiStreamReactor<Request, Response>*(const grpc::ServerContext&)>;

namespace internal {

// The three kinds of streaming method. Each has a Requester, which hands the parts of a new call
// to gRPC.

// Takes the place of a reactor when the request is no message, or a failpoint refuses the call,
// which then decides what the client is told.
template <typename Response>
class RefusingReactor final : public ServerStreamReactor<Response> {
 public:
  void OnStart() override { this->Finish(MalformedError()); }
  void OnDone() override { delete this; }
};
template <typename Reactor>
class RefusingReader final : public Reactor {
 public:
  void OnStart() override {
    if constexpr (requires { this->FinishWithError(absl::OkStatus()); }) {
      this->FinishWithError(MalformedError());
    } else {
      this->Finish(MalformedError());
    }
  }
  void OnDone() override { delete this; }
};

template <typename Request, typename Response>
class ServerStreamMethod final : public Method {
 public:
  using Stream = grpc::ServerAsyncWriter<Response>;
  using Factory = ServerStreamFactory<Request, Response>;
  using Requester =
      std::function<void(grpc::ServerContext*, FirstMessage<Request>*, Stream*, void* tag)>;

  ServerStreamMethod(LiveCount& live, Requester requester, Factory factory)
      : Method(live), requester_(std::move(requester)), factory_(std::move(factory)) {}

  void Arm() override {
    auto* const call = new Call(*this);
    requester_(&call->context(), &call->incoming, &call->stream, static_cast<Tag*>(call));
  }

 private:
  struct Call final : StreamCall {
    explicit Call(ServerStreamMethod& owner)
        : StreamCall(owner), method(owner), stream(&context()) {}
    StreamReactor* MakeReactor(bool refused) override {
      ServerStreamReactor<Response>* const reactor = refused || incoming.malformed
                                                         ? new RefusingReactor<Response>()
                                                         : method.factory_(request, context());
      PTO_CHECK(reactor != nullptr, "a factory must return a reactor");
      reactor->Bind(this, &stream);
      return reactor;
    }
    ServerStreamMethod& method;
    Request request;
    FirstMessage<Request> incoming{&request};
    Stream stream;
  };

  const Requester requester_;
  const Factory factory_;
};

template <typename Reactor, typename Stream>
class ReadingStreamMethod final : public Method {
 public:
  using Factory = std::function<Reactor*(const grpc::ServerContext&)>;
  using Requester = std::function<void(grpc::ServerContext*, Stream*, void* tag)>;

  ReadingStreamMethod(LiveCount& live, Requester requester, Factory factory)
      : Method(live), requester_(std::move(requester)), factory_(std::move(factory)) {}

  void Arm() override {
    auto* const call = new Call(*this);
    requester_(&call->context(), &call->stream, static_cast<Tag*>(call));
  }

 private:
  struct Call final : StreamCall {
    explicit Call(ReadingStreamMethod& owner)
        : StreamCall(owner), method(owner), stream(&context()) {}
    StreamReactor* MakeReactor(bool refused) override {
      Reactor* const reactor = refused ? new RefusingReader<Reactor>() : method.factory_(context());
      PTO_CHECK(reactor != nullptr, "a factory must return a reactor");
      reactor->Bind(this, &stream);
      return reactor;
    }
    ReadingStreamMethod& method;
    Stream stream;
  };

  const Requester requester_;
  const Factory factory_;
};

template <typename Request, typename Response>
using ClientStreamMethod =
    ReadingStreamMethod<ClientStreamReactor<Request, Response>,
                        grpc::ServerAsyncReader<Response, NextMessage<Request>>>;
template <typename Request, typename Response>
using BidiStreamMethod =
    ReadingStreamMethod<BidiStreamReactor<Request, Response>,
                        grpc::ServerAsyncReaderWriter<Response, NextMessage<Request>>>;

}  // namespace internal
}  // namespace pto::daemon::rpc
