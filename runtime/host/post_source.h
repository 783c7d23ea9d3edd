#pragma once

#include <cstddef>
#include <vector>

#include "runtime/base/mutex.h"
#include "runtime/host/ring.h"

namespace pto::host {

// In the host: the ring of posts, from which several threads take messages. A thread that finds
// none looks again for some microseconds and then sleeps, without any CPU time. Thread-safe.
class PostSource {
 public:
  explicit PostSource(const RingMemory& memory) : reader_(memory) {}
  PostSource(const PostSource&) = delete;
  PostSource& operator=(const PostSource&) = delete;

  // Waits for the next message. Ends the process if the ring is broken.
  void Take(std::vector<std::byte>* message);

 private:
  bool TryTake(std::vector<std::byte>* message);

  Mutex mutex_;  // held while a thread reads
  RingReader reader_;
};

}  // namespace pto::host
