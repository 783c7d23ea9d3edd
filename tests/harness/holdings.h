#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tests/harness/api.h"
#include "tests/harness/daemon_process.h"

namespace pto::testing {

// What a daemon has at one moment, in the order in which people ask for it.
struct Holdings {
  uint64_t sessions = 0;
  uint64_t runs = 0;
  uint64_t busy_cores = 0;
  uint64_t ready_tasks = 0;
  uint64_t device_bytes = 0;
  uint64_t leased_chips = 0;
  // Of its process: descriptors, and those and mappings of memory that is shared with others.
  size_t files = 0;
  size_t shared_memory = 0;

  // Whether it is nothing but the process itself, which once had this.
  bool IsBack(const Holdings& baseline) const;
  std::string ToString() const;
};

// Asks the daemon and the kernel. A call that is refused is repeated for a while: the daemon may
// have failpoints.
absl::StatusOr<Holdings> LookAt(DaemonProcess& daemon);

// Waits until everything is back to the baseline, for at most `timeout`. Returns how long that
// took; fails the test when it is not.
absl::Duration AwaitBaseline(DaemonProcess& daemon, const Holdings& baseline,
                             absl::Duration timeout);

}  // namespace pto::testing
