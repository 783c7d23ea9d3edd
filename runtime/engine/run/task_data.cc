#include "runtime/engine/run/task_data.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "kernels/strided.h"
#include "runtime/engine/signal/signal_word.h"

namespace pto::engine {
namespace {

// Bytes from the first element of a view to the end of its last.
uint64_t Extent(const pto_tensor& tensor) {
  if (kernels::ElementCount(tensor) == 0) return 0;
  int64_t last = 0;
  for (uint32_t d = 0; d < tensor.ndim; ++d) last += (tensor.shape[d] - 1) * tensor.strides[d];
  return (static_cast<uint64_t>(last) + 1) * kernels::DtypeSize(tensor.dtype);
}

// Calls `use(tensor)` for the tensors of all members until it returns true.
template <typename Use>
bool AnyTensor(const GraphImage& image, uint32_t task, Use use) {
  const uint32_t members = TaskData::MemberCount(image, task);
  for (uint32_t member = 0; member < members; ++member) {
    const absl::Span<const uint32_t> args = image.args(task, member);
    if (std::any_of(args.begin(), args.end(), use)) return true;
  }
  return false;
}

bool Contains(const RunSlot& slot, uintptr_t begin, uint64_t bytes) {
  if (slot.memory == nullptr) return false;
  const auto first = reinterpret_cast<uintptr_t>(slot.memory->data());
  return begin >= first && begin - first <= slot.memory->bytes() &&
         bytes <= slot.memory->bytes() - (begin - first);
}

template <typename T>
bool ElementCompares(const void* data, pto_compare compare, int64_t want) {
  const T have = __atomic_load_n(static_cast<const T*>(data), __ATOMIC_RELAXED);
  if constexpr (sizeof(T) == 8 && T(-1) > T(0)) {
    // Every negative number is smaller than an unsigned word.
    if (want < 0) return compare == PTO_NE || compare == PTO_GT || compare == PTO_GE;
    return Compares(compare, have, static_cast<T>(want));
  } else {
    return Compares(compare, static_cast<int64_t>(have), want);
  }
}

}  // namespace

bool TaskData::Owns(const Run& run, uint32_t task, const pto_tensor& tensor) {
  const uint64_t bytes = Extent(tensor);
  if (bytes == 0) return true;
  const auto begin = reinterpret_cast<uintptr_t>(tensor.data);
  return AnyTensor(run.image(), task, [&](uint32_t arg) {
    return Contains((*run.spec().slots)[run.image().tensors()[arg].slot], begin, bytes);
  });
}

bool TaskData::Notifies(const GraphImage& image, uint32_t task) {
  uint32_t flags = image.kernel(task).flags;
  if ((image.tasks()[task].traits & kTaskMixed) != 0) {
    for (const uint32_t kernel : image.detail(task)->vector_kernels) {
      if (kernel != ImageDetail::kNone) flags |= image.kernel_info(kernel).flags;
    }
  }
  return (flags & PTO_KERNEL_NOTIFIES) != 0;
}

bool TaskData::Holds(const Run& run, const void* address, uint64_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(address);
  return std::any_of(run.spec().slots->begin(), run.spec().slots->end(),
                     [&](const RunSlot& slot) { return Contains(slot, begin, bytes); });
}

bool TaskData::Reaches(const Run& run, uint32_t task, const void* address, uint64_t bytes) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  return AnyTensor(run.image(), task, [&](uint32_t arg) {
    pto_tensor tensor;
    Fill(run, arg, tensor);
    const auto begin = reinterpret_cast<uintptr_t>(tensor.data);
    if (tensor.data == nullptr || at < begin) return false;
    const uint64_t extent = Extent(tensor);
    return at - begin < extent && bytes <= extent - (at - begin);
  });
}

bool TaskData::PredicateHolds(const Run& run, uint32_t task) {
  const ImageDetail* const detail = run.image().detail(task);
  if (detail == nullptr || detail->predicate_tensor == ImageDetail::kNone) return true;
  pto_tensor tensor;
  Fill(run, detail->predicate_tensor, tensor);
  const auto compare = static_cast<pto_compare>(detail->predicate_compare);
  const int64_t want = detail->predicate_value;
  switch (tensor.dtype) {
    case PTO_I8:
      return ElementCompares<int8_t>(tensor.data, compare, want);
    case PTO_I16:
      return ElementCompares<int16_t>(tensor.data, compare, want);
    case PTO_I32:
      return ElementCompares<int32_t>(tensor.data, compare, want);
    case PTO_I64:
      return ElementCompares<int64_t>(tensor.data, compare, want);
    case PTO_U8:
    case PTO_BOOL:
      return ElementCompares<uint8_t>(tensor.data, compare, want);
    case PTO_U16:
      return ElementCompares<uint16_t>(tensor.data, compare, want);
    case PTO_U32:
      return ElementCompares<uint32_t>(tensor.data, compare, want);
    case PTO_U64:
      return ElementCompares<uint64_t>(tensor.data, compare, want);
    default:
      return true;
  }
}

