#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "grpcpp/grpcpp.h"
#include "tests/harness/api.h"

namespace pto::testing {

// Makes any call, streaming or not, from raw bytes: sends the messages, half-closes, reads all
// answers and returns the status. `method` is a path, for example `/pto.v1.RunService/GetRun`.
grpc::Status RawCall(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                     const std::vector<std::string>& messages,
                     absl::Duration timeout = kCallTimeout);

}  // namespace pto::testing
