#pragma once

#include "absl/status/status.h"
#include "runtime/host/message.h"
#include "runtime/host/sandbox_report.h"

namespace pto::host {

// Restricts this process, and all threads that it starts from now on, before it loads code of
// users. Call it once, while there is one thread. What the machine does not provide is in the
// report, and does not fail: the operator decides what a node must have.
//
// Afterwards the process cannot gain privileges, start processes, use the network, send signals to
// others, or open files other than the libraries of the system; and it cannot close or replace the
// descriptors that it began with.
SandboxReport ApplySandbox(const SandboxLimits& limits);

// The parts; each returns what it has done, or why not.
absl::Status LimitResources(const SandboxLimits& limits);
absl::Status LimitFiles();
absl::Status LimitSystemCalls();

}  // namespace pto::host
