#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kernels/pto_kernel.h"
#include "runtime/graph/big_vector.h"
#include "runtime/graph/image.h"
#include "runtime/graph/image_writer.h"
#include "runtime/graph/layout.h"
#include "runtime/graph/slot_use.h"
#include "runtime/graph/text_table.h"

namespace pto {

// The slots, layouts and tensors of a graph that is being built, and what tasks do with them.
// Errors have their field relative to the thing that is added.
class TensorTable {
 public:
  uint32_t AddSlot(absl::string_view name, TextTable& text);
  absl::StatusOr<uint32_t> AddLayout(uint32_t dtype, absl::Span<const int64_t> shape,
                                     absl::Span<const int64_t> strides);
  absl::StatusOr<uint32_t> AddTensor(uint32_t slot, uint32_t layout, int64_t offset);
  // The description must outlive the table.
  void AddKernel(const pto_kernel_info& info);

  size_t tensor_count() const { return tensors_.size(); }
  const ImageTensor& tensor(uint32_t index) const { return tensors_[index]; }
  const Layout& layout(uint32_t index) const { return layouts_[index]; }
  // What a kernel is shown of a tensor before it runs.
  pto_tensor Described(uint32_t tensor) const;
  // Where the tensor is in its slot.
  int64_t FirstByte(uint32_t tensor) const { return FirstByte(tensors_[tensor]); }
  int64_t FirstByte(const ImageTensor& tensor) const {
    return tensor.offset * static_cast<int64_t>(sizes_[tensor.layout].element);
  }
  // From its first byte to behind its last, whatever is in between.
  ByteRange Bytes(const ImageTensor& tensor) const {
    const Size& size = sizes_[tensor.layout];
    const uint64_t begin = static_cast<uint64_t>(tensor.offset) * size.element;
    return {begin, begin + size.extent};
  }

  // Adds the arguments of a task if they are like those that its kernel took last: of the same
  // layouts, on the same chip. Everything about them is right then, except that they may overlap.
  // Otherwise returns false, and they are to be added by the other functions.
  bool AddUsualArgs(uint32_t kernel, uint32_t chip, absl::Span<const uint32_t> args) {
    const Kernel& taken = kernels_[kernel];
    if (args.size() != taken.arg_count) return false;
    const Arg* expected = args_of_kernels_.data() + taken.first_arg;
    uint32_t* added = args_.next(args.size());
    for (const uint32_t arg : args) {
      if (arg >= tensors_.size()) return false;
      const ImageTensor& tensor = tensors_[arg];
      if (tensor.layout != expected->layout || slots_[tensor.slot].chip != chip) return false;
      Use(tensor, *expected++);
      *added++ = arg;
    }
    args_.keep(args.size());
    return true;
  }

  // Whether the kernel takes the tensors. To be asked for each kernel of a task.
  absl::Status CheckArgs(uint32_t kernel, absl::Span<const uint32_t> args);
  // Adds arguments that were found right, of a task of that kernel on the chip.
  absl::Status AddArgs(uint32_t kernel, uint32_t chip, absl::Span<const uint32_t> args,
                       const TextTable& text);
  // The kernel reads and writes them, except those whose bit is set.
  void UseArgs(uint32_t kernel, absl::Span<const uint32_t> args, uint32_t no_dependency_args);
  // A task of that kernel on the chip looks at one tensor more. An error has no field.
  absl::Status AddRead(uint32_t kernel, uint32_t chip, uint32_t tensor, const TextTable& text);
  uint32_t arg_count() const { return static_cast<uint32_t>(args_.size()); }

  void Write(ImageWriter& writer, ImageHeader& header) const;

 private:
  static constexpr uint32_t kNoLayout = 0xffffffff;
  // Of a layout, in bytes.
  struct Size {
    uint64_t element = 0;
    uint64_t extent = 0;
  };
  // An argument of a kernel, and the tensor that it took last.
  struct Arg {
    uint32_t layout = kNoLayout;
    bool used = false;  // so that it makes dependencies
    bool writes = false;
    Size size;
  };
  struct Kernel {
    const pto_kernel_info* info = nullptr;
    uint32_t first_arg = 0;  // in args_of_kernels_
    uint32_t arg_count = 0;
  };

  // Lets the kernel look at its tensors, whose types it takes.
  absl::Status AskKernel(const Kernel& kernel, absl::Span<const uint32_t> args);
  // Says which chip the tensor's memory is on. An error has no field.
  absl::Status Place(const pto_kernel_info& info, uint32_t chip, uint32_t tensor,
                     const TextTable& text);
  void Use(const ImageTensor& tensor, const Arg& arg) {
    if (!arg.used || arg.size.extent == 0) return;
    SlotUse& use = uses_[tensor.slot];
    (arg.writes ? use.written : use.read).Extend(BytesOf(tensor, arg));
  }
  static ByteRange BytesOf(const ImageTensor& tensor, const Arg& arg) {
    const uint64_t begin = static_cast<uint64_t>(tensor.offset) * arg.size.element;
    return {begin, begin + arg.size.extent};
  }

  std::vector<Kernel> kernels_;
  std::vector<Arg> args_of_kernels_;
  std::vector<ImageSlot> slots_;
  std::vector<SlotUse> uses_;  // of the slots
  absl::flat_hash_map<std::string, uint32_t> slot_by_name_;
  std::vector<Layout> layouts_;
  std::vector<Size> sizes_;  // of the layouts
  BigVector<ImageTensor> tensors_;
  BigVector<uint32_t> args_;
};

}  // namespace pto
