#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/pto_kernel.h"
#include "runtime/base/memory_account.h"
#include "runtime/engine/exec/block_state.h"
#include "runtime/engine/queue/errand.h"
#include "runtime/engine/run/block_ticket.h"
#include "runtime/engine/run/long_tasks.h"
#include "runtime/engine/run/run.h"

namespace pto::engine {

class JointTask;
class ReadyQueue;
class Services;

// Asks one more thread to work on a joint task, to which it belongs. While it is queued or done, it
// keeps the run from ending, and the task from being forgotten.
class JointHelp final : public Errand {
 public:
  explicit JointHelp(JointTask& joint);
  void Do(Worker& worker, Completions& completions) override;

  // For the run that the task belongs to now. False when it was asked already.
  bool Ask();
  void Forget() { asked_.store(false, std::memory_order_release); }

 private:
  JointTask& joint_;
  std::atomic<bool> asked_{false};
};

// A task whose kernel has a plan, from the moment it has all its cores to its end.
//
// Its blocks need not run at the same time: between two phases all of them have returned. So one
// thread can do the whole task, call by call, without a stack for each block and without waking
// anybody; and when there is much to do, others claim calls of the same phase. Whoever makes the
// last call of a phase opens the next one, or ends the task.
//
// When it has ended, a task that wants the same cores can follow it on them (Continue). Some that
// are ready already may wait here for that, its followers.
//
// Owned by those who work on it, each of whom calls Leave once. As an errand it is the first of
// them. One that is over can be used for another task, with the memory that it has.
class JointTask final : public Errand {
 public:
  // With a core for each block of each member, in that order.
  JointTask(Run& run, uint32_t task, std::vector<BlockPlace> places)
      : Errand(run), task_(task), places_(std::move(places)) {}
  ~JointTask() override = default;

  // For another task, which has no cores yet.
  void Renew(Run& run, uint32_t task);

  // Whether a task of the same run needs just the cores that this one has.
  bool Fits(uint32_t task) const;
  // For a task that fits, on the same cores. Not for one that others work on, or that has failed.
  void Continue(uint32_t task) {
    task_ = task;
    continued_ = true;
  }
  bool continued() const { return continued_; }
  // Ready tasks that fit, for which this one stands: nobody else knows of them. The last is next.
  std::vector<uint32_t> followers;

  void Do(Worker& worker, Completions& completions) override;

  using Errand::run;
  uint32_t task() const { return task_; }
  const std::vector<BlockPlace>& places() const { return places_; }
  std::vector<BlockPlace>* mutable_places() { return &places_; }
  BlockTicket TicketOf(const BlockPlace& place) const;
  // Shows the task and its followers to threads that look without locks: on the core of its first
  // block only, which is in this queue, because many short tasks in a row do this.
  void Show(const ReadyQueue& queue) const;

  // Lays out what the calls get, and asks the kernel for its plan, unless both are known from the
  // task before. Before anything else.
  absl::Status Prepare(LongTask* long_task);

  // Makes all calls of all phases. For one that works on it alone.
  void MakeAll(Services& services);

  // ---- for several who work on it
  // A call that nobody else makes, of the phase that is open: the first or the last one that is
  // left. Who always begins at the same end makes most often the same calls, phase after phase and
  // task after task, and finds in its cache what they have read and written before.
  bool Claim(bool from_end, uint32_t* call);
  // Makes it, unless the task has failed already or is to stop.
  void Make(Services& services, uint32_t call);
  // Says that it has returned. True for the last one of the phase.
  bool Made() { return made_.fetch_add(1, std::memory_order_acq_rel) + 1 == calls_; }
  // After the last call of a phase: opens the next one. False when there is none, or no need.
  bool OpenNext();
  bool has_more_phases() const {
    return phase(cursor_.load(std::memory_order_acquire)) + 1 < plan_.phases;
  }
  bool has_unclaimed() const { return claimed(cursor_.load(std::memory_order_acquire)) < calls_; }

