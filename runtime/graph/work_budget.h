#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>

namespace pto {

// Counts the work of compiling a graph and ends it when there is too much of it, or when nobody
// waits for the result any more. A unit is one small step of a loop whose length depends on what
// a client sent: a region, a cell or a combination of strides that is looked at. It takes a few
// nanoseconds.
//
// What is allowed grows with what the client sent and with what is found, so the time to compile
// a graph is linear in its size: kBase units, kPerArgument for each task and for each of its
// arguments, and kPerDependency for each dependency. Graphs whose tensors lie side by side, or
// overlap as tiles with a halo do, take a small part of that.
//
// Not thread-safe, but the function that it is given may look at what other threads change.
class WorkBudget {
 public:
  static constexpr uint64_t kBase = 16'777'216;
  static constexpr uint64_t kPerArgument = 512;
  static constexpr uint64_t kPerDependency = 32;
  // How much work is done at most between two looks at whether it is cancelled. Well below a
  // millisecond.
  static constexpr uint64_t kCheckInterval = 32'768;

  // Asked now and then; true ends the work.
  using Cancelled = std::function<bool()>;

  enum class State { kOk, kSpent, kCancelled };

  explicit WorkBudget(Cancelled cancelled = nullptr, uint64_t base = kBase)
      : cancelled_(std::move(cancelled)),
        base_(base),
        allowed_(base),
        pause_(std::min(base, kCheckInterval)),
        left_(static_cast<int64_t>(pause_)) {}

  // Counts the units. Returns false when the work has to end; it does so from then on.
  bool Spend(uint64_t units) {
    left_ -= static_cast<int64_t>(units);
    return left_ >= 0 || Check();
  }

  // Looks at once at whether the work has to end. Returns false if so.
  bool Look() { return Check(); }

  // The graph has another task, with so many arguments and dependencies.
  void EarnTask(uint64_t arguments, uint64_t dependencies) {
    allowed_ += (arguments + 1) * kPerArgument + dependencies * kPerDependency;
  }
  // What was saved so far is lost but for kBase: many small parts must not pay for a long wait
  // at a later one.
  void BeginPart() {
    allowed_ = std::min(allowed_, spent() + base_);
    if (state_ == State::kOk && pause_ > allowed_) PauseAt(allowed_);
  }

  State state() const { return state_; }
  bool ok() const { return state_ == State::kOk; }
  uint64_t spent() const { return pause_ - static_cast<uint64_t>(left_); }
  uint64_t allowed() const { return allowed_; }
  // How much was spent for each task and argument, on average. A dependency counts as a small part
  // of an argument.
  uint64_t per_argument() const {
    return spent() / std::max<uint64_t>(1, (allowed_ - base_) / kPerArgument);
  }

 private:
  bool Check() {
    if (state_ != State::kOk) return false;
    if (spent() > allowed_) {
      state_ = State::kSpent;
    } else if (cancelled_ != nullptr && cancelled_()) {
      state_ = State::kCancelled;
    }
    // Every call from now on ends here if the work has to end.
    PauseAt(state_ == State::kOk ? std::min(allowed_, spent() + kCheckInterval) : spent() - 1);
    return state_ == State::kOk;
  }
  // The next look comes when more than this is spent.
  void PauseAt(uint64_t units) {
    left_ = static_cast<int64_t>(units - spent());
    pause_ = units;
  }

  Cancelled cancelled_;
  uint64_t base_;
  uint64_t allowed_;
  uint64_t pause_;  // how much may be spent before the next look
  int64_t left_;    // of that
  State state_ = State::kOk;
};

}  // namespace pto
