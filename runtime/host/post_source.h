#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/base/mutex.h"
#include "runtime/host/ring.h"

namespace pto::host {

// In the host: the ring of posts, from which several threads take messages. A thread that finds
// none looks again for some microseconds and then sleeps, without any CPU time. While posts come at
// short intervals, one of the threads looks for longer, because to wake one takes longer than that.
// Thread-safe.
class PostSource {
 public:
  explicit PostSource(const RingMemory& memory) : reader_(memory) {}
  PostSource(const PostSource&) = delete;
  PostSource& operator=(const PostSource&) = delete;

  // Waits for the next message. Ends the process if the ring is broken.
  void Take(std::vector<std::byte>* message);

 private:
  // Longer gaps count as this one, so that a pause is forgotten after a few posts.
  static constexpr int64_t kMostGapNs = 800'000;

  bool TryTake(std::vector<std::byte>* message);
  // Looks again and again for so long. Returns whether there was a message.
  bool Spin(int64_t spin_ns, std::vector<std::byte>* message);
  // A post has come.
  void NotePost();

  Mutex mutex_;  // held while a thread reads
  RingReader reader_;
  std::atomic<bool> patient_{false};  // a thread looks for longer
  std::atomic<int64_t> last_post_ns_{0};
  std::atomic<int64_t> typical_gap_ns_{kMostGapNs};  // between posts, lately
};

}  // namespace pto::host
