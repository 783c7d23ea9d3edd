#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace pto::rpc {

// Is told how calls end. Thread-safe, and quick: it is asked before the client has its answer.
class CallObserver {
 public:
  virtual ~CallObserver() = default;
  // A method is served from now on, `pto.v1.NodeService/GetNode`. Returns its number.
  virtual uint32_t AddMethod(absl::string_view name) = 0;
  // A call of it ends like this, after so many Ticks().
  virtual void OnEnd(uint32_t method, const absl::Status& status, uint64_t ticks) = 0;
};

}  // namespace pto::rpc
