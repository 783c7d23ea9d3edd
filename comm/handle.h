#pragma once

#include <memory>
#include <set>
#include <string>
#include <unordered_map>

#include "absl/status/status.h"
#include "comm/backend.h"
#include "comm/pto_comm.h"
#include "runtime/base/mutex.h"

// What the opaque handles of the C API are.

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
  // Destroyed before the communicator that they belong to.
  std::unordered_map<pto_comm_window*, std::unique_ptr<pto_comm_window>> windows
      ABSL_GUARDED_BY(mutex);
};

namespace pto::comm {

// Keeps the text of an error, for the handle (which may be null) and for this thread; returns the
// number.
int Report(pto_comm* comm, const absl::Status& status);

}  // namespace pto::comm
