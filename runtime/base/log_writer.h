#pragma once

#include <unistd.h>

#include <chrono>
#include <cstddef>

#include "absl/strings/string_view.h"

namespace pto {

// Gives Log a place for its lines other than standard error. The function is called by any thread
// with one line, and returns whether it took it. nullptr: none. Thread-safe.
void SetLogSink(bool (*sink)(absl::string_view));

// While a LogWriter exists, a thread of its own writes the log and Log only queues lines. So nobody
// waits for whoever reads the log: a pipe that is not read, a stopped terminal, a slow disk.
//
// When the queue is full, lines are dropped; a line says how many as soon as there is room again.
// Before a fault or an abort ends the process, the queue is written as far as that is possible
// within half a second. Lines are lost if the process is killed (SIGKILL) at once after them.
//
// At most one at a time. Created and destroyed by the same thread; the rest is thread-safe. In a
// child of fork(), Log writes by itself again.
class LogWriter {
 public:
  struct Options {
    int fd = STDERR_FILENO;
    // Of lines that wait. The thread may hold as much again, which it is writing.
    size_t max_bytes = size_t{1} << 20;
    // How long the destructor waits until everything is written.
    std::chrono::milliseconds patience{1000};
  };

  LogWriter() : LogWriter(Options()) {}
  explicit LogWriter(const Options& options);
  // Afterwards Log writes by itself, unless the thread is still stuck in a write: then lines are
  // queued and dropped as before, so that the end of the process does not get stuck either.
  ~LogWriter();
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  // Waits until everything queued so far has been written; false if that takes longer.
  static bool Flush(std::chrono::milliseconds timeout);
  // Queues a text that is no log line. Writes it at once when there is no LogWriter.
  static void Write(absl::string_view text);

 private:
  const std::chrono::milliseconds patience_;
};

}  // namespace pto
