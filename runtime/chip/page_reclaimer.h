#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "runtime/base/file_descriptor.h"

namespace pto::engine {

// Frees the pages of files that other processes have mapped, in its own threads. Another process
// can delay this indefinitely: with an endless write to the file, whose lock the kernel waits for
// uninterruptibly. So callers do not wait, and files do not wait for each other: if a file takes
// long, the next ones get another thread. Thread-safe.
//
// Threads are started on demand and end when idle. The destructor does not wait: the threads finish
// the remaining files without the object.
class PageReclaimer {
 public:
  struct Options {
    // Frees the pages of a file, however many processes have it mapped. May block forever.
    std::function<void(int descriptor, uint64_t bytes)> punch = Punch;
    // If all threads have been busy for this long, the next file gets another thread.
    std::chrono::nanoseconds patience = std::chrono::milliseconds(10);
    // How long an idle thread waits for another file.
    std::chrono::nanoseconds idle = std::chrono::seconds(1);
    // If this many files are stuck, the next ones wait: the daemon needs threads for other work,
    // too.
    size_t max_threads = 256;
  };
  static void Punch(int descriptor, uint64_t bytes);

  explicit PageReclaimer(Options options);
  ~PageReclaimer();
  PageReclaimer(const PageReclaimer&) = delete;
  PageReclaimer& operator=(const PageReclaimer&) = delete;

  // Does not wait. Another thread calls `done` when the pages are free and the file is closed.
  void Reclaim(FileDescriptor file, uint64_t bytes, std::function<void()> done);

  // Files whose `done` has not returned yet.
  size_t pending() const;
  // Waits until no files are pending, or until the timeout. Returns whether none are pending.
  bool AwaitNone(std::chrono::nanoseconds timeout);
  size_t threads() const;

 private:
  class Crew;
  // Shared with the threads.
  const std::shared_ptr<Crew> crew_;
};

}  // namespace pto::engine
