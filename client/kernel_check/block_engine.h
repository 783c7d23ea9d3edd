#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "client/kernel_check/finding.h"
#include "kernels/pto_kernel.h"
#include "runtime/base/mutex.h"
#include "runtime/host/object/pto_call.h"

namespace pto::kernel_check {

// In which order the blocks of a task run.
enum class BlockOrder { kAscending, kDescending, kTogether };

// One task: a kernel and its arguments.
struct Task {
  const pto_kernel_info* info = nullptr;
  const void* kernel_data = nullptr;
  // Of each member, its tensors, and the memory that they are in.
  std::vector<std::vector<pto_tensor>> members;
  std::vector<std::vector<host::PtoBuffer>> buffers;
  std::vector<pto_scalar> scalars;
  uint32_t blocks = 1;
  BlockOrder order = BlockOrder::kAscending;
};

// What a task has left.
struct TaskResult {
  int32_t code = 0;  // of the first block that failed
  std::string error;
  uint64_t calls = 0;
  struct Complaint {
    Problem problem;
    std::string text;
  };
  std::vector<Complaint> complaints;
};

// Runs the blocks of one task in this process and answers their calls, as an engine does, but looks
// more closely. Used once.
class BlockEngine {
 public:
  // `cancelled` is the run's cancel flag. Waits fail after `wait_ns`.
  BlockEngine(const Task& task, const std::atomic<uint32_t>& cancelled, int64_t wait_ns);
  BlockEngine(const BlockEngine&) = delete;
  BlockEngine& operator=(const BlockEngine&) = delete;

  TaskResult Run();

 private:
  // What the calls of one block have in common.
  struct Block {
    BlockEngine* engine = nullptr;
    uint32_t member = 0;
    uint32_t index = 0;
    std::string error = {};
    bool timed_out = false;
    int32_t refused = PTO_OK;  // the first result of a call that was not PTO_OK
    uint64_t copies = 0;
  };
  struct Deferred {
    pto_signal signal;
    pto_compare compare;
    int64_t value;
  };
  // The blocks that a barrier waits for.
  struct Meeting {
    uint32_t expected = 0;
    uint32_t arrived = 0;
    uint64_t generation = 0;
    bool broken = false;
  };

  static Block& BlockOf(const pto_context* context) {
    return *static_cast<Block*>(context->engine);
  }
  static const pto_kernel_api& Api();

  void RunBlock(Block& block);
  void CheckCode(const Block& block, int32_t code);
  void EndOfBlock(const Block& block);
  void AwaitDeferred();

  // Notes that a call was answered with this result, and returns it.
  int32_t Answer(Block& block, int32_t result);
  // Notes that the kernel must not make this call.
  int32_t Refuse(Block& block, int32_t result, const std::string& text);
  void Complain(Problem problem, const std::string& text);

  bool IsCancelled() const { return cancelled_.load() != 0; }
  // Whether the word belongs to a tensor of the task.
  bool Owns(const void* address, uint64_t bytes) const;
  // Empty if the signal is one.
  std::string Fault(const pto_signal* signal) const;
  // Polls until it compares true.
  int32_t Await(const pto_signal& signal, pto_compare compare, int64_t value);
  // The name of the tensor that the address is in.
  std::string NameOf(const void* address) const;

  int32_t Wait(Block& block, const pto_signal* signal, pto_compare compare, int64_t value);
  int32_t Notify(Block& block, const pto_signal* signal, pto_notify_op op, int64_t value);
  int32_t Barrier(Block& block, pto_scope scope);
  int32_t Copy(Block& block, const pto_tensor* to, const pto_tensor* from, const pto_signal* done,
               pto_notify_op op, int64_t value, pto_event* event);
  int32_t Defer(Block& block, const pto_signal* signal, pto_compare compare, int64_t value);

  const Task& task_;
  const std::atomic<uint32_t>& cancelled_;
  const int64_t wait_ns_;
  Mutex mutex_;
  TaskResult result_ ABSL_GUARDED_BY(mutex_);
  std::vector<Deferred> deferred_ ABSL_GUARDED_BY(mutex_);
  // One for each member, and one for all.
  std::vector<Meeting> meetings_ ABSL_GUARDED_BY(mutex_);
  CondVar met_;
};

// The block that the calling thread runs, for crash records.
struct CurrentBlock {
  uint32_t member;
  uint32_t index;
};
CurrentBlock CurrentBlockOfThread();

}  // namespace pto::kernel_check
