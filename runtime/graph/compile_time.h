#pragma once

#include <cstdint>

#include "runtime/base/clock.h"

namespace pto::engine {

// The time that compiling one graph may take. It begins with the first question and goes on until
// Pause, so a graph that comes in parts is not charged for the time in between, and one that is
// compiled at once never reads the clock. Not thread-safe.
class CompileTime {
 public:
  // 0: any time.
  CompileTime(const Clock& clock, int64_t limit_ns) : clock_(&clock), limit_ns_(limit_ns) {}

  int64_t limit_ns() const { return limit_ns_; }

  bool IsUp() {
    if (limit_ns_ <= 0) return false;
    const int64_t now = clock_->NowNanos();
    if (since_ns_ == 0) since_ns_ = now;
    return used_ns_ + (now - since_ns_) > limit_ns_;
  }
  void Pause() {
    if (since_ns_ == 0) return;
    used_ns_ += clock_->NowNanos() - since_ns_;
    since_ns_ = 0;
  }
  // For another graph.
  void Restart() { used_ns_ = since_ns_ = 0; }

 private:
  const Clock* clock_;
  int64_t limit_ns_;
  int64_t used_ns_ = 0;
  int64_t since_ns_ = 0;
};

}  // namespace pto::engine
