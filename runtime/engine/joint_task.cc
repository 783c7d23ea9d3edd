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

void JointTask::Renew(Run& next, uint32_t task) {
  set_run(next);
  task_ = task;
  places_.clear();
  long_task_ = nullptr;
  if (workspace_bytes_ > kKeptBytes) {
    workspace_.reset();
    workspace_bytes_ = 0;
  }
  cursor_.store(0, std::memory_order_relaxed);
  made_.store(0, std::memory_order_relaxed);
  failed_.store(false, std::memory_order_relaxed);
  users_.store(1, std::memory_order_relaxed);
  helpers.store(0, std::memory_order_relaxed);
}

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
  members_.clear();
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
  if (plan_.workspace_bytes > workspace_bytes_) {
    workspace_bytes_ = 0;
    workspace_.reset(new (std::nothrow) std::byte[plan_.workspace_bytes]);
    if (workspace_ == nullptr) {
      return TaskData::TaskError(
                 reason::kWorkspaceExhausted, run(), task_,
                 absl::StrCat("there are no ", plan_.workspace_bytes, " bytes for its workspace"))
          .With("want", plan_.workspace_bytes);
    }
    workspace_bytes_ = plan_.workspace_bytes;
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

pto_context JointTask::MakeContext() const {
  const GraphImage& image = run().image();
  const pto_kernel_info& kernel = image.kernel(task_);
  pto_context context = {};
  context.struct_size = sizeof context;
  context.block_count = image.tasks()[task_].block_num;
  context.core_kind = image.tasks()[task_].core;
  context.tensor_count = kernel.argument_count;
  context.scalar_count = kernel.scalar_count;
  context.scalars = scalars_;
  context.api = &KernelApi::kTable;
  context.member_count = static_cast<uint32_t>(members_.size());
  context.members = members_.data();
  context.phase_count = plan_.phases;
  context.workspace = plan_.workspace_bytes == 0 ? nullptr : workspace_.get();
  return context;
}

bool JointTask::MakeCall(Services& services, const BlockPlace& place, uint32_t phase,
                         BlockTicket& ticket, pto_context& context) {
  if (stopping()) return false;
  ticket.block = place.block;
  ticket.block_end = place.block + 1;
  ticket.core = place.core;
  ticket.chip = place.chip;
  ticket.member = place.member;
  ticket.phase = phase;
  ticket.phase_count = plan_.phases;
  BlockState state;
  state.services = &services;
  state.run = &run();
  state.ticket = &ticket;
  state.stop = &run().stop_;
  state.long_task = long_task_;
  state.counted = true;
  context.block_index = place.block;
  context.chip = place.chip;
  context.core = static_cast<uint32_t>(place.core);
  context.tensors = members_[place.member];
  context.engine = &state;
  context.member_index = place.member;
  context.phase = phase;
  absl::Status error;
  const pto_kernel_info& kernel = run().image().kernel(task_);
  if (CallKernel(kernel, context, state, &error) == BlockEnd::kDone) return true;
  // What a kernel says that saw its cancel flag is no news.
  if (!stopping()) run().AddError(std::move(error));
  return false;
}

void JointTask::MakeAll(Services& services) {
  BlockTicket ticket = TicketOf(places_[0]);
  pto_context context = MakeContext();
  for (uint32_t phase = 0; phase < plan_.phases; ++phase) {
    bool good = true;
    for (const BlockPlace& place : places_) {
      good = good && MakeCall(services, place, phase, ticket, context);
    }
    if (good) continue;
    failed_.store(true, std::memory_order_relaxed);
    return;
  }
}

void JointTask::Make(Services& services, uint32_t call) {
  BlockTicket ticket = TicketOf(places_[call]);
  pto_context context = MakeContext();
  const uint32_t open = phase(cursor_.load(std::memory_order_relaxed));
  if (!failed() && MakeCall(services, places_[call], open, ticket, context)) return;
  failed_.store(true, std::memory_order_release);
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
