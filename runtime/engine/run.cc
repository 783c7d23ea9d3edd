#include "runtime/engine/run.h"

#include <utility>

namespace pto {

Run::Run(RunSpec spec, uint32_t chip_count, int64_t accepted_ns)
    : spec_(std::move(spec)), accepted_ns_(accepted_ns) {
  const GraphImage& image = *spec_.image;
  const uint32_t count = image.task_count();
  counters_ = std::make_unique<std::atomic<uint32_t>[]>(count);
  for (uint32_t i = 0; i < count; ++i) {
    counters_[i].store(image.tasks()[i].dependencies, std::memory_order_relaxed);
  }
  if (image.has_multi_block_tasks()) {
    block_starts_ = std::make_unique<std::atomic<int64_t>[]>(count);
  }
  next_ready_ = std::make_unique<uint32_t[]>(count);
  flow_of_chip_.resize(chip_count);
  flows_.resize(image.chips().size() * 3);
  for (size_t i = 0; i < image.chips().size(); ++i) {
    flow_of_chip_[image.chips()[i]] = static_cast<uint32_t>(i);
  }
  for (Flow& flow : flows_) flow.run = this;
}

Run::Counts Run::counts() const {
  return {done_.load(std::memory_order_relaxed), failed_.load(std::memory_order_relaxed),
          skipped_.load(std::memory_order_relaxed)};
}

std::vector<absl::Status> Run::errors() const {
  MutexLock lock(mutex_);
  return errors_;
}

std::vector<TaskRecord> Run::TakeRecords() {
  std::vector<TaskRecord> taken;
  SpinLockHolder lock(records_lock_);
  taken.swap(records_);
  return taken;
}

void Run::AddError(absl::Status error) {
  MutexLock lock(mutex_);
  if (errors_.size() < kMaxErrors) errors_.push_back(std::move(error));
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

void Run::FreeWorkingMemory() {
  counters_.reset();
  block_starts_.reset();
  next_ready_.reset();
  flows_ = {};
  flow_of_chip_ = {};
  spec_.slots = {};
}

size_t Run::AddRecord(const TaskRecord& record) {
  SpinLockHolder lock(records_lock_);
  records_.push_back(record);
  const size_t waiting = records_.size();
  return waiting == 1 || waiting % kRecordBatch == 0 ? waiting : 0;
}

}  // namespace pto
