#include "runtime/engine/exec/joint_task.h"

#include <algorithm>
#include <cstdint>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"
#include "runtime/base/ticks.h"
#include "runtime/engine/exec/kernel_api.h"
#include "runtime/engine/exec/kernel_call.h"
#include "runtime/engine/exec/stop_note.h"
#include "runtime/engine/exec/worker.h"
#include "runtime/engine/run/task_data.h"
#include "runtime/graph/plan_check.h"

namespace pto::engine {
namespace {

// There are so few of them that a call of memcmp would take longer.
bool Same(const uint32_t* a, const uint32_t* b, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (a[i] != b[i]) return false;
  }
  return true;
}

}  // namespace

void JointTask::Do(Worker& worker, Completions&) { worker.RunJoint(*this); }

void JointTask::Renew(Run& next, uint32_t task) {
  set_run(next);
  task_ = task;
  places_.clear();
  continued_ = false;
  long_task_ = nullptr;
  // The run may be another one.
  laid_out_ = kNoTask;
  cursor_.store(0, std::memory_order_relaxed);
  made_.store(0, std::memory_order_relaxed);
  failed_.store(false, std::memory_order_relaxed);
  users_.store(1, std::memory_order_relaxed);
}

void JointTask::Rest() {
  if (workspace_bytes_ <= kKeptBytes) return;
  workspace_.reset();
  workspace_bytes_ = 0;
  workspace_charge_ = HostCharge();
}

absl::Status JointTask::MakeWorkspace(uint64_t bytes) {
  workspace_bytes_ = 0;
  workspace_.reset();
  absl::Status room;
  // Small ones stay for the next task, whoever that belongs to.
  if (bytes > kKeptBytes && run().account() != nullptr) {
    workspace_charge_ = HostCharge(run().account()->memory());
    room = workspace_charge_.Resize(bytes, "the workspace of a kernel");
  }
  if (room.ok()) workspace_.reset(new (std::nothrow) std::byte[bytes]);
  if (workspace_ == nullptr) {
    return TaskData::TaskError(reason::kWorkspaceExhausted, run(), task_,
                               absl::StrCat("there are no ", bytes, " bytes for its workspace",
                                            room.ok() ? "" : ": ", room.message()))
        .With("want", bytes);
  }
  workspace_bytes_ = bytes;
  return absl::OkStatus();
}

