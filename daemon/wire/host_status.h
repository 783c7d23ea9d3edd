#pragma once

#include <cstddef>
#include <string>

#include "pto/v1/kernel.pb.h"
#include "runtime/host/host_keeper.h"

namespace pto::daemon {

// A kernel host of the session of this full name, which has so many uploaded kernels. Reads how
// much memory the process has.
void ToProto(const std::string& session, size_t kernels, const host::HostStatus& status,
             v1::Host* proto);

}  // namespace pto::daemon
