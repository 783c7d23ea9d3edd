#pragma once

#include <cstdint>

#include "kernels/pto_kernel.h"

namespace pto::kernels {

// Counts what a block does, and looks at its cancel flag in between, so that every kernel stops
// soon after it was told to, however much its arguments ask for. For one thread.
//
// The unit is about a nanosecond of a fast core: an element of a dense view, or a few products of a
// matrix. A loop whose length depends on its arguments counts before each piece of work, and
// pieces are at most kPiece long. Counting is one subtraction; it belongs into the loop around the
// innermost one.
class WorkMeter {
 public:
  // The work between two looks. A build that is a hundred times slower still looks every 10 ms.
  static constexpr int64_t kBetweenLooks = 1 << 17;
  // No single step counts more than this.
  static constexpr int64_t kPiece = kBetweenLooks;
  // What an element counts that is far from the one before: it may be in no cache.
  static constexpr int64_t kFar = 16;

  // Without a context, never stops.
  explicit WorkMeter(const pto_context* context) : context_(context) {}
  WorkMeter(const WorkMeter&) = delete;
  WorkMeter& operator=(const WorkMeter&) = delete;

  // Counts work that follows. Returns false if the block has to return instead, then always.
  bool Spend(int64_t work) {
    left_ -= work;
    return left_ >= 0 || Look();
  }
  // Whether Spend has returned false.
  bool stopped() const { return stopped_; }

 private:
  bool Look();

  const pto_context* const context_;
  int64_t left_ = kBetweenLooks;
  bool stopped_ = false;
};

}  // namespace pto::kernels
