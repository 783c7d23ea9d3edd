#include "daemon/broker/mover.h"

#include <pthread.h>

#include <chrono>
#include <utility>

#include "absl/status/statusor.h"

namespace pto::daemon {
namespace {

using broker::Outcome;

// Steps of one job before the next job gets its turn.
constexpr int kTurn = 64;
// A run reports its end shortly before it releases its buffers, and a deleted buffer's pages are
// freed shortly after the call. The mover waits for both.
constexpr int kMostWaits = 200;
constexpr std::chrono::milliseconds kWait(1);

}  // namespace

Mover::Mover(std::shared_ptr<engine::SharingBudget> budget)
    : budget_(std::move(budget)), thread_([this] { Work(); }) {
  pthread_setname_np(thread_.native_handle(), "broker-mover");
}

Mover::~Mover() {
  {
    MutexLock lock(mutex_);
    stop_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
  for (const Job& job : jobs_) job.done(Outcome::kLimit);
}

void Mover::Move(MappedBuffer buffer, std::function<bool()> wanted, Done done) {
  MutexLock lock(mutex_);
  jobs_.push_back({std::move(buffer), std::move(wanted), std::move(done)});
  changed_.NotifyAll();
}

void Mover::Work() {
  while (true) {
    Job job;
    {
      MutexLock lock(mutex_);
      while (jobs_.empty() && !stop_) changed_.Wait(mutex_);
      if (stop_) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    bool wait = false;
    if (Step(job, &wait)) continue;
    MutexLock lock(mutex_);
    jobs_.push_back(std::move(job));
    // A short wait, because other jobs may arrive meanwhile.
    if (wait && !stop_) changed_.WaitFor(mutex_, kWait);
  }
}

bool Mover::Step(Job& job, bool* wait) {
  for (int i = 0; i < kTurn; ++i) {
    Outcome outcome = Outcome::kBufferGone;
    {
      // Released before the answer: the client may then delete the buffer, and its memory must be
      // freed.
      const std::shared_ptr<Session> session = job.buffer.session.lock();
      const std::shared_ptr<SessionBuffer> buffer = job.buffer.buffer.lock();
      if (session == nullptr || !job.wanted()) {
        outcome = Outcome::kSessionGone;
      } else if (buffer != nullptr) {
        // Checked before the step: memory freed during the step comes too late for it.
        const bool reclaiming = budget_->reclaiming() > 0;
        const absl::StatusOr<bool> all = session->ShareSome(*buffer, budget_);
        if (all.ok() && !*all) continue;
        outcome = ToOutcome(all.status());
        const bool soon_free =
            outcome == Outcome::kBufferInUse && buffer->in_use.load(std::memory_order_acquire) == 0;
        const bool soon_room = outcome == Outcome::kLimit && reclaiming;
        if ((soon_free || soon_room) && job.waits < kMostWaits) {
          ++job.waits;
          *wait = true;
          return false;
        }
      }
    }
    job.done(outcome);
    return true;
  }
  return false;
}

}  // namespace pto::daemon
