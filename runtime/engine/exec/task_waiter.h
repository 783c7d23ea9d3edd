#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/types/optional.h"
#include "runtime/base/memory_account.h"
#include "runtime/engine/exec/async_copy.h"
#include "runtime/engine/exec/block_host.h"
#include "runtime/engine/exec/services.h"
#include "runtime/engine/queue/errand.h"
#include "runtime/engine/run/long_tasks.h"
#include "runtime/engine/signal/wait_board.h"
#include "runtime/engine/signal/wait_table.h"

namespace pto::engine {

// A wait that belongs to a block of a task: it has a deadline, and ends when the task or the run
// is to end.
class TaskWaiter : public Waiter, public TaskWaiterLink {
 public:
  // `copy`, unless nullptr, owns the signal.
  TaskWaiter(Services& services, const BlockTicket& ticket, const SignalWord& signal,
             pto_compare compare, int64_t value, std::shared_ptr<AsyncCopy> copy);

  // Returns false when there is nothing to wait for. Otherwise OnDone is called once, from any
  // thread, perhaps before this returns. `timeout_ns` 0 means the run's limit for waits.
  bool Begin(int64_t timeout_ns, LongTask* long_task);

  // The error of a wait whose own time was up. While its task has not ended.
  absl::Status TimedOut() const;
  std::string Describe() const override;

 protected:
  virtual void OnDone(WaitEnd end) = 0;
  // The wait has been entered, and may end from now on. Returns false if it must end at once.
  virtual bool OnBegin() { return true; }
  // How others see it.
  virtual WaitNote::Kind kind() const = 0;

  Services& services_;

 private:
  std::string DescribeSignal() const;
  // A value of the signal.
  std::string Text(int64_t value) const;
  void OnEnd(WaitEnd end) final;
  // Puts the wait on the board.
  void Show(int64_t now_ns, int64_t until_ns);

  const std::shared_ptr<AsyncCopy> copy_;
  int64_t timeout_ns_ = 0;
  WaitBoard::Place* place_ = nullptr;
};

// The wait of a kernel, in the middle of a block.
class BlockWaiter final : public TaskWaiter {
 public:
  using TaskWaiter::TaskWaiter;

  // Returns how it ended; meanwhile the host is free for others.
  WaitEnd Wait(BlockHost& host, int64_t timeout_ns, LongTask* long_task) {
    host_ = &host;
    if (!Begin(timeout_ns, long_task)) return WaitEnd::kHolds;
    host.Park();
    return end_;
  }

 private:
  void OnDone(WaitEnd end) override {
    end_ = end;
    host_->Unpark();
  }
  WaitNote::Kind kind() const override { return WaitNote::Kind::kBlock; }

  BlockHost* host_ = nullptr;
  WaitEnd end_ = WaitEnd::kHolds;
};

// Something without which a task does not end, though its blocks may have returned. Counted in
// the task's counter like a block. Owns itself.
class Condition final : public TaskWaiter {
 public:
  // The task must be kept from ending during this call. `of_call` is the memory that a kernel is
  // charged for it, which makes it one of LongTasks::ClaimOf.
  static void Add(Services& services, const BlockTicket& ticket, const SignalWord& signal,
                  pto_compare compare, int64_t value, std::shared_ptr<AsyncCopy> copy,
                  int64_t timeout_ns, LongTask* long_task,
                  absl::optional<HostCharge> of_call = absl::nullopt);

 private:
  using TaskWaiter::TaskWaiter;
  void OnDone(WaitEnd end) override;
  WaitNote::Kind kind() const override { return WaitNote::Kind::kDeferred; }

  HostCharge charge_;
};

// Begins or ends a task that has no block at hand.
class TaskErrand final : public Errand {
 public:
  enum class Kind { kBegin, kEnd };
  TaskErrand(Run& run, uint32_t task, Kind kind) : Errand(run), task_(task), kind_(kind) {}
  void Do(Worker& worker, Completions& completions) override;

 private:
  const uint32_t task_;
  const Kind kind_;
};

}  // namespace pto::engine
