#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/kernel.h"
#include "kernels/pto_kernel.h"

namespace pto::engine {

class LaneReports;

// Names one post of one lane. An id is never used again, so a late answer is recognised. Never 0.
using PostId = uint64_t;

// Blocks of a task that a lane is to run, one after the other on one core. The engine owns it. It
// does not change, except for the cancel flag, and lives until the lane has completed it, or until
// Kill has returned.
struct LanePost {
  PostId id = 0;
  // The snapshot that the run's image owns. Its closure is kernel->data().
  const Kernel* kernel = nullptr;
  // Names the run, for what the lane keeps for it until EndRun. Never used again.
  uint64_t run = 0;
  uint32_t task = 0;  // its number in the run, as errors name it
  // The blocks: from `block` to `block_end`, which is not included. One today.
  uint32_t block = 0;
  uint32_t block_end = 1;
  uint32_t block_count = 1;  // of the task, on each chip
  uint32_t chip = 0;
  uint32_t core = 0;
  pto_core core_kind = PTO_AIV;
  uint32_t cluster = 0;       // of the core
  uint32_t cluster_lane = 0;  // pto_context.lane
  uint32_t member = 0;
  uint32_t member_count = 1;
  // The tensors of each member, tensor_count of them each, as in pto_context.
  std::vector<const pto_tensor*> members;
  uint32_t tensor_count = 0;
  uint32_t scalar_count = 0;
  pto_scalar scalars[PTO_MAX_SCALARS] = {};
  // When the engine cancels it, on the engine's clock; 0: there is no deadline.
  int64_t deadline_ns = 0;
  // How many posts of the same Post start together with this one, itself included; 0: it may start
  // alone.
  uint32_t gang_size = 0;
  // Set before Cancel is called. For lanes in the same process, which can show it to the kernel.
  std::atomic<bool> cancelled{false};

  std::vector<pto_tensor> tensors;  // owns what `members` points to
};

// How a post has ended. If it has failed, the text of the status says why; a reason of the status,
// if it has one, becomes the reason of the error. The engine adds run, task, block and kernel.
struct LaneResult {
  PostId id = 0;
  absl::Status status;
  uint32_t block = 0;  // of a failed post with several blocks: the one that failed
  int32_t code = 0;    // what the kernel has returned, if it is known
  // For how long it has run, if that is known.
  uint64_t took_ticks = 0;
};

// A call of the kernel API by a kernel that runs on a lane; see pto_kernel.h. Addresses are those
// of the engine's process. The engine checks everything in it.
struct LaneCall {
  enum class Kind { kWait, kNotify, kBarrier, kCopy, kWaitCopy, kDefer, kDeferCopy };

  PostId id = 0;
  uint64_t token = 0;  // for the lane: comes back with the answer
  Kind kind = Kind::kWait;
  pto_signal signal = {};  // of kCopy, without an address: no signal
  // kWait and kDefer: pto_compare. kNotify and kCopy: pto_notify_op. kBarrier: pto_scope.
  uint32_t how = 0;
  int64_t value = 0;
  int64_t timeout_ns = 0;
  pto_event event = 0;  // of kWaitCopy and kDeferCopy
  pto_tensor to = {};
  pto_tensor from = {};
};

struct LaneAnswer {
  PostId id = 0;
  uint64_t token = 0;
  pto_result result = PTO_OK;
  pto_event event = 0;  // of kCopy
  std::string text;     // why the result is not PTO_OK
};

// Runs blocks of tasks somewhere else than on the engine's threads: in another process, or on a
// device. Implemented outside of the engine; see Engine::AddLane.
//
// The engine posts blocks that have their cores; they keep the cores until they end. The lane
// answers each post once, in any order and from any thread, through its LaneReports. It answers
// cancelled posts too. A lane that does not answer a cancelled post within the engine's grace
// period is lost: the engine kills it and fails all its posts.
//
// What a kernel asks the engine for (pto_kernel_api), the lane reports too: LaneReports::Call. The
// engine answers each call with Resume: in the middle of Call, or later, when a wait ends. So the
// waits of such a kernel are like all others: they have deadlines, stops end them, and explanations
// show them. When the post ends before its call is answered, the call is forgotten.
//
// The engine never makes two calls of one lane at the same time, and none after Kill; Resume and
// the calls for polling are the exceptions. All calls except Kill return at once, whatever the
// other side does; Kill returns within milliseconds. A call may use the LaneReports. The thread
// that releases the last kernel of the lane destroys it; that may be a worker, so the destructor
// must not block.
class Lane {
 public:
  virtual ~Lane() = default;

  // For errors and explanations. Never changes.
  virtual std::string name() const = 0;

  // The first call. The lane keeps the reports as long as it likes, also beyond the engine's end.
  virtual void Open(std::shared_ptr<LaneReports> reports) = 0;

  // Begins to run the posts. One wake-up of the other side is enough for all of them.
  virtual void Post(absl::Span<const LanePost* const> posts) = 0;

  // The posts must end soon. Each still needs an answer, unless it has been given.
  virtual void Cancel(absl::Span<const PostId> ids) = 0;

  // A run of which there were posts has ended: no post of it is left, and none will come.
  virtual void EndRun(uint64_t /*run*/) {}

  // The answer to a call of a kernel. Made by any thread and at any time: during other calls, in
  // the middle of LaneReports::Call, and even after Kill. Answers for posts that have ended are
  // ignored.
  virtual void Resume(const LaneAnswer& answer) = 0;

  // A thread of the engine that waits for the end of short posts may handle the reports of the lane
  // itself, so that no thread has to be woken for them. Between BeginPoll, if that returns true,
  // and EndPoll, it calls Poll, which returns at once and may use the LaneReports. Only one thread
  // at a time polls. All three may be called at any time, like Resume.
  virtual bool BeginPoll() { return false; }
  virtual void Poll() {}
  virtual void EndPoll() {}

  // The last call, and made at most once. When it returns, nothing of the lane runs any more and
  // nothing of it uses the memory of a post.
  virtual void Kill() = 0;
};

}  // namespace pto::engine
