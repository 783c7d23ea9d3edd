#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "kernels/pto_kernel.h"
#include "runtime/engine/exec/async_copy.h"
#include "runtime/engine/exec/block_host.h"
#include "runtime/engine/run/block_ticket.h"
#include "runtime/engine/run/long_tasks.h"

namespace pto::engine {

class Services;

// What the engine knows of a block while its kernel runs. `pto_context.engine` points at it.
struct BlockState {
  static BlockState& Of(const pto_context* context) {
    return *static_cast<BlockState*>(context->engine);
  }

  Services* services = nullptr;
  Run* run = nullptr;
  const BlockTicket* ticket = nullptr;
  const std::atomic<bool>* stop = nullptr;
  BlockHost* host = nullptr;      // nullptr: it must not wait
  LongTask* long_task = nullptr;  // nullptr: none yet
  // Whether the task's counter counts this call. Else the task ends with it, unless `deferred`.
  bool counted = false;
  bool deferred = false;

  // What most blocks never need.
  struct Rare {
    std::string error;     // what the kernel says itself
    absl::Status failure;  // of the last wait that failed, which says more than its code does
    std::vector<std::shared_ptr<AsyncCopy>> copies;
  };
  Rare& rare() {
    if (rare_ == nullptr) rare_ = std::make_unique<Rare>();
    return *rare_;
  }

  bool has_rare() const { return rare_ != nullptr; }

  // Of a plain task's: whether its kernel has asked for nothing that must be undone before the
  // state serves for another call; and to do so.
  bool is_new() const { return rare_ == nullptr && long_task == nullptr; }
  void Renew() {
    rare_.reset();
    long_task = nullptr;
    counted = deferred = false;
  }

 private:
  std::unique_ptr<Rare> rare_;
};

}  // namespace pto::engine
