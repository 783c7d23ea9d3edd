#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "pto/v1/run.pb.h"
#include "tests/bench/bare.pb.h"

namespace pto::bench {

// A unary launch that is answered when the run has ended.
inline v1::LaunchGraphRequest UnaryLaunch(const std::string& graph) {
  v1::LaunchGraphRequest request;
  request.set_graph(graph);
  request.mutable_wait()->set_seconds(30);
  return request;
}

inline v1::LaunchStreamRequest StreamLaunch(const std::string& graph) {
  v1::LaunchStreamRequest request;
  request.set_tag(1);
  request.mutable_launch()->set_graph(graph);
  return request;
}

// A bare message as large as `request`, asking for an answer as large as `response`.
template <typename Request, typename Response>
Ping PingLike(const Request& request, const Response& response) {
  Ping ping;
  ping.set_payload(std::string(request.ByteSizeLong(), 'x'));
  ping.set_reply_bytes(static_cast<uint32_t>(response.ByteSizeLong()));
  return ping;
}

// A run that did not succeed invalidates the measurement.
template <typename RunOrCompletion>
absl::Status CheckSucceeded(const RunOrCompletion& end) {
  if (end.state() == v1::Run::SUCCEEDED) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("a run ended as ", v1::Run::State_Name(end.state()), ": ",
                                          end.error().message()));
}

}  // namespace pto::bench
