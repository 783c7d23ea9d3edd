#pragma once

#include <string>
#include <utility>

#include "runtime/host/object/pto_signature.h"

namespace pto::ascend {

// The closure of a kernel that runs on Ascend chips (Kernel::OnLane): a device binary with a
// __global__ entry that calls a kernel of the PTO ABI.
struct AscendKernel {
  std::string path;   // absolute, of a file that does not change
  std::string entry;  // of the binary
  host::PtoSignature signature;
};

}  // namespace pto::ascend
