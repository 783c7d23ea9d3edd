#pragma once

#include <cstdint>

namespace pto::engine {

// Divides by a fixed number, using a multiplication.
class Divider {
 public:
  explicit Divider(uint64_t divisor = 1)
      : divisor_(divisor),
        inverse_(divisor == 1 ? ~uint64_t{0} : static_cast<uint64_t>((Wide{1} << 64) / divisor)) {}

  uint64_t divisor() const { return divisor_; }

  uint64_t Quotient(uint64_t number) const {
    // The inverse is rounded down, so the quotient is at most 1 too small.
    const auto quotient = static_cast<uint64_t>((Wide{number} * inverse_) >> 64);
    return number - quotient * divisor_ >= divisor_ ? quotient + 1 : quotient;
  }

 private:
  __extension__ using Wide = unsigned __int128;
  uint64_t divisor_;
  uint64_t inverse_;
};

}  // namespace pto::engine
