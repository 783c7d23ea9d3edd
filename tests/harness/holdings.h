#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tests/harness/api.h"
#include "tests/harness/daemon_process.h"

namespace pto::testing {

// The resources of a daemon at one moment, in the order of interest.
struct Holdings {
  uint64_t sessions = 0;
  uint64_t runs = 0;
  uint64_t busy_cores = 0;
  uint64_t ready_tasks = 0;
  uint64_t device_bytes = 0;
  uint64_t leased_chips = 0;
  // Of its process: all descriptors, descriptors of shared memory, and mappings of shared memory.
  size_t files = 0;
  size_t shared_memory = 0;

  // Whether the daemon is back to the baseline.
  bool IsBack(const Holdings& baseline) const;
  std::string ToString() const;
};

// Asks the daemon and the kernel. Retries refused calls for a while, because the daemon may have
// failpoints.
absl::StatusOr<Holdings> LookAt(DaemonProcess& daemon);

// Waits up to `timeout` until everything is back to the baseline. Returns how long that took; fails
// the test on timeout.
absl::Duration AwaitBaseline(DaemonProcess& daemon, const Holdings& baseline,
                             absl::Duration timeout);

}  // namespace pto::testing
