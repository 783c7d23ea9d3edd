#pragma once

namespace pto::engine {

// What a block runs on, as far as it can wait there: a fiber, or a thread of its own.
class BlockHost {
 public:
  virtual ~BlockHost() = default;
  // Called by the block: returns after Unpark was called, also when that was before.
  virtual void Park() = 0;
  // Called once for each Park, from any thread.
  virtual void Unpark() = 0;
};

}  // namespace pto::engine
