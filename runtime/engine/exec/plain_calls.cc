#include "runtime/engine/exec/plain_calls.h"

#include <utility>

#include "runtime/engine/exec/kernel_api.h"
#include "runtime/engine/run/task_data.h"

namespace pto::engine {

PlainCalls::PlainCalls(Services& services, const BlockTicket& ticket) : ticket_(ticket) {
  state_.services = &services;
  state_.run = ticket.run;
  state_.ticket = &ticket_;
  state_.stop = ticket.run->outcome().stop_flag();
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
  context_.kernel_data = ticket_.run->image().kernel_data(kernel);
  has_data_ = kernel_->argument_count > 0 || kernel_->scalar_count > 0;
  for (uint32_t i = 0; i < kernel_->argument_count; ++i) laid_out_[i].layout = kNothing;
}

inline void PlainCalls::FillTensor(uint32_t tensor, uint32_t argument) {
  const ImageTensor& record = ticket_.run->image().tensors()[tensor];
  LaidOut& laid_out = laid_out_[argument];
  if (record.layout != laid_out.layout || record.slot != laid_out.slot) [[unlikely]] {
    TaskData::Fill(*ticket_.run, tensor, tensors_[argument]);
    laid_out.layout = record.layout;
    laid_out.slot = record.slot;
    laid_out.element_bytes = kernels::DtypeSize(tensors_[argument].dtype);
    auto* const data = static_cast<std::byte*>(tensors_[argument].data);
    laid_out.start = data == nullptr
                         ? nullptr
                         : data - static_cast<uint64_t>(record.offset) * laid_out.element_bytes;
    return;
  }
  if (laid_out.start == nullptr) return;
  tensors_[argument].data =
      laid_out.start + static_cast<uint64_t>(record.offset) * laid_out.element_bytes;
}

void PlainCalls::FillData() {
  const absl::Span<const uint32_t> args = ticket_.run->image().args(ticket_.task);
  for (uint32_t i = 0; i < args.size(); ++i) FillTensor(args[i], i);
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

}  // namespace pto::engine
