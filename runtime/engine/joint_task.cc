#include "runtime/engine/joint_task.h"

#include <cstdint>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/error.h"
#include "runtime/engine/block_state.h"
#include "runtime/engine/kernel_api.h"
#include "runtime/engine/task_data.h"
#include "runtime/engine/worker.h"
#include "runtime/graph/plan_check.h"

namespace pto {

void JointTask::Do(Worker& worker) { worker.RunJoint(*this); }

BlockTicket JointTask::TicketOf(const BlockPlace& place) const {
  BlockTicket ticket;
  ticket.run = &run();
  ticket.task = task_;
  ticket.block = place.block;
  ticket.block_end = place.block + 1;
  ticket.core = place.core;
  ticket.kind = static_cast<pto_core>(run().image().tasks()[task_].core);
  ticket.chip = place.chip;
  ticket.member = place.member;
  return ticket;
}

absl::Status JointTask::Prepare(LongTask* long_task) {
  long_task_ = long_task;
  const GraphImage& image = run().image();
  const pto_kernel_info& kernel = image.kernel(task_);
  const ImageDetail* const detail = image.detail(task_);
  const uint32_t member_count = detail == nullptr ? 1 : detail->member_count;
  tensors_.resize(size_t{member_count} * kernel.argument_count);
  members_.reserve(member_count);
  for (uint32_t member = 0; member < member_count; ++member) {
    pto_tensor* const own = tensors_.data() + size_t{member} * kernel.argument_count;
    const absl::Span<const uint32_t> args = image.args(task_, member);
    for (size_t i = 0; i < args.size(); ++i) TaskData::Fill(run(), args[i], own[i]);
    members_.push_back(own);
  }
  TaskData::FillScalars(run(), task_, scalars_);
  std::string refused;
  if (!MakePlan(kernel, members_, image.tasks()[task_].block_num, scalars_, &plan_, &refused)) {
    return TaskData::TaskError(reason::kArgumentInvalid, run(), task_, refused);
  }
  if (plan_.workspace_bytes > 0) {
    workspace_.reset(new (std::nothrow) std::byte[plan_.workspace_bytes]);
    if (workspace_ == nullptr) {
      return TaskData::TaskError(
                 reason::kWorkspaceExhausted, run(), task_,
                 absl::StrCat("there are no ", plan_.workspace_bytes, " bytes for its workspace"))
          .With("want", plan_.workspace_bytes);
    }
  }
  return absl::OkStatus();
}

bool JointTask::Claim(uint32_t* call) {
  uint64_t cursor = cursor_.load(std::memory_order_acquire);
  do {
    if (static_cast<uint32_t>(cursor) >= places_.size()) return false;
  } while (!cursor_.compare_exchange_weak(cursor, cursor + 1, std::memory_order_acq_rel,
                                          std::memory_order_acquire));
  *call = static_cast<uint32_t>(cursor);
  return true;
}

bool JointTask::stopping() const {
  return run().stopping() ||
         (long_task_ != nullptr && long_task_->late.load(std::memory_order_acquire));
}

void JointTask::Make(Services& services, uint32_t call) {
  if (failed_.load(std::memory_order_relaxed) || stopping()) {
    failed_.store(true, std::memory_order_release);
    return;
  }
  const GraphImage& image = run().image();
  const pto_kernel_info& kernel = image.kernel(task_);
  BlockTicket ticket = TicketOf(places_[call]);
  ticket.phase = phase(cursor_.load(std::memory_order_relaxed));
  ticket.phase_count = plan_.phases;
  BlockState state;
  state.services = &services;
  state.run = &run();
  state.ticket = &ticket;
  state.stop = &run().stop_;
  state.long_task = long_task_;
  state.counted = true;
  pto_context context = {};
  context.struct_size = sizeof context;
  context.block_index = ticket.block;
  context.block_count = image.tasks()[task_].block_num;
  context.chip = ticket.chip;
  context.core = static_cast<uint32_t>(ticket.core);
  context.core_kind = ticket.kind;
  context.tensor_count = kernel.argument_count;
  context.scalar_count = kernel.scalar_count;
  context.tensors = members_[ticket.member];
  context.scalars = scalars_;
  context.api = &KernelApi::kTable;
  context.engine = &state;
  context.member_index = ticket.member;
  context.member_count = static_cast<uint32_t>(members_.size());
  context.members = members_.data();
  context.phase = ticket.phase;
  context.phase_count = ticket.phase_count;
  context.workspace = workspace_.get();
  absl::Status error;
  if (CallKernel(kernel, context, state, &error) == BlockEnd::kDone) return;
  failed_.store(true, std::memory_order_release);
  // What a kernel says that saw its cancel flag is no news.
  if (!stopping()) run().AddError(std::move(error));
}

bool JointTask::OpenNext() {
  const uint32_t next = phase(cursor_.load(std::memory_order_relaxed)) + 1;
  if (next >= plan_.phases || failed() || stopping()) return false;
  made_.store(0, std::memory_order_relaxed);
  cursor_.store(uint64_t{next} << 32, std::memory_order_release);
  return true;
}

JointHelp::JointHelp(JointTask& joint) : Errand(joint.run()), joint_(joint) { joint_.Join(); }

void JointHelp::Do(Worker& worker) {
  worker.HelpJoint(joint_);
  delete this;
}

}  // namespace pto
