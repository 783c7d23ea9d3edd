#include "daemon/rpc/net/traffic_guard.h"

#include <algorithm>

#include "runtime/base/clock.h"

namespace pto::daemon::rpc {
namespace {

// For a frame with a message or a part of it: one WINDOW_UPDATE for the stream and one for the
// connection, for each of the smallest messages in it.
int64_t AnswersTo(const Frame& frame) { return 2 + frame.length / 16; }

int64_t Now() { return Clock::Real().NowNanos(); }

}  // namespace

absl::string_view NameOf(Violation violation) {
  switch (violation) {
    case Violation::kNone:
      return "none";
    case Violation::kSilent:
      return "silent";
    case Violation::kNotHttp2:
      return "not_http2";
    case Violation::kHeaders:
      return "headers";
    case Violation::kResets:
      return "resets";
    case Violation::kFrames:
      return "frames";
    case Violation::kUnfinished:
      return "unfinished";
    case Violation::kStall:
      return "stall";
  }
  return "unknown";
}

// Received holds the lock, which the analysis cannot see through FrameScanner.
struct TrafficGuard::Incoming {
  bool OnFrame(const Frame& frame) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    violation = guard.OnClientFrame(frame);
    return violation == Violation::kNone;
  }
  bool OnData(const Frame& frame, absl::string_view piece) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    violation = guard.OnClientData(frame, piece);
    return violation == Violation::kNone;
  }
  TrafficGuard& guard;
  Violation violation = Violation::kNotHttp2;
};

struct TrafficGuard::Outgoing {
  bool OnFrame(const Frame& frame) {
    const bool reset = frame.type == Frame::kResetStream;
    const bool useful = frame.type == Frame::kHeaders || frame.type == Frame::kData;
    if (useful) guard.answers_.fetch_add(AnswersTo(frame), std::memory_order_relaxed);
    if (reset || (useful && (frame.flags & Frame::kEndStream) != 0)) {
      MutexLock lock(guard.mutex_);
      guard.Forget(frame.stream);
    }
    if (!reset || guard.server_resets_.Take(Now)) return true;
    violation = Violation::kResets;
    return false;
  }
  bool OnData(const Frame& /*frame*/, absl::string_view /*piece*/) { return true; }
  TrafficGuard& guard;
  Violation violation = Violation::kNone;
};

TrafficGuard::TrafficGuard(const TrafficLimits& limits, std::atomic<int64_t>& total_unfinished)
    : limits_(limits),
      total_unfinished_(total_unfinished),
      client_resets_(limits.reset_burst, limits.resets_per_second, Now()),
      frames_(limits.frame_burst, limits.frames_per_second, Now()),
      server_resets_(limits.reset_burst, limits.resets_per_second, Now()) {}

TrafficGuard::~TrafficGuard() { Count(-unfinished_bytes()); }

Violation TrafficGuard::Received(absl::string_view bytes) {
  Incoming visitor{*this};
  {
    MutexLock lock(mutex_);
    if (!incoming_.Scan(bytes, visitor)) return visitor.violation;
  }
  if (incoming_.begun()) begun_.store(true, std::memory_order_relaxed);
  return unfinished_bytes() > limits_.max_unfinished_bytes ? Violation::kUnfinished
                                                           : Violation::kNone;
}

Violation TrafficGuard::Sent(absl::string_view bytes) {
  Outgoing visitor{*this};
  outgoing_.Scan(bytes, visitor);
  return visitor.violation;
}

Violation TrafficGuard::TakeFrame() {
  if (answers_.load(std::memory_order_relaxed) > 0) {
    frames_.Give(answers_.exchange(0, std::memory_order_relaxed));
  }
  return frames_.Take(Now) ? Violation::kNone : Violation::kFrames;
}

Violation TrafficGuard::OnClientFrame(const Frame& frame) {
  switch (frame.type) {
    case Frame::kData: {
      if ((frame.flags & Frame::kEndStream) != 0 && frame.length == 0) Forget(frame.stream);
      // gRPC refuses padding, and with it the bytes would not be where we look.
      if ((frame.flags & Frame::kPadded) != 0) return Violation::kFrames;
      const bool useful = frame.length > 0 || (frame.flags & Frame::kEndStream) != 0;
      return useful ? Violation::kNone : TakeFrame();
    }
    case Frame::kHeaders:
      return OnHeaders(frame);
    case Frame::kContinuation: {
      const Violation violation = AddToBlock(frame);
      return violation != Violation::kNone ? violation : TakeFrame();
    }
    case Frame::kResetStream:
      Forget(frame.stream);
      return client_resets_.Take(Now) ? Violation::kNone : Violation::kResets;
    default:
      return TakeFrame();
  }
}

Violation TrafficGuard::OnHeaders(const Frame& frame) {
  header_block_ = 0;
  const Violation violation = AddToBlock(frame);
  if (violation != Violation::kNone) return violation;
  // A call needs one block. Nothing limits how many may follow.
  if (frame.stream <= last_stream_) {
    if ((frame.flags & Frame::kEndStream) != 0) Forget(frame.stream);
    return TakeFrame();
  }
  last_stream_ = frame.stream;
  if ((frame.flags & Frame::kEndStream) == 0) streams_.try_emplace(frame.stream);
  return Violation::kNone;
}

Violation TrafficGuard::AddToBlock(const Frame& frame) {
  header_block_ += frame.length;
  const bool too_long = header_block_ > limits_.max_header_bytes;
  if ((frame.flags & Frame::kEndHeaders) != 0) header_block_ = 0;
  return too_long ? Violation::kHeaders : Violation::kNone;
}

Violation TrafficGuard::OnClientData(const Frame& frame, absl::string_view piece) {
  // A stream that the server has ended may still get what was under way.
  const auto found = streams_.find(frame.stream);
  if (found != streams_.end()) Follow(found->second, piece);
  return Violation::kNone;
}

void TrafficGuard::Follow(Stream& stream, absl::string_view piece) {
  int64_t finished = -stream.bytes;
  while (!piece.empty()) {
    size_t size = 0;
    if (stream.prefix_size < sizeof stream.prefix) {
      stream.prefix[stream.prefix_size++] = static_cast<uint8_t>(piece.front());
      size = 1;
      if (stream.prefix_size == sizeof stream.prefix) {
        for (int i = 1; i <= 4; ++i) stream.left = stream.left << 8 | stream.prefix[i];
      }
    } else {
      size = std::min<uint64_t>(piece.size(), stream.left);
      stream.left -= size;
    }
    stream.bytes += static_cast<int64_t>(size);
    piece.remove_prefix(size);
    if (stream.prefix_size == sizeof stream.prefix && stream.left == 0) stream = Stream();
  }
  finished += stream.bytes;
  if (finished != 0) Count(finished);
}

void TrafficGuard::Count(int64_t bytes) {
  unfinished_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  total_unfinished_.fetch_add(bytes, std::memory_order_relaxed);
}

void TrafficGuard::Forget(uint32_t stream) {
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return;
  if (found->second.bytes != 0) Count(-found->second.bytes);
  streams_.erase(found);
}

}  // namespace pto::daemon::rpc
