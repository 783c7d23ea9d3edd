#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/internal/connection.h"
#include "pto/v1/buffer.grpc.pb.h"
#include "pto/v1/domain.grpc.pb.h"
#include "pto/v1/event.grpc.pb.h"
#include "pto/v1/kernel.grpc.pb.h"
#include "pto/v1/node.grpc.pb.h"
#include "pto/v1/run.grpc.pb.h"
#include "pto/v1/session.grpc.pb.h"

namespace pto::internal {

// INVALID_ARGUMENT / FIELD_INVALID unless the address is `unix:/path` or `host:port`.
absl::Status CheckAddress(absl::string_view address);

// A service on a connection.
template <typename Service>
struct Wire {
  using Stub = typename Service::Stub;
  explicit Wire(Connection& connection)
      : connection(connection), stub(Service::NewStub(connection.channel())) {}

  Connection& connection;
  const std::unique_ptr<Stub> stub;
};

// Three connections to one daemon and the services on them. Owned by Core. Thread-safe.
class Transport {
 public:
  Transport(const std::string& address, absl::Duration connect_timeout,
            const ChannelSecurity& security);

 private:
  Connection control_;
  Connection events_;
  Connection bulk_;

 public:
  // Short calls, and launches.
  const Wire<v1::NodeService> node;
  const Wire<v1::SessionService> session;
  const Wire<v1::KernelService> kernel;
  const Wire<v1::BufferService> buffer;
  const Wire<v1::DomainService> domain;
  const Wire<v1::RunService> run;
  // Events.
  const Wire<v1::EventService> event;
  // Contents of buffers, packed graphs, and kernels.
  const Wire<v1::BufferService> bulk_buffer;
  const Wire<v1::RunService> bulk_run;
  const Wire<v1::KernelService> bulk_kernel;
};

}  // namespace pto::internal
