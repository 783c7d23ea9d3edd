#pragma once

#include <atomic>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "daemon/rpc/net/frame_scanner.h"
#include "daemon/rpc/net/token_bucket.h"
#include "runtime/base/mutex.h"

namespace pto::daemon::rpc {

// What one connection may send.
struct TrafficLimits {
  // Bytes of one header block, as sent.
  uint32_t max_header_bytes = 32 << 10;
  // Streams that are reset, by either side.
  int64_t reset_burst = 2048;
  int64_t resets_per_second = 200;
  // Frames that carry neither a request nor data, beside those that answer what the server sends.
  int64_t frame_burst = 100'000;
  int64_t frames_per_second = 50'000;
  // Bytes of messages whose end has not arrived.
  int64_t max_unfinished_bytes = int64_t{64} << 20;
};

// What is wrong with a connection that must be closed.
enum class Violation : uint8_t {
  kNone,
  kSilent,  // it does not begin
  kNotHttp2,
  kHeaders,
  kResets,
  kFrames,
  kUnfinished,
  kStall,  // it keeps the polling thread
};

// For logs and metrics, such as `resets`.
absl::string_view NameOf(Violation violation);

// Watches the frames of one connection for what gRPC 1.51 does not limit:
//
// - Header blocks: gRPC collects a block of any size and parses it again with each frame.
// - Resets: gRPC keeps a call that its client has reset until the handler's turn comes, and reads
//   on meanwhile, so one connection fills the memory.
// - Frames that cost the sender nothing (SETTINGS, PING, WINDOW_UPDATE, PRIORITY, empty DATA,
//   unknown types): gRPC does not leave a connection while there is something to read. A client
//   that gets many messages has to send some WINDOW_UPDATE for them, which are not counted.
// - Messages that do not end: each open stream may hold one of the maximum size.
//
// Received runs on one thread at a time, and so does Sent; both at once are allowed.
class TrafficGuard {
 public:
  // `total_unfinished` counts the unfinished bytes of all connections, and outlives the guard.
  TrafficGuard(const TrafficLimits& limits, std::atomic<int64_t>& total_unfinished);
  ~TrafficGuard();
  TrafficGuard(const TrafficGuard&) = delete;
  TrafficGuard& operator=(const TrafficGuard&) = delete;

  // The client has sent this.
  Violation Received(absl::string_view bytes);
  // The server has sent this.
  Violation Sent(absl::string_view bytes);

  // Whether the client has begun to speak HTTP/2.
  bool begun() const { return begun_.load(std::memory_order_relaxed); }
  int64_t unfinished_bytes() const { return unfinished_bytes_.load(std::memory_order_relaxed); }

 private:
  // A stream on which the client has not said its last.
  struct Stream {
    // The prefix of a gRPC message: a flag, and the length as four bytes.
    uint8_t prefix[5] = {};
    uint8_t prefix_size = 0;
    uint64_t left = 0;  // bytes of the message that have not come
    int64_t bytes = 0;  // bytes that have
  };
  struct Incoming;
  struct Outgoing;

  Violation TakeFrame();
  Violation OnClientFrame(const Frame& frame) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Violation OnHeaders(const Frame& frame) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Violation AddToBlock(const Frame& frame);
  Violation OnClientData(const Frame& frame, absl::string_view piece)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Follow(Stream& stream, absl::string_view piece);
  void Count(int64_t bytes);
  void Forget(uint32_t stream) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const TrafficLimits limits_;
  std::atomic<int64_t>& total_unfinished_;
  std::atomic<bool> begun_{false};
  std::atomic<int64_t> unfinished_bytes_{0};

  // Of Received.
  FrameScanner incoming_{FrameScanner::Start::kPreface};
  TokenBucket client_resets_;
  TokenBucket frames_;
  uint64_t header_block_ = 0;
  uint32_t last_stream_ = 0;

  // How many frames may answer what was sent since the last one that was counted.
  std::atomic<int64_t> answers_{0};

  // Of Sent.
  FrameScanner outgoing_{FrameScanner::Start::kFrames};
  TokenBucket server_resets_;

  Mutex mutex_;
  absl::flat_hash_map<uint32_t, Stream> streams_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace pto::daemon::rpc
