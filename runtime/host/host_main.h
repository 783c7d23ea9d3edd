#pragma once

#include "runtime/host/host_tables.h"

namespace pto::host {

// The main function of a kernel host: a process with the descriptors of control_block.h, started by
// HostProcess. Enters the sandbox, and then loads and runs what the daemon wants, until the daemon
// goes. Returns the exit code.
//
// It must be called by a process with one thread. Without orders and posts it uses no CPU time.
int RunHost(const KernelLoader& loader);

}  // namespace pto::host
