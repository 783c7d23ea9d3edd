#pragma once

#include <atomic>

#include "absl/strings/string_view.h"
#include "grpcpp/support/status.h"
#include "runtime/base/failpoint.h"

// Failpoints around the handling of every call of the API, in builds that have failpoints:
//
//   rpc.before   a call has come and nothing was done: `error` refuses it, `drop` loses it
//   rpc.during   the call breaks off, and its handler goes on without a client; of a stream,
//                whenever a message has been read or written; `error` and `drop` are the same here
//   rpc.after    the work is done: `error` and `drop` tell the client otherwise
//
// What is refused by `error` ends with UNAVAILABLE / NODE_DRAINING, what is lost by `drop` with an
// UNAVAILABLE without a reason, as calls do whose connection breaks. `rpc.before.SubmitRun`, and
// so on, is that method alone. Health checks are left alone.
namespace pto::daemon::rpc::internal {

enum class ChaosPlace { kBefore, kDuring, kAfter };

// Checks whether a failpoint is set for this method, such as `pto.v1.NodeService/GetNode`.
FailAction HitChaos(ChaosPlace place, absl::string_view method);

// The same; costs the load of one flag when no failpoint is set.
inline FailAction Chaos(ChaosPlace place, absl::string_view method) {
  if (!kHasFailpoints || !failpoint::any_set.load(std::memory_order_relaxed)) {
    return FailAction::kNone;
  }
  return HitChaos(place, method);
}

// The status that the client of such a call gets. `action` must not be kNone.
grpc::Status ChaosStatus(FailAction action);

}  // namespace pto::daemon::rpc::internal
