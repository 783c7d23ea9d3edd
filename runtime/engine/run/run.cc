#include "runtime/engine/run/run.h"

#include <utility>

#include "runtime/engine/run/task_links.h"

namespace pto {

Run::Run(RunSpec spec, int64_t accepted_ns)
    : spec_(std::move(spec)),
      accepted_ns_(accepted_ns),
      counters_(spec_.image->task_count()),
      next_ready_(spec_.image->task_count()),
      flows_(spec_.image->chips().size() * 3) {
  const GraphImage& image = *spec_.image;
  if (image.has_multi_block_tasks()) {
    block_starts_ = std::make_unique<std::atomic<int64_t>[]>(image.task_count());
  }
  for (Flow& flow : flows_) flow.run = this;
}

Run::~Run() = default;

Run::Counts Run::counts() const {
  return {done_.load(std::memory_order_relaxed), failed_.load(std::memory_order_relaxed),
          skipped_.load(std::memory_order_relaxed), passed_over_.load(std::memory_order_relaxed),
          errors_unlisted_.load(std::memory_order_relaxed)};
}

std::vector<absl::Status> Run::errors() const {
  MutexLock lock(mutex_);
  return errors_.listed();
}

std::vector<absl::Status> Run::TakeUnlistedErrors() {
  if (errors_unlisted_.load(std::memory_order_relaxed) == 0) return {};
  MutexLock lock(mutex_);
  return errors_.TakeUnlisted();
}

absl::Status Run::stop_error() const {
  MutexLock lock(mutex_);
  const std::vector<absl::Status>& errors = errors_.listed();
  return stop_error_ < errors.size() ? errors[stop_error_] : absl::OkStatus();
}

void Run::AddError(absl::Status error) {
  MutexLock lock(mutex_);
  errors_.Add(std::move(error));
  errors_unlisted_.store(errors_.unlisted(), std::memory_order_relaxed);
}

bool Run::Hold() {
  int64_t outstanding = outstanding_.load(std::memory_order_acquire);
  while (outstanding > 0) {
    if (outstanding_.compare_exchange_weak(outstanding, outstanding + 1,
                                           std::memory_order_acq_rel)) {
      return true;
    }
  }
  return false;
}

}  // namespace pto
