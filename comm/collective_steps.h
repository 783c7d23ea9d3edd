#pragma once

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "comm/collectives.h"
#include "comm/mapped_window.h"
#include "comm/window_layout.h"

namespace pto::comm {

enum class CollectiveKind : uint32_t {
  kBroadcast = 1,
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kAllToAll,
};

// The progress of one member through one collective. Each member has a step counter in the window
// that never resets. Members that have seen a step may read the data that it wrote, until the
// writer has seen all others two steps further. So nothing needs clearing, and a collective costs
// as many rounds of waiting as it has steps.
//
// All members take the same number of steps, which follows from shared knowledge: their arguments
// and each other's calls.
class CollectiveSteps {
 public:
  CollectiveSteps(MappedWindow& window, const CollectiveCall& call, int64_t deadline);

  // Ends the collective and reports an error to all members. Returns the status.
  absl::Status Finish(const absl::Status& status);

  // Waits until this member's slot for the call is free, and returns where its message goes. Does
  // not wait if this member is less than MemberWords::kLead ahead of all others.
  absl::StatusOr<std::byte*> MessageSlot();
  // The first step: publishes this member's call, together with its message, if any.
  void Enter();
  // Waits for a member, or all, to enter, and checks that their calls match.
  absl::Status AwaitCall(uint32_t peer);
  absl::Status AwaitCalls();
  // The message of a member whose call was awaited.
  const std::byte* MessageOf(uint32_t peer) const {
    return window_.call_slot(peer, entry_).message;
  }
  const CollectiveCall& CallOf(uint32_t peer) const { return window_.call_slot(peer, entry_).call; }

  // Advances one step.
  void Publish();
  // Waits until a member, or all, have reached this member's step plus `ahead`, which may be
  // negative.
  absl::Status Await(uint32_t peer, int64_t ahead = 0);
  absl::Status AwaitAll(int64_t ahead = 0);
  absl::Status PublishAndAwaitAll() {
    Publish();
    return AwaitAll();
  }

  MappedWindow& window() const { return window_; }
  uint32_t me() const { return window_.index(); }
  uint32_t count() const { return window_.count(); }
  const CollectiveCall& call() const { return call_; }
  // Steps since Enter, which is step 0.
  uint64_t step() const { return step_ - entry_; }

 private:
  absl::Status AwaitStep(uint32_t peer, uint64_t step);
  // Waits until a member's word reaches the step. `trouble` is called if nothing is wrong with the
  // members. DEADLINE_EXCEEDED without a text at the deadline.
  absl::Status AwaitWord(uint32_t peer, const std::atomic<uint64_t>& word, uint64_t step,
                         absl::FunctionRef<absl::Status()> trouble);
  // Returns an error if a member has passed this call in another collective and cannot reach it any
  // more.
  absl::Status CheckOrder(uint32_t peer) const;

  MappedWindow& window_;
  const CollectiveCall call_;
  const int64_t deadline_;
  const uint64_t entry_;  // the number of the first step
  uint64_t step_;         // the last published step
};

// The five collectives; `window` has more than one member, and arguments are in range.
absl::Status Broadcast(CollectiveSteps& steps, void* buffer);
absl::Status AllReduce(CollectiveSteps& steps, const void* input, void* output);
absl::Status AllGather(CollectiveSteps& steps, const void* input, void* output);
absl::Status ReduceScatter(CollectiveSteps& steps, const void* input, void* output);
absl::Status AllToAll(CollectiveSteps& steps, const void* input, void* output);

}  // namespace pto::comm
