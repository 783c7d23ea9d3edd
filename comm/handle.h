#pragma once

#include <memory>
#include <set>
#include <string>
#include <unordered_map>

#include "absl/status/status.h"
#include "comm/backend.h"
#include "comm/pto_comm.h"
#include "runtime/base/mutex.h"

// The opaque handles of the C API.

struct pto_comm_window {
  pto_comm* comm = nullptr;
  pto::comm::WindowSpec spec;
  std::unique_ptr<pto::comm::Window> window;
};

struct pto_comm {
  uint32_t rank = 0;
  uint32_t size = 0;
  std::unique_ptr<pto::comm::Communicator> communicator;

  mutable pto::Mutex mutex;
  std::string error ABSL_GUARDED_BY(mutex);
  std::set<uint64_t> used_ids ABSL_GUARDED_BY(mutex);
  // Destroyed before their communicator.
  std::unordered_map<pto_comm_window*, std::unique_ptr<pto_comm_window>> windows
      ABSL_GUARDED_BY(mutex);
};

namespace pto::comm {

// Stores the error text for the handle (which may be null) and for this thread; returns the status
// number.
int Report(pto_comm* comm, const absl::Status& status);

}  // namespace pto::comm
