#include "runtime/host/report_sink.h"

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>

#include "runtime/host/crash_handler.h"

namespace pto::host {

void ReportSink::Send(const Report& report) {
  MutexLock lock(mutex_);
  bytes_.clear();
  EncodeReport(report, &bytes_);
  while (true) {
    const absl::StatusOr<bool> written = writer_.Write(bytes_);
    if (!written.ok()) CrashHandler::GiveUp(std::string(written.status().message()).c_str());
    if (*written) break;
    // Logs and calls have filled it. The daemon makes room soon.
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  if (writer_.Publish() == 0) return;
  const uint64_t one = 1;
  if (write(doorbell_, &one, sizeof one) != sizeof one && errno != EAGAIN) {
    CrashHandler::GiveUp("a kernel has closed a descriptor of the host");
  }
}

}  // namespace pto::host
