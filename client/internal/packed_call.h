#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/internal/core.h"
#include "client/internal/writer_call.h"
#include "pto/v1/graph.pb.h"
#include "pto/v1/run.grpc.pb.h"

namespace pto::internal {

// The additional time for a packed graph.
inline absl::Duration PackedTime(uint64_t tasks) {
  return absl::Seconds(static_cast<double>(tasks) / 100'000);
}

// Sends a packed graph on the bulk-data connection.
template <typename Response>
absl::StatusOr<Response> PackedCall(
    Core& core, SessionState& session, absl::string_view rpc,
    std::unique_ptr<grpc::ClientAsyncWriter<v1::PackedGraphPart>> (v1::RunService::Stub::*method)(
        grpc::ClientContext*, Response*, grpc::CompletionQueue*),
    const std::vector<v1::PackedGraphPart>& parts, const Deadline& deadline) {
  if (absl::Status lost = session.status(); !lost.ok()) return lost;
  const auto& wire = core.transport().bulk_run;
  if (!wire.connection.AwaitClear(deadline)) return core.Timeout(rpc, deadline);
  auto call =
      std::make_unique<WriterCall<v1::PackedGraphPart, Response>>(*wire.stub, method, deadline);
  for (const v1::PackedGraphPart& part : parts) {
    if (!call->Write(part)) break;
  }
  if (!call->Finish()) {
    wire.connection.Release(std::move(call));
    return core.Timeout(rpc, deadline);
  }
  const absl::Status status = RpcError(call->status(), rpc, core.address(), deadline.timeout());
  if (!status.ok()) return core.Examine(session, status, deadline);
  return call->response();
}

}  // namespace pto::internal
