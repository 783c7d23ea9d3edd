#pragma once

#include <cstddef>
#include <vector>

#include "runtime/base/mutex.h"
#include "runtime/host/message.h"
#include "runtime/host/ring.h"

namespace pto::host {

// In the host: the ring of reports to the daemon. Rings the doorbell if the daemon sleeps.
// Thread-safe.
class ReportSink {
 public:
  ReportSink(const RingMemory& memory, int doorbell) : writer_(memory), doorbell_(doorbell) {}
  ReportSink(const ReportSink&) = delete;
  ReportSink& operator=(const ReportSink&) = delete;

  // Waits while the ring is full. Ends the process if the ring is broken or the doorbell is gone.
  void Send(const Report& report);

 private:
  Mutex mutex_;
  RingWriter writer_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::byte> bytes_ ABSL_GUARDED_BY(mutex_);
  const int doorbell_;
};

}  // namespace pto::host
