#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "runtime/base/file_descriptor.h"
#include "runtime/base/mutex.h"

namespace pto::daemon::auth {

// One call, as the audit log tells it.
struct AuditEntry {
  absl::Time time;
  std::string principal;  // empty: not known
  // Where it comes from: the process on a unix socket, else the address.
  int32_t pid = 0;
  std::string address;
  absl::string_view method;  // lives as long as the process
  std::vector<std::string> names;
  std::string code;    // `OK`, `NOT_FOUND`
  std::string reason;  // of an error
  // Of a stream of launches.
  uint64_t launches = 0;
  uint64_t refused = 0;
};

// As one line of JSON, without the newline.
std::string FormatAudit(const AuditEntry& entry);

// A file with one line of JSON for each call that changes something. Add never waits for the disk:
// a thread writes the lines. When it cannot keep up, entries are dropped and a line says how many.
// Thread-safe.
class AuditLog {
 public:
  struct Options {
    // The file, which is appended to; `log`: the daemon's own log.
    std::string path;
    size_t max_queue = 65'536;
  };

  // Errors: CONFIG_INVALID when the file cannot be opened.
  static absl::StatusOr<std::unique_ptr<AuditLog>> Open(Options options);
  // Writes what is left.
  ~AuditLog();
  AuditLog(const AuditLog&) = delete;
  AuditLog& operator=(const AuditLog&) = delete;

  void Add(AuditEntry entry);
  // Opens the file again by its name, soon: after it was moved away.
  void Reopen();
  // Waits until everything added before is written. For tests and for the end.
  void Flush();
  uint64_t dropped() const { return all_dropped_.load(std::memory_order_relaxed); }

 private:
  AuditLog(Options options, FileDescriptor file);

  void Work();
  void Write(const std::vector<AuditEntry>& entries, uint64_t dropped);
  void OpenAgain();

  const Options options_;
  // ---- the thread's
  FileDescriptor file_;
  uint64_t lost_ = 0;  // entries that could not be written, which no line has told yet
  bool torn_ = false;  // the last write failed

  std::atomic<uint64_t> all_dropped_{0};

  Mutex mutex_;
  CondVar changed_;
  CondVar written_;
  std::vector<AuditEntry> queue_ ABSL_GUARDED_BY(mutex_);
  uint64_t dropped_ ABSL_GUARDED_BY(mutex_) = 0;  // since the last line about it
  bool sleeping_ ABSL_GUARDED_BY(mutex_) = false;
  bool flush_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool reopen_ ABSL_GUARDED_BY(mutex_) = false;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace pto::daemon::auth
