#pragma once

#include "grpcpp/completion_queue.h"
#include "grpcpp/impl/service_type.h"
#include "grpcpp/server_context.h"

namespace pto::daemon::rpc::internal {

// How many classes generated code has put around a service.
template <typename Service>
inline constexpr int kLayers = 0;
template <template <typename> class Layer, typename Inner>
inline constexpr int kLayers<Layer<Inner>> = 1 + kLayers<Inner>;

// The number of a method in its service. A generated AsyncService has one layer for each method,
// the first method's outermost; `MethodLayer` is the one that declares the method's Request
// function.
template <typename AsyncService, typename MethodLayer>
inline constexpr int kMethodIndex = kLayers<AsyncService> - kLayers<MethodLayer>;

// Does what generated Request functions do, but lets the server choose into what a message is
// parsed. Never made: it is only a way to gRPC's functions for generated code.
class ServiceAccess : public grpc::Service {
 public:
  ServiceAccess() = delete;

  template <typename Message>
  static void RequestWithMessage(grpc::Service& service, int method, grpc::ServerContext* context,
                                 Message* message,
                                 grpc::internal::ServerAsyncStreamingInterface* stream,
                                 grpc::ServerCompletionQueue* queue, void* tag) {
    // For gRPC a server stream begins as a unary call does.
    void (grpc::Service::* const request)(int, grpc::ServerContext*, Message*,
                                          grpc::internal::ServerAsyncStreamingInterface*,
                                          grpc::CompletionQueue*, grpc::ServerCompletionQueue*,
                                          void*) = &ServiceAccess::RequestAsyncUnary<Message>;
    (service.*request)(method, context, message, stream, queue, queue, tag);
  }

  static void RequestStream(grpc::Service& service, int method, grpc::ServerContext* context,
                            grpc::internal::ServerAsyncStreamingInterface* stream,
                            grpc::ServerCompletionQueue* queue, void* tag) {
    // Nor does it matter whether one side streams or both.
    (service.*(&ServiceAccess::RequestAsyncBidiStreaming))(method, context, stream, queue, queue,
                                                           tag);
  }
};

}  // namespace pto::daemon::rpc::internal
