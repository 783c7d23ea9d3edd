#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "runtime/base/file_descriptor.h"

namespace pto {

// Takes the pages out of files that other processes have mapped, in threads of its own. Whoever
// has such a file can hold that up for as long as it likes: by a write to the file that does not
// end, for whose lock the kernel lets us wait, deaf to every signal. So nobody else waits, nor does
// one file for another: where a file takes long, the next ones get another thread. Thread-safe.
//
// There are no threads until there is a file, and none for long after the last one. Its end waits
// for nobody: what is left is still done, by threads that need the object no more.
class PageReclaimer {
 public:
  struct Options {
    // Takes the pages out of a file, however many have it mapped. May wait for ever.
    std::function<void(int descriptor, uint64_t bytes)> punch = Punch;
    // How long all threads may be at their files before the next one gets another thread.
    std::chrono::nanoseconds patience = std::chrono::milliseconds(10);
    // How long a thread waits for another file.
    std::chrono::nanoseconds idle = std::chrono::seconds(1);
    // When so many files are held up, the next ones do wait: without threads there would be no
    // daemon either.
    size_t max_threads = 256;
  };
  static void Punch(int descriptor, uint64_t bytes);

  explicit PageReclaimer(Options options);
  ~PageReclaimer();
  PageReclaimer(const PageReclaimer&) = delete;
  PageReclaimer& operator=(const PageReclaimer&) = delete;

  // Does not wait. Calls `done` in another thread, when the pages are free and the file is closed.
  void Reclaim(FileDescriptor file, uint64_t bytes, std::function<void()> done);

  // Files whose `done` has not returned yet.
  size_t pending() const;
  // Waits until there are none, or until the time is up. Returns whether there are none.
  bool AwaitNone(std::chrono::nanoseconds timeout);
  size_t threads() const;

 private:
  class Crew;
  // The threads have it, too.
  const std::shared_ptr<Crew> crew_;
};

}  // namespace pto
