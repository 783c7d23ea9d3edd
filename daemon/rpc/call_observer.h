#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace pto::daemon::rpc {

// Is notified when calls end. Thread-safe. Must be fast: it runs before the client gets its answer.
class CallObserver {
 public:
  virtual ~CallObserver() = default;
  // A method is served, such as `pto.v1.NodeService/GetNode`. Returns its number.
  virtual uint32_t AddMethod(absl::string_view name) = 0;
  // A call of the method ends with this status, after this many Ticks().
  virtual void OnEnd(uint32_t method, const absl::Status& status, uint64_t ticks) = 0;
};

}  // namespace pto::daemon::rpc
