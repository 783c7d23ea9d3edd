#include "runtime/graph/slot_use.h"

#include "kernels/dtype.h"
#include "runtime/graph/task_access.h"

namespace pto {

std::vector<SlotUse> FindSlotUses(const GraphImage& image) {
  std::vector<SlotUse> uses(image.slots().size());
  if (image.tensors().empty()) return uses;
  // First what becomes of each tensor: there are many more arguments than tensors.
  constexpr uint8_t kRead = 1, kWritten = 2;
  std::vector<uint8_t> marks(image.tensors().size());
  for (uint32_t task = 0; task < image.task_count(); ++task) {
    ForEachAccess(image, task, [&marks](uint32_t tensor, bool writes) {
      marks[tensor] |= writes ? kWritten : kRead;
    });
  }
  for (size_t i = 0; i < marks.size(); ++i) {
    if (marks[i] == 0) continue;
    const ImageTensor& tensor = image.tensors()[i];
    const Layout& layout = image.layouts()[tensor.layout];
    if (layout.extent == 0) continue;
    const uint64_t element = kernels::DtypeSize(layout.dtype);
    const uint64_t begin = static_cast<uint64_t>(tensor.offset) * element;
    const ByteRange bytes = {begin, begin + static_cast<uint64_t>(layout.extent) * element};
    if ((marks[i] & kRead) != 0) uses[tensor.slot].read.Extend(bytes);
    if ((marks[i] & kWritten) != 0) uses[tensor.slot].written.Extend(bytes);
  }
  return uses;
}

}  // namespace pto
