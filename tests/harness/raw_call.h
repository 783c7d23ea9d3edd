#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "grpcpp/grpcpp.h"
#include "tests/harness/api.h"

namespace pto::testing {

// Makes any call, with or without streams, from bytes: sends the messages, says that there are
// no more, reads all answers and returns how the call ended. `method` is a path such as
// `/pto.v1.RunService/GetRun`.
grpc::Status RawCall(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                     const std::vector<std::string>& messages,
                     absl::Duration timeout = kCallTimeout);

}  // namespace pto::testing
