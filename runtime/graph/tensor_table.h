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

namespace pto::engine {

// The slots, layouts and tensors of a graph under construction, and how tasks use them. Errors have
// fields relative to the added object.
class TensorTable {
 public:
  uint32_t AddSlot(absl::string_view name, TextTable& text);
  absl::StatusOr<uint32_t> AddLayout(uint32_t dtype, absl::Span<const int64_t> shape,
                                     absl::Span<const int64_t> strides);
  absl::StatusOr<uint32_t> AddTensor(uint32_t slot, uint32_t layout, int64_t offset);
  // `info` must outlive the table.
  void AddKernel(const pto_kernel_info& info);

  size_t tensor_count() const { return tensors_.size(); }
  const ImageTensor& tensor(uint32_t index) const { return tensors_[index]; }
  const Layout& layout(uint32_t index) const { return layouts_[index]; }
  // The description of a tensor that a kernel gets before it runs.
  pto_tensor Described(uint32_t tensor) const;
  // The tensor's offset in its slot.
  int64_t FirstByte(uint32_t tensor) const { return FirstByte(tensors_[tensor]); }
  int64_t FirstByte(const ImageTensor& tensor) const {
    return tensor.offset * static_cast<int64_t>(sizes_[tensor.layout].element);
  }
  // From the tensor's first byte to its last, including gaps.
  ByteRange Bytes(const ImageTensor& tensor) const {
    const Size& size = sizes_[tensor.layout];
    const uint64_t begin = static_cast<uint64_t>(tensor.offset) * size.element;
    return {begin, begin + size.extent};
  }

  // Adds the arguments of a task if they are like the last ones of its kernel: same layouts, same
  // chip. They are then valid, except that they may overlap. Otherwise returns false, and the
  // caller has to use the functions below.
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

  // Whether the kernel accepts the tensors. Call for each kernel of a task.
  absl::Status CheckArgs(uint32_t kernel, absl::Span<const uint32_t> args);
  // Adds checked arguments of a task that runs that kernel on the chip.
  absl::Status AddArgs(uint32_t kernel, uint32_t chip, absl::Span<const uint32_t> args,
                       const TextTable& text);
  // Records that the kernel reads and writes the tensors, except those whose bit is set.
  void UseArgs(uint32_t kernel, absl::Span<const uint32_t> args, uint32_t no_dependency_args);
  // Records that a task of that kernel on the chip reads another tensor. Errors have no field.
  absl::Status AddRead(uint32_t kernel, uint32_t chip, uint32_t tensor, const TextTable& text);
  uint32_t arg_count() const { return static_cast<uint32_t>(args_.size()); }

  void Write(ImageWriter& writer, ImageHeader& header) const;

 private:
  static constexpr uint32_t kNoLayout = 0xffffffff;
  // Sizes of a layout, in bytes.
  struct Size {
    uint64_t element = 0;
    uint64_t extent = 0;
  };
  // An argument of a kernel, and its last tensor.
  struct Arg {
    uint32_t layout = kNoLayout;
    bool used = false;  // in a way that creates dependencies
    bool writes = false;
    Size size;
  };
  struct Kernel {
    const pto_kernel_info* info = nullptr;
    uint32_t first_arg = 0;  // in args_of_kernels_
    uint32_t arg_count = 0;
  };

  // Calls the kernel's check function for tensors of supported types.
  absl::Status AskKernel(const Kernel& kernel, absl::Span<const uint32_t> args);
  // Determines the chip of the tensor's memory. Errors have no field.
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
  std::vector<SlotUse> uses_;  // of each slot
  absl::flat_hash_map<std::string, uint32_t> slot_by_name_;
  std::vector<Layout> layouts_;
  std::vector<Size> sizes_;  // of each layout
  BigVector<ImageTensor> tensors_;
  BigVector<uint32_t> args_;
};

}  // namespace pto::engine
