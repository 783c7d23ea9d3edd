#include "runtime/engine/exec/post_calls.h"

#include <utility>

namespace pto::engine {

bool PostCalls::HasRoomForCopy() {
  while (!copies_.empty() && copies_.front()->done().Load() == 1) {
    copies_.pop_front();
    ++ended_;
  }
  return copies_.size() < kMaxCopies;
}

pto_event PostCalls::AddCopy(std::shared_ptr<AsyncCopy> copy) {
  copies_.push_back(std::move(copy));
  return ended_ + copies_.size();
}

}  // namespace pto::engine