  // Blocks of all members.
  uint32_t blocks() const { return static_cast<uint32_t>(places_.size()); }
  // How many of them are called in each phase.
  uint32_t calls() const { return calls_; }
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  // Whether more threads than one are worth their wake-up.
  bool worth_sharing() const { return calls_ > 1 && plan_.phase_bytes >= kSharedBytes; }

  // Says how many others can be asked to help. Before they are.
  void SetHelp(uint32_t count);
  absl::Span<const std::unique_ptr<JointHelp>> helps() const {
    return absl::MakeConstSpan(helps_).first(help_count_);
  }
  // When it began: on the clock, if others work on it too.
  int64_t start_ns = 0;

  void Join() { users_.fetch_add(1, std::memory_order_relaxed); }
  // Returns whether nobody is left: it is the caller's then.
  bool Leave() { return users_.fetch_sub(1, std::memory_order_acq_rel) == 1; }
  // It ends, and is kept for Renew: frees a large workspace. Nobody else has it any more.
  void Rest();

 private:
  static constexpr uint32_t kNoTask = 0xffffffff;
  // As long as a thread needs to wake up, another one copies about this much.
  static constexpr uint64_t kSharedBytes = 256 << 10;
  // No more workspace than this is kept for the next task.
  static constexpr uint64_t kKeptBytes = 256 << 10;

  // Whether the task gets what was laid out for another one before.
  bool IsLaidOut() const;
  void LayOut();
  // WORKSPACE_EXHAUSTED.
  absl::Status MakeWorkspace(uint64_t bytes);
  // Makes one call, with a state that has all that is the same for all calls. Returns whether it
  // went well.
  bool MakeCall(const BlockPlace& place, uint32_t phase, BlockTicket& ticket, BlockState& state,
                pto_context& context);
  BlockState MakeState(Services& services, const BlockTicket& ticket) const;

  // A phase and how many of its calls are claimed: at the beginning, and at the end.
  static constexpr int kClaimBits = 20;
  static constexpr uint64_t kFirstClaim = 1;
  static constexpr uint64_t kLastClaim = uint64_t{1} << kClaimBits;
  static constexpr uint32_t kMostCalls = (1u << kClaimBits) - 1;
  static constexpr uint32_t kMostPhases = (1u << (64 - 2 * kClaimBits)) - 1;
  static uint64_t cursor_at(uint32_t phase) { return uint64_t{phase} << (2 * kClaimBits); }
  static uint32_t phase(uint64_t cursor) {
    return static_cast<uint32_t>(cursor >> (2 * kClaimBits));
  }
  static uint32_t claimed_first(uint64_t cursor) {
    return static_cast<uint32_t>(cursor) & kMostCalls;
  }
  static uint32_t claimed_last(uint64_t cursor) {
    return static_cast<uint32_t>(cursor >> kClaimBits) & kMostCalls;
  }
  static uint32_t claimed(uint64_t cursor) { return claimed_first(cursor) + claimed_last(cursor); }
  bool late() const;
  bool stopping() const;

  uint32_t task_;
  std::vector<BlockPlace> places_;
  bool continued_ = false;
  LongTask* long_task_ = nullptr;
  // The task for which what follows was laid out last.
  uint32_t laid_out_ = kNoTask;
  std::vector<pto_tensor> tensors_;
  std::vector<const pto_tensor*> members_;
  pto_scalar scalars_[PTO_MAX_SCALARS];
  pto_plan plan_ = {};
  uint32_t calls_ = 0;
  pto_context context_ = {};  // but for what differs from one call to the next
  std::unique_ptr<std::byte[]> workspace_;
  uint64_t workspace_bytes_ = 0;
  HostCharge workspace_charge_;      // for a large one
  std::atomic<uint64_t> cursor_{0};  // the phase that is open, and what is claimed of it
  std::atomic<uint32_t> made_{0};
  std::atomic<bool> failed_{false};
  std::atomic<uint32_t> users_{1};
  std::vector<std::unique_ptr<JointHelp>> helps_;
  uint32_t help_count_ = 0;
};

}  // namespace pto::engine