std::string TaskData::NameOf(const Run& run, uint32_t task, const void* address) {
  const GraphImage& image = run.image();
  std::string name;
  const bool found = AnyTensor(image, task, [&](uint32_t arg) {
    pto_tensor tensor;
    Fill(run, arg, tensor);
    const auto at = reinterpret_cast<uintptr_t>(address);
    const auto begin = reinterpret_cast<uintptr_t>(tensor.data);
    if (tensor.data == nullptr || at < begin || at - begin >= Extent(tensor)) return false;
    const ImageTensor& record = image.tensors()[arg];
    name = absl::StrCat(
        "'", image.text(image.slots()[record.slot].name), "'[",
        static_cast<uint64_t>(record.offset) + (at - begin) / kernels::DtypeSize(tensor.dtype),
        "]");
    return true;
  });
  return found ? name : std::string(kElsewhere);
}

uint32_t TaskData::MemberCount(const GraphImage& image, uint32_t task) {
  const ImageDetail* const detail = image.detail(task);
  return detail == nullptr ? 1 : detail->member_count;
}

uint32_t TaskData::NumberOf(const Run& run, uint32_t task) {
  const RunObserver* const observer = run.spec().observer.get();
  return (observer == nullptr ? 0 : observer->first_task()) + task;
}

std::string TaskData::Subject(const Run& run, uint32_t task) {
  const absl::string_view name = run.image().task_name(task);
  std::string subject = absl::StrCat("task ", NumberOf(run, task));
  if (!name.empty()) absl::StrAppend(&subject, " '", name, "'");
  return absl::StrCat(subject, ": ");
}

std::string TaskData::Place(const BlockTicket& ticket) {
  const GraphImage& image = ticket.run->image();
  std::string place =
      absl::StrCat("block ", ticket.block, " of ", image.tasks()[ticket.task].block_num,
                   " on chips/", Chip(image, ticket.task, ticket.member), " core ", ticket.core);
  const uint32_t members = MemberCount(image, ticket.task);
  if (members > 1) absl::StrAppend(&place, ", rank ", ticket.member, " of ", members);
  if (ticket.phase_count > 0) {
    absl::StrAppend(&place, ", phase ", ticket.phase, " of ", ticket.phase_count);
  }
  return place;
}

absl::string_view TaskData::KernelName(const BlockTicket& ticket) {
  const GraphImage& image = ticket.run->image();
  if (ticket.cluster_lane == 0) return image.kernel(ticket.task).name;
  return image.kernel_info(image.detail(ticket.task)->vector_kernels[ticket.cluster_lane - 1]).name;
}

void TaskData::AddPlace(const BlockTicket& ticket, Error* error) {
  const GraphImage& image = ticket.run->image();
  error->With("rank", ticket.member)
      .With("phase", ticket.phase)
      .With("task", NumberOf(*ticket.run, ticket.task))
      .With("task_name", image.task_name(ticket.task))
      .With("kernel", KernelName(ticket))
      .With("block", ticket.block)
      .With("chip", absl::StrCat("chips/", Chip(image, ticket.task, ticket.member)));
  // Tasks without a core have no kind.
  if (ticket.kind != static_cast<pto_core>(0)) error->With("core", ticket.core);
}

Error TaskData::BlockError(const Reason& reason, const BlockTicket& ticket, absl::string_view what,
                           absl::string_view text) {
  Error error(reason,
              absl::StrCat(Subject(*ticket.run, ticket.task), "kernel '", KernelName(ticket), "' ",
                           what, " in ", Place(ticket), text.empty() ? "" : ": ", text));
  AddPlace(ticket, &error);
  return error;
}

Error TaskData::TaskError(const Reason& reason, const Run& run, uint32_t task,
                          absl::string_view text) {
  const GraphImage& image = run.image();
  return Error(reason, absl::StrCat(Subject(run, task), text))
      .With("task", NumberOf(run, task))
      .With("task_name", image.task_name(task))
      .With("kernel", image.kernel(task).name)
      .With("chip", absl::StrCat("chips/", image.tasks()[task].chip));
}

}  // namespace pto::engine
