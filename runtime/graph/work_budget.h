#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <type_traits>
#include <utility>

#include "runtime/graph/compile_time.h"

namespace pto::engine {

// Counts the work of compiling a graph, and stops it when there is too much of it or the client no
// longer waits for the result, or its time is up. A unit is one small step of a loop whose length
// depends on client input, for example one region, cell or combination of strides. It takes a few
// nanoseconds.
//
// The allowance grows with the size of the input and of the result, so the time to compile a graph
// is linear in its size: kBase units, kPerArgument for each task and for each argument, and
// kPerDependency for each dependency. Graphs whose tensors are adjacent, or overlap like tiles with
// a halo, use a small part of it.
//
// Not thread-safe, but the Cancelled function may read state that other threads change.
class WorkBudget {
 public:
  static constexpr uint64_t kBase = 16'777'216;
  static constexpr uint64_t kPerArgument = 512;
  static constexpr uint64_t kPerDependency = 32;
  // The maximum work between two checks for cancellation. Takes well below a millisecond.
  static constexpr uint64_t kCheckInterval = 32'768;

  // Polled now and then to find out whether to stop: when `gone` returns true, because nobody waits
  // for the result any more, or when the time is up.
  class Cancelled {
   public:
    Cancelled(std::nullptr_t = nullptr) {}
    template <typename Gone, std::enable_if_t<std::is_invocable_r_v<bool, Gone&>, int> = 0>
    Cancelled(Gone gone) : gone_(std::move(gone)) {}
    // The same, with a limit in time. The time must outlive all copies.
    Cancelled WithTime(CompileTime* time) && {
      time_ = time;
      return std::move(*this);
    }

   private:
    friend class WorkBudget;
    std::function<bool()> gone_;
    CompileTime* time_ = nullptr;
  };

  enum class State { kOk, kSpent, kCancelled, kLate };

  explicit WorkBudget(Cancelled cancelled = nullptr, uint64_t base = kBase)
      : cancelled_(std::move(cancelled)),
        base_(base),
        allowed_(base),
        pause_(std::min(base, kCheckInterval)),
        left_(static_cast<int64_t>(pause_)) {}

  // Counts the units. Returns false if the work has to stop; all later calls return false, too.
  bool Spend(uint64_t units) {
    left_ -= static_cast<int64_t>(units);
    return left_ >= 0 || Check();
  }

  // Checks now whether the work has to stop. Returns false if so.
  bool Look() { return Check(); }

  // Adds the allowance for another task with these numbers of arguments and dependencies.
  void EarnTask(uint64_t arguments, uint64_t dependencies) {
    allowed_ += (arguments + 1) * kPerArgument + dependencies * kPerDependency;
  }
  // Drops the unused allowance except kBase, so that many small segments do not pay for a very
  // expensive later one.
  void BeginSegment() {
    allowed_ = std::min(allowed_, spent() + base_);
    if (state_ == State::kOk && pause_ > allowed_) PauseAt(allowed_);
  }

  State state() const { return state_; }
  bool ok() const { return state_ == State::kOk; }
  // The limit in time; 0: none.
  int64_t limit_ns() const {
    return cancelled_.time_ == nullptr ? 0 : cancelled_.time_->limit_ns();
  }
  uint64_t spent() const { return pause_ - static_cast<uint64_t>(left_); }
  uint64_t allowed() const { return allowed_; }
  // The average work for each task and argument. A dependency counts as a fraction of an argument.
  uint64_t per_argument() const {
    return spent() / std::max<uint64_t>(1, (allowed_ - base_) / kPerArgument);
  }

 private:
  bool Check() {
    if (state_ != State::kOk) return false;
    if (spent() > allowed_) {
      state_ = State::kSpent;
    } else if (cancelled_.gone_ != nullptr && cancelled_.gone_()) {
      state_ = State::kCancelled;
    } else if (cancelled_.time_ != nullptr && cancelled_.time_->IsUp()) {
      state_ = State::kLate;
    }
    // If the work has to stop, every later call ends here.
    PauseAt(state_ == State::kOk ? std::min(allowed_, spent() + kCheckInterval) : spent() - 1);
    return state_ == State::kOk;
  }
  // The next check happens when more than this is spent.
  void PauseAt(uint64_t units) {
    left_ = static_cast<int64_t>(units - spent());
    pause_ = units;
  }

  Cancelled cancelled_;
  uint64_t base_;
  uint64_t allowed_;
  uint64_t pause_;  // work between the last check and the next
  int64_t left_;    // work left until the next check
  State state_ = State::kOk;
};

}  // namespace pto::engine