bool JointTask::Fits(uint32_t task) const {
  const GraphImage& image = run().image();
  const ImageTask& own = image.tasks()[task_];
  const ImageTask& other = image.tasks()[task];
  // A predicate is looked at when its task could begin, not when it does.
  if (other.traits != own.traits || (other.traits & kTaskPredicated) != 0 ||
      other.core != own.core || other.block_num != own.block_num || other.chip != own.chip ||
      image.kernel(task).plan == nullptr) {
    return false;
  }
  const ImageDetail* const detail = image.detail(task);
  if (detail == nullptr) return true;
  const ImageDetail& own_detail = *image.detail(task_);
  return detail->member_count == own_detail.member_count &&
         Same(image.members(*detail).data(), image.members(own_detail).data(),
              detail->member_count);
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

void JointTask::Show(const ReadyQueue& queue) const {
  CoreView& view = queue.own_view(places_[0].core);
  view.task.store(task_, std::memory_order_relaxed);
  view.followers.store(static_cast<uint32_t>(followers.size()), std::memory_order_relaxed);
  if (!followers.empty()) view.next_follower.store(followers.back(), std::memory_order_relaxed);
}

bool JointTask::IsLaidOut() const {
  if (laid_out_ == kNoTask || plan_.fixed == 0) return false;
  const GraphImage& image = run().image();
  if (image.tasks()[task_].kernel != image.tasks()[laid_out_].kernel) return false;
  // The arguments of one member follow those of the one before.
  if (!Same(image.args(task_).data(), image.args(laid_out_).data(), tensors_.size())) return false;
  pto_scalar scalars[PTO_MAX_SCALARS];
  TaskData::FillScalars(run(), task_, scalars);
  for (uint32_t i = 0; i < context_.scalar_count; ++i) {
    // As bits, whatever they are.
    if (scalars[i].i64 != scalars_[i].i64) return false;
  }
  return true;
}

void JointTask::LayOut() {
  const GraphImage& image = run().image();
  const pto_kernel_info& kernel = image.kernel(task_);
  const ImageDetail* const detail = image.detail(task_);
  const uint32_t member_count = detail == nullptr ? 1 : detail->member_count;
  tensors_.resize(size_t{member_count} * kernel.argument_count);
  members_.resize(member_count);
  for (uint32_t member = 0; member < member_count; ++member) {
    pto_tensor* const own = tensors_.data() + size_t{member} * kernel.argument_count;
    TaskData::FillTensors(run(), task_, member, own);
    members_[member] = own;
  }
  TaskData::FillScalars(run(), task_, scalars_);
}

absl::Status JointTask::Prepare(LongTask* long_task) {
  long_task_ = long_task;
  if (IsLaidOut()) return absl::OkStatus();
  laid_out_ = kNoTask;
  LayOut();
  const GraphImage& image = run().image();
  const pto_kernel_info& kernel = image.kernel(task_);
  std::string refused;
  const void* const kernel_data = image.kernel_data(image.tasks()[task_].kernel);
  if (!MakePlan(kernel, kernel_data, members_, image.tasks()[task_].block_num, scalars_, &plan_,
                &refused)) {
    return TaskData::TaskError(reason::kArgumentInvalid, run(), task_, refused);
  }
  calls_ = plan_.calls == 0 ? blocks() : std::min(plan_.calls, blocks());
  static_assert(kMaxPlanPhases <= kMostPhases);
  if (calls_ > kMostCalls) {
    return TaskData::TaskError(
        reason::kArgumentInvalid, run(), task_,
        absl::StrCat("it has ", calls_, " calls in each phase; at most ", kMostCalls, " can be"));
  }
  if (plan_.workspace_bytes > workspace_bytes_) {
    PTO_RETURN_IF_ERROR(MakeWorkspace(plan_.workspace_bytes));
  }
  context_ = {};
  context_.struct_size = sizeof context_;
  context_.block_count = image.tasks()[task_].block_num;
  context_.core_kind = image.tasks()[task_].core;
  context_.tensor_count = kernel.argument_count;
  context_.scalar_count = kernel.scalar_count;
  context_.scalars = scalars_;
  context_.api = &KernelApi::kTable;
  context_.member_count = static_cast<uint32_t>(members_.size());
  context_.members = members_.data();
  context_.phase_count = plan_.phases;
  context_.workspace = plan_.workspace_bytes == 0 ? nullptr : workspace_.get();
  context_.kernel_data = kernel_data;
  laid_out_ = task_;
  return absl::OkStatus();
}

bool JointTask::Claim(bool from_end, uint32_t* call) {
  uint64_t cursor = cursor_.load(std::memory_order_acquire);
  const uint64_t claim = from_end ? kLastClaim : kFirstClaim;
  do {
    if (claimed(cursor) >= calls_) return false;
  } while (!cursor_.compare_exchange_weak(cursor, cursor + claim, std::memory_order_acq_rel,
                                          std::memory_order_acquire));
  *call = from_end ? calls_ - 1 - claimed_last(cursor) : claimed_first(cursor);
  return true;
}

bool JointTask::late() const {
  return long_task_ != nullptr && long_task_->late.load(std::memory_order_acquire);
}

bool JointTask::stopping() const { return run().stopping() || late(); }

BlockState JointTask::MakeState(Services& services, const BlockTicket& ticket) const {
  BlockState state;
  state.services = &services;
  state.run = &run();
  state.ticket = &ticket;
  state.stop = run().outcome().stop_flag();
  state.long_task = long_task_;
  state.counted = true;
  return state;
}

bool JointTask::MakeCall(const BlockPlace& place, uint32_t phase, BlockTicket& ticket,
                         BlockState& state, pto_context& context) {
  ticket.block = place.block;
  ticket.block_end = place.block + 1;
  ticket.core = place.core;
  ticket.chip = place.chip;
  ticket.member = place.member;
  ticket.phase = phase;
  if (stopping()) {
    if (late()) StopNote::LeaveNext(ticket, *long_task_);
    return false;
  }
  context.block_index = place.block;
  context.chip = place.chip;
  context.core = static_cast<uint32_t>(place.core);
  context.tensors = members_[place.member];
  context.engine = &state;
  context.member_index = place.member;
  context.phase = phase;
  absl::Status error;
  const pto_kernel_info& kernel = run().image().kernel(task_);
  const uint64_t began_ticks = long_task_ == nullptr ? 0 : Ticks();
  const BlockEnd end = CallKernel(kernel, context, state, &error);
  // What a kernel returns that saw its cancel flag is no news, but where it was is.
  if (stopping()) {
    StopNote::Leave(state, began_ticks, std::move(error));
    return false;
  }
  if (end == BlockEnd::kDone) return true;
  run().outcome().AddError(std::move(error));
  return false;
}

void JointTask::MakeAll(Services& services) {
  BlockTicket ticket = TicketOf(places_[0]);
  ticket.phase_count = plan_.phases;
  BlockState state = MakeState(services, ticket);
  for (uint32_t phase = 0; phase < plan_.phases; ++phase) {
    for (uint32_t call = 0; call < calls_; ++call) {
      if (!MakeCall(places_[call], phase, ticket, state, context_)) {
        failed_.store(true, std::memory_order_relaxed);
        return;
      }
      // What one block has asked for is not the next one's.
      if (state.has_rare()) state = MakeState(services, ticket);
    }
  }
}

void JointTask::Make(Services& services, uint32_t call) {
  BlockTicket ticket = TicketOf(places_[call]);
  ticket.phase_count = plan_.phases;
  BlockState state = MakeState(services, ticket);
  pto_context context = context_;
  const uint32_t open = phase(cursor_.load(std::memory_order_relaxed));
  if (!failed() && MakeCall(places_[call], open, ticket, state, context)) return;
  failed_.store(true, std::memory_order_release);
}

bool JointTask::OpenNext() {
  const uint32_t next = phase(cursor_.load(std::memory_order_relaxed)) + 1;
  if (next >= plan_.phases || failed() || stopping()) return false;
  made_.store(0, std::memory_order_relaxed);
  cursor_.store(cursor_at(next), std::memory_order_release);
  return true;
}

void JointTask::SetHelp(uint32_t count) {
  help_count_ = count;
  while (helps_.size() < count) helps_.push_back(std::make_unique<JointHelp>(*this));
}

JointHelp::JointHelp(JointTask& joint) : Errand(joint.run()), joint_(joint) {}

bool JointHelp::Ask() {
  if (asked_.exchange(true, std::memory_order_acq_rel)) return false;
  set_run(joint_.run());
  joint_.Join();
  return true;
}

// Its task may forget it meanwhile.
void JointHelp::Do(Worker& worker, Completions&) { worker.HelpJoint(joint_, *this); }

}  // namespace pto::engine
