#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/internal/core.h"
#include "grpcpp/support/sync_stream.h"
#include "pto/v1/graph.pb.h"
#include "pto/v1/run.grpc.pb.h"

namespace pto::internal {

// What a packed graph may take on top of a call's usual time.
inline absl::Duration PackedTime(uint64_t tasks) {
  return absl::Seconds(static_cast<double>(tasks) / 100'000);
}

// Sends a packed graph on the connection for bulk data.
template <typename Response>
absl::StatusOr<Response> PackedCall(Core& core, SessionState& session, absl::string_view rpc,
                                    std::unique_ptr<grpc::ClientWriter<v1::PackedGraphPart>> (
                                        v1::RunService::Stub::*method)(grpc::ClientContext*,
                                                                       Response*),
                                    const std::vector<v1::PackedGraphPart>& parts,
                                    const Deadline& deadline) {
  if (absl::Status lost = session.status(); !lost.ok()) return lost;
  grpc::ClientContext context;
  context.set_deadline(deadline.ToGrpc());
  Response response;
  const auto writer = (core.transport().bulk_run().*method)(&context, &response);
  bool open = true;
  for (size_t i = 0; i < parts.size() && open; ++i) open = writer->Write(parts[i]);
  if (open) writer->WritesDone();
  const absl::Status status = RpcError(writer->Finish(), rpc, core.address(), deadline.timeout());
  if (!status.ok()) return core.Examine(session, status, deadline);
  return response;
}

}  // namespace pto::internal
