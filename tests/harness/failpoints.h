#pragma once

#include <stdlib.h>

#include <string>

#include "runtime/base/failpoint.h"  // kHasFailpoints

namespace pto::testing {

// Failpoints of daemons that are started while this object exists; see runtime/base/failpoint.h.
// For one thread.
class DaemonFailpoints {
 public:
  explicit DaemonFailpoints(const std::string& text) {
    setenv("PTOD_FAILPOINTS", text.c_str(), 1);  // NOLINT: one thread
  }
  ~DaemonFailpoints() { unsetenv("PTOD_FAILPOINTS"); }  // NOLINT: one thread
  DaemonFailpoints(const DaemonFailpoints&) = delete;
  DaemonFailpoints& operator=(const DaemonFailpoints&) = delete;
};

}  // namespace pto::testing
