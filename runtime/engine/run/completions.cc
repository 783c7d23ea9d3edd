#include "runtime/engine/run/completions.h"

#include "runtime/base/log.h"

namespace pto::engine {

void Completions::DrainSome(CompletionStep last) {
  PTO_CHECK(!draining_, "a completion drains its own queue");
  draining_ = true;
  for (size_t step = 0; step <= static_cast<size_t>(last);) {
    List& list = lists_[step];
    Completion* const completion = list.first;
    if (completion == nullptr) {
      ++step;
      continue;
    }
    list.first = completion->next_;
    if (list.first == nullptr) list.last = nullptr;
    --count_;
    completion->Complete(static_cast<CompletionStep>(step), *this);
    // It may have added an earlier step.
    step = 0;
  }
  draining_ = false;
}

}  // namespace pto::engine
