#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "kernels/pto_kernel.h"
#include "runtime/engine/exec/block_state.h"
#include "runtime/engine/exec/kernel_call.h"
#include "runtime/engine/run/block_ticket.h"
#include "runtime/graph/image.h"

namespace pto::engine {

// Calls the kernels of plain tasks of one run, one after the other on one core. What is the same
// for all of them is laid out once: for a short kernel it is more work than the call itself. Not
// thread-safe.
//
// It starts a cache line, and so do its tensors: without that a run of short tasks with tensors
// takes 2 % longer.
class alignas(64) PlainCalls {
 public:
  // The ticket may come to stand for other blocks and tasks between calls.
  PlainCalls(Services& services, const BlockTicket& ticket);
  PlainCalls(const PlainCalls&) = delete;
  PlainCalls& operator=(const PlainCalls&) = delete;

  // Calls the kernel of the ticket's first block.
  BlockEnd Call();
  // The same for a task of one block, which is `task`.
  BlockEnd CallOnly(const ImageTask& task) {
    if (task.kernel != kernel_index_) SetKernel(task.kernel);
    if (has_data_) FillData();
    const BlockEnd end = CallKernel(*kernel_, context_, state_, &error_);
    return state_.is_new() ? end : Renew(end);
  }
  // Why the last call failed; once.
  absl::Status TakeError();

 private:
  void SetKernel(uint32_t kernel);
  void FillData();
  void FillTensor(uint32_t tensor, uint32_t argument);
  // Makes the state as new after a call that has used it, and returns how that ended.
  BlockEnd Renew(BlockEnd end);

  const BlockTicket& ticket_;
  uint32_t kernel_index_ = 0;
  const pto_kernel_info* kernel_ = nullptr;
  bool has_data_ = false;  // whether the kernel takes tensors or scalars
  BlockState state_;
  pto_context context_ = {};
  absl::Status error_;
  const pto_tensor* const members_[1] = {tensors_};
  pto_scalar scalars_[PTO_MAX_SCALARS];
  alignas(64) pto_tensor tensors_[PTO_MAX_ARGS];
  // What is laid out in tensors_: most tasks take tensors like those of the one before, elsewhere
  // in the same memory. Only what the kernel has arguments for has a value.
  struct LaidOut {
    uint32_t layout;  // kNothing at first
    uint32_t slot;
    std::byte* start;  // of the slot; nullptr when there is nothing to point to
    uint64_t element_bytes;
  };
  static constexpr uint32_t kNothing = 0xffffffff;
  LaidOut laid_out_[PTO_MAX_ARGS];
};

}  // namespace pto::engine
