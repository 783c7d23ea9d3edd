#pragma once

namespace pto::daemon {

// From now on, what gRPC and protobuf have to say is in the daemon's log. By themselves they write
// to standard error, and wait for whoever reads that. Call it before other threads start.
void LogForLibraries();

}  // namespace pto::daemon
