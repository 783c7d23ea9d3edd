#pragma once

#include <algorithm>
#include <cstdint>

namespace pto::daemon::rpc {

// Lets `burst` events pass at once and `per_second` in the long run. Asks for the time only when
// the burst is used up, so events cost next to nothing. Not thread-safe.
class TokenBucket {
 public:
  TokenBucket(int64_t burst, int64_t per_second, int64_t now_ns)
      : burst_(burst), per_second_(per_second), left_(burst), filled_ns_(now_ns) {}

  // Puts tokens back, as far as there is room.
  void Give(int64_t tokens) { left_ += std::min(tokens, burst_ - left_); }

  // Takes one token. `now_ns` is a function that returns the time.
  template <typename Now>
  bool Take(const Now& now_ns) {
    if (left_ == 0) {
      const int64_t now = now_ns();
      constexpr int64_t kSecond = 1'000'000'000;
      // Bounded, so that the product below does not overflow.
      const int64_t elapsed =
          std::clamp<int64_t>(now - filled_ns_, 0, (burst_ / per_second_ + 1) * kSecond);
      left_ = std::min(burst_, elapsed * per_second_ / kSecond);
      if (left_ == 0) return false;
      filled_ns_ = now;
    }
    --left_;
    return true;
  }

 private:
  const int64_t burst_;
  const int64_t per_second_;
  int64_t left_;
  int64_t filled_ns_;
};

}  // namespace pto::daemon::rpc
