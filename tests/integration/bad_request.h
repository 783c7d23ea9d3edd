#pragma once

#include <string>
#include <vector>

#include "runtime/base/reason.h"

namespace pto::testing {

// A request that must be refused, and how.
//
// Where: a node with two chips and the flags of BadRequestFlags; session `main` with buffers `a`
// and `b` (4 KiB, chip 0), `far` (4 KiB, chip 1), as many more as fit, graph `g`, and runs
// `old` (no longer kept), `kept-1` and `kept-2`; domains `d` (ranks on chips 1 and 0, buffer `x` of
// 16 F32, 4 signals) and `dead`, the same but revoked; session `other` with buffer `x`; session
// `gone`, which has ended. No further session fits.
struct BadRequest {
  // What is wrong with it.
  std::string what;
  // Path of the method, such as `/pto.v1.RunService/GetRun`.
  std::string method;
  // The messages, in text protobuf. One, unless the method takes a stream.
  std::vector<std::string> messages;
  Reason reason;
  // Path of the field to blame. Empty: none is named.
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
// Before the run begins; what is wrong later ends it, once for each id.
std::vector<BadRequest> BadOpenRuns();
std::vector<BadRequest> BadGraphs();
std::vector<BadRequest> BadPackedGraphs();
// Members, predicates, times and options, in both forms of a graph.
std::vector<BadRequest> BadDetails();
// Of kernels that need no core.
std::vector<BadRequest> BadControlTasks();

// The graph `g`: fills slot `out` (1,024 F32) with the float `value`, then spins for the integer
// `us`.
std::string LaunchableGraph();

// What the domains `d` and `dead` are.
std::string GoodDomain();

// A list of what every method with pages refuses.
std::vector<BadRequest> BadPages(const std::string& method, const std::string& rest);

// `name` with a text of `size` bytes.
std::string LongText(const std::string& name, size_t size);

}  // namespace pto::testing
