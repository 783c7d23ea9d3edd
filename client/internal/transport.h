#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "pto/v1/buffer.grpc.pb.h"
#include "pto/v1/event.grpc.pb.h"
#include "pto/v1/kernel.grpc.pb.h"
#include "pto/v1/node.grpc.pb.h"
#include "pto/v1/run.grpc.pb.h"
#include "pto/v1/session.grpc.pb.h"

namespace pto::internal {

// The address to use for what the caller gave: itself, else PTOD_ADDRESS, else the default.
std::string ResolveAddress(absl::string_view given);

// INVALID_ARGUMENT / FIELD_INVALID for what is neither `unix:/path` nor `host:port`.
absl::Status CheckAddress(absl::string_view address);

// Three connections to one daemon and the stubs on them. A connection is made by the first call
// on it, and again after it broke. Owned by Core. Thread-safe.
class Transport {
 public:
  Transport(const std::string& address, absl::Duration connect_timeout);

  // Control: short calls, and launches.
  v1::NodeService::Stub& node() { return *node_; }
  v1::SessionService::Stub& session() { return *session_; }
  v1::KernelService::Stub& kernel() { return *kernel_; }
  v1::BufferService::Stub& buffer() { return *buffer_; }
  v1::RunService::Stub& run() { return *run_; }
  // Events.
  v1::EventService::Stub& event() { return *event_; }
  // Bulk: contents of buffers, packed graphs.
  v1::BufferService::Stub& bulk_buffer() { return *bulk_buffer_; }
  v1::RunService::Stub& bulk_run() { return *bulk_run_; }

 private:
  std::unique_ptr<v1::NodeService::Stub> node_;
  std::unique_ptr<v1::SessionService::Stub> session_;
  std::unique_ptr<v1::KernelService::Stub> kernel_;
  std::unique_ptr<v1::BufferService::Stub> buffer_;
  std::unique_ptr<v1::RunService::Stub> run_;
  std::unique_ptr<v1::EventService::Stub> event_;
  std::unique_ptr<v1::BufferService::Stub> bulk_buffer_;
  std::unique_ptr<v1::RunService::Stub> bulk_run_;
};

}  // namespace pto::internal
