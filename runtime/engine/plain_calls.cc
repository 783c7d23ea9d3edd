#include "runtime/engine/plain_calls.h"

#include <utility>

#include "runtime/engine/kernel_api.h"
#include "runtime/engine/task_data.h"

namespace pto {

PlainCalls::PlainCalls(Services& services, const BlockTicket& ticket) : ticket_(ticket) {
  state_.services = &services;
  state_.run = ticket.run;
  state_.ticket = &ticket_;
  state_.stop = &ticket.run->stop_;
  context_.struct_size = sizeof context_;
  context_.block_count = 1;
  context_.chip = ticket.chip;
  context_.core = static_cast<uint32_t>(ticket.core);
  context_.core_kind = static_cast<uint32_t>(ticket.kind);
  context_.tensors = tensors_;
  context_.scalars = scalars_;
  context_.api = &KernelApi::kTable;
  context_.engine = &state_;
  context_.member_count = 1;
  context_.members = members_;
  SetKernel(ticket.run->image().tasks()[ticket.task].kernel);
}

void PlainCalls::SetKernel(uint32_t kernel) {
  kernel_index_ = kernel;
  kernel_ = &ticket_.run->image().kernel_info(kernel);
  context_.tensor_count = kernel_->argument_count;
  context_.scalar_count = kernel_->scalar_count;
  has_data_ = kernel_->argument_count > 0 || kernel_->scalar_count > 0;
}

void PlainCalls::FillData() {
  TaskData::FillTensors(*ticket_.run, ticket_.task, 0, tensors_);
  TaskData::FillScalars(*ticket_.run, ticket_.task, scalars_);
}

BlockEnd PlainCalls::Call() {
  const ImageTask& task = ticket_.run->image().tasks()[ticket_.task];
  context_.block_index = ticket_.block;
  context_.block_count = task.block_num;
  state_.counted = task.block_num > 1;
  return CallOnly(task);
}

BlockEnd PlainCalls::Renew(BlockEnd end) {
  if (state_.deferred) end = BlockEnd::kDeferred;
  state_.Renew();
  return end;
}

absl::Status PlainCalls::TakeError() { return std::exchange(error_, absl::OkStatus()); }

}  // namespace pto
