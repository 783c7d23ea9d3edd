#include "daemon/rpc/chaos.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/status/grpc_status.h"
#include "runtime/base/error.h"

namespace pto::daemon::rpc::internal {
namespace {

absl::string_view NameOf(ChaosPlace place) {
  switch (place) {
    case ChaosPlace::kBefore:
      return "rpc.before";
    case ChaosPlace::kDuring:
      return "rpc.during";
    case ChaosPlace::kAfter:
      break;
  }
  return "rpc.after";
}

}  // namespace

FailAction HitChaos(ChaosPlace place, absl::string_view method) {
  const size_t slash = method.find('/');
  if (slash == absl::string_view::npos || !absl::StartsWith(method, "pto.")) {
    return FailAction::kNone;
  }
  const absl::string_view name = NameOf(place);
  const FailAction own = failpoint::Hit(absl::StrCat(name, ".", method.substr(slash + 1)));
  return own != FailAction::kNone ? own : failpoint::Hit(name);
}

grpc::Status ChaosStatus(FailAction action) {
  if (action == FailAction::kError) {
    return ToGrpcStatus(Error(reason::kNodeDraining, "a failpoint refuses this call"));
  }
  return {grpc::StatusCode::UNAVAILABLE, "a failpoint lost this call"};
}

}  // namespace pto::daemon::rpc::internal
