#pragma once

#include "daemon/node/node.h"
#include "daemon/rpc/stream.h"
#include "daemon/services/gate.h"
#include "daemon/services/stop_list.h"
#include "pto/v1/kernel.pb.h"

namespace pto::daemon {

// One RegisterKernel call, which owns itself. Node and list outlive it.
rpc::ClientStreamReactor<v1::RegisterKernelRequest, v1::Kernel>* NewKernelUpload(Node& node,
                                                                                 Gate gate,
                                                                                 StopList& streams);

}  // namespace pto::daemon
