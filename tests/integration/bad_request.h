#pragma once

#include <string>
#include <vector>

#include "runtime/base/reason.h"

namespace pto::testing {

// An invalid request, and the expected error.
//
// Environment: a node with two chips and the flags of BadRequestFlags; session `main` with buffers
// `a` and `b` (4 KiB, chip 0), `far` (4 KiB, chip 1), as many more as fit, graph `g`, and runs
// `old` (no longer kept), `kept-1` and `kept-2`; domains `d` (ranks on chips 1 and 0, buffer `x` of
// 16 F32, 4 signals) and `dead`, the same but revoked; session `other` with buffer `x`; session
// `gone`, which has ended. The limit of sessions is reached.
struct BadRequest {
  // A short description.
  std::string what;
  // Path of the method, for example `/pto.v1.RunService/GetRun`.
  std::string method;
  // The messages, in text protobuf. One, unless the method takes a stream.
  std::vector<std::string> messages;
  Reason reason;
  // Path of the field at fault. Empty: none.
  std::string field;
};

std::vector<std::string> BadRequestFlags();

std::vector<BadRequest> BadNodeRequests();
std::vector<BadRequest> BadSessionRequests();
std::vector<BadRequest> BadBufferRequests();
std::vector<BadRequest> BadKernelRequests();
std::vector<BadRequest> BadDomainRequests();
std::vector<BadRequest> BadEventRequests();
std::vector<BadRequest> BadRunRequests();
std::vector<BadRequest> BadLaunchRequests();
// Errors before the run begins; later ones end the run and use up its id.
std::vector<BadRequest> BadOpenRuns();
std::vector<BadRequest> BadGraphs();
std::vector<BadRequest> BadPackedGraphs();
// Members, predicates, timeouts and options, in both forms of a graph.
std::vector<BadRequest> BadDetails();
// Tasks of kernels that need no core.
std::vector<BadRequest> BadControlTasks();

// The graph `g`: fills slot `out` (1,024 F32) with the float `value`, then spins for the integer
// `us`.
std::string LaunchableGraph();

// The specification of the domains `d` and `dead`.
std::string GoodDomain();

// Invalid page sizes and tokens, for any paged method.
std::vector<BadRequest> BadPages(const std::string& method, const std::string& rest);

// `name` with a text of `size` bytes.
std::string LongText(const std::string& name, size_t size);

}  // namespace pto::testing
