#include "daemon/auth/methods.h"

#include <string>

#include "runtime/base/log.h"

namespace pto::daemon::auth {
namespace {

constexpr bool kReads = false;
constexpr bool kMutates = true;

constexpr Method kMethods[] = {
    {"pto.v1.NodeService/GetNode", Need::kNone, kReads},
    {"pto.v1.NodeService/GetConfig", Need::kReader, kReads},
    {"pto.v1.NodeService/ListChips", Need::kNone, kReads},
    {"pto.v1.NodeService/GetChip", Need::kNone, kReads},
    {"pto.v1.NodeService/DrainNode", Need::kOperator, kMutates},
    {"pto.v1.NodeService/ResetChip", Need::kOperator, kMutates},
    {"pto.v1.NodeService/ListUsage", Need::kNone, kReads},

    {"pto.v1.SessionService/CreateSession", Need::kUser, kMutates},
    // Only the lease, and any other call that names the session extends it too.
    {"pto.v1.SessionService/RenewSession", Need::kNone, kReads},
    {"pto.v1.SessionService/GetSession", Need::kNone, kReads},
    {"pto.v1.SessionService/ListSessions", Need::kNone, kReads},
    {"pto.v1.SessionService/DeleteSession", Need::kNone, kMutates},
    {"pto.v1.SessionService/LeaseChips", Need::kNone, kMutates},

    {"pto.v1.BufferService/CreateBuffers", Need::kNone, kMutates},
    {"pto.v1.BufferService/GetBuffer", Need::kNone, kReads},
    {"pto.v1.BufferService/ListBuffers", Need::kNone, kReads},
    {"pto.v1.BufferService/DeleteBuffers", Need::kNone, kMutates},
    {"pto.v1.BufferService/WriteBuffer", Need::kNone, kMutates},
    {"pto.v1.BufferService/ReadBuffer", Need::kNone, kReads},

    {"pto.v1.KernelService/ListKernels", Need::kNone, kReads},
    {"pto.v1.KernelService/GetKernel", Need::kNone, kReads},
    {"pto.v1.KernelService/RegisterKernel", Need::kUser, kMutates},
    {"pto.v1.KernelService/DeleteKernel", Need::kNone, kMutates},
    {"pto.v1.KernelService/ListHosts", Need::kNone, kReads},

    {"pto.v1.DomainService/CreateDomain", Need::kNone, kMutates},
    {"pto.v1.DomainService/GetDomain", Need::kNone, kReads},
    {"pto.v1.DomainService/ListDomains", Need::kNone, kReads},
    {"pto.v1.DomainService/RevokeDomain", Need::kNone, kMutates},
    {"pto.v1.DomainService/DeleteDomain", Need::kNone, kMutates},
    {"pto.v1.DomainService/Notify", Need::kNone, kMutates},
    {"pto.v1.DomainService/ReadSignals", Need::kNone, kReads},

    {"pto.v1.RunService/SubmitRun", Need::kNone, kMutates},
    {"pto.v1.RunService/SubmitPackedRun", Need::kNone, kMutates},
    {"pto.v1.RunService/RegisterGraph", Need::kNone, kMutates},
    {"pto.v1.RunService/RegisterPackedGraph", Need::kNone, kMutates},
    {"pto.v1.RunService/GetGraph", Need::kNone, kReads},
    {"pto.v1.RunService/DeleteGraph", Need::kNone, kMutates},
    {"pto.v1.RunService/LaunchGraph", Need::kNone, kMutates},
    {"pto.v1.RunService/LaunchStream", Need::kNone, kMutates},
    {"pto.v1.RunService/StreamRun", Need::kNone, kMutates},
    {"pto.v1.RunService/GetRun", Need::kNone, kReads},
    {"pto.v1.RunService/GetRunGraph", Need::kNone, kReads},
    {"pto.v1.RunService/WaitRun", Need::kNone, kReads},
    {"pto.v1.RunService/CancelRun", Need::kNone, kMutates},
    {"pto.v1.RunService/ListRuns", Need::kNone, kReads},
    {"pto.v1.RunService/ExplainRun", Need::kNone, kReads},

    {"pto.v1.EventService/WatchEvents", Need::kNone, kReads},
};

}  // namespace

absl::Span<const Method> AllMethods() { return kMethods; }

const Method& FindMethod(absl::string_view name) {
  for (const Method& method : kMethods) {
    if (method.name == name) return method;
  }
  CheckFailed(__FILE__, __LINE__, "the method is in the table", std::string(name));
}

}  // namespace pto::daemon::auth
