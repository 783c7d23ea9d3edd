#include "runtime/graph/tensor_table.h"

#include <algorithm>
#include <limits>

#include "absl/base/attributes.h"
#include "absl/strings/str_cat.h"
#include "kernels/dtype.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::engine {
namespace {

// Records refer to each other with 32-bit indices.
constexpr uint64_t kMaxTensors = std::numeric_limits<uint32_t>::max();

ABSL_ATTRIBUTE_COLD absl::Status UnknownError(absl::string_view what, uint32_t index,
                                              size_t count) {
  return Error(reason::kTensorInvalid,
               absl::StrCat("there is no ", what, " ", index, ", only ", count))
      .At(what)
      .With("have", count)
      .With("want", index);
}

}  // namespace

uint32_t TensorTable::AddSlot(absl::string_view name, TextTable& text) {
  auto [it, is_new] =
      slot_by_name_.try_emplace(std::string(name), static_cast<uint32_t>(slots_.size()));
  if (is_new) {
    ImageSlot slot;
    slot.name = text.Add(name);
    slots_.push_back(slot);
    uses_.emplace_back();
  }
  return it->second;
}

absl::StatusOr<uint32_t> TensorTable::AddLayout(uint32_t dtype, absl::Span<const int64_t> shape,
                                                absl::Span<const int64_t> strides) {
  PTO_ASSIGN_OR_RETURN(const Layout layout, MakeLayout(dtype, shape, strides));
  layouts_.push_back(layout);
  const uint64_t element = kernels::DtypeSize(dtype);
  sizes_.push_back({element, static_cast<uint64_t>(layout.extent) * element});
  return static_cast<uint32_t>(layouts_.size() - 1);
}

absl::StatusOr<uint32_t> TensorTable::AddTensor(uint32_t slot, uint32_t layout, int64_t offset) {
  if (slot >= slots_.size()) return UnknownError("buffer", slot, slots_.size());
  if (layout >= layouts_.size()) return UnknownError("layout", layout, layouts_.size());
  if (tensors_.size() >= kMaxTensors) {
    return Error(reason::kGraphTooLarge, "the graph has more tensors than can be numbered");
  }
  if (!IsOffset(offset)) return BytesNeeded(layouts_[layout], offset).status();
  const Size& size = sizes_[layout];
  const uint64_t bytes =
      size.extent == 0 ? 0 : static_cast<uint64_t>(offset) * size.element + size.extent;
  const auto index = static_cast<uint32_t>(tensors_.size());
  if (bytes > slots_[slot].min_bytes) {
    slots_[slot].min_bytes = bytes;
    slots_[slot].largest_tensor = index;
  }
  tensors_.push_back({slot, layout, offset});
  return index;
}

void TensorTable::AddKernel(const pto_kernel_info& info) {
  kernels_.push_back({&info, static_cast<uint32_t>(args_of_kernels_.size()), info.argument_count});
  for (uint32_t i = 0; i < info.argument_count; ++i) {
    const uint32_t direction = info.arguments[i].direction;
    Arg arg;
    arg.used = direction != PTO_NO_DEPENDENCY;
    arg.writes = direction != PTO_INPUT;
    args_of_kernels_.push_back(arg);
  }
}

pto_tensor TensorTable::Described(uint32_t tensor) const {
  const Layout& layout = layouts_[tensors_[tensor].layout];
  pto_tensor described;
  described.data = nullptr;
  described.dtype = layout.dtype;
  described.ndim = layout.ndim;
  std::copy(layout.shape.begin(), layout.shape.end(), described.shape);
  std::copy(layout.strides.begin(), layout.strides.end(), described.strides);
  return described;
}

absl::Status TensorTable::AskKernel(const Kernel& kernel, absl::Span<const uint32_t> args) {
  const pto_kernel_info& info = *kernel.info;
  if (info.check != nullptr) {
    pto_tensor described[PTO_MAX_ARGS];
    for (size_t i = 0; i < args.size(); ++i) described[i] = Described(args[i]);
    char message[512] = "";
    if (info.check(described, info.argument_count, message, sizeof message) != 0) {
      message[sizeof message - 1] = '\0';
      return Error(reason::kArgumentInvalid,
                   *message != '\0' ? absl::string_view(message) : "the kernel refuses its tensors")
          .At("args")
          .With("kernel", info.name);
    }
  }
  for (size_t i = 0; i < args.size(); ++i) {
    Arg& accepted = args_of_kernels_[kernel.first_arg + i];
    accepted.layout = tensors_[args[i]].layout;
    accepted.size = sizes_[accepted.layout];
  }
  return absl::OkStatus();
}

absl::Status TensorTable::CheckArgs(uint32_t kernel_index, absl::Span<const uint32_t> args) {
  const Kernel& kernel = kernels_[kernel_index];
  const pto_kernel_info& info = *kernel.info;
  if (args.size() != info.argument_count) {
    return Error(reason::kArgumentCount,
                 absl::StrCat("kernel '", info.name, "' takes ", info.argument_count,
                              " tensors, not ", args.size()))
        .At("args")
        .With("kernel", info.name)
        .With("have", args.size())
        .With("want", info.argument_count);
  }
  bool all_accepted = !args.empty();
  for (size_t i = 0; i < args.size(); ++i) {
    const auto field = [i] { return absl::StrCat("args[", i, "]"); };
    if (args[i] >= tensors_.size()) {
      return Error(reason::kTensorUnknown,
                   absl::StrCat("there is no tensor ", args[i], ", only ", tensors_.size()))
          .At(field())
          .With("tensor", args[i]);
    }
    const ImageTensor& tensor = tensors_[args[i]];
    if (tensor.layout == args_of_kernels_[kernel.first_arg + i].layout) continue;
    all_accepted = false;
    const uint32_t dtype = layouts_[tensor.layout].dtype;
    if ((info.arguments[i].dtypes & PTO_DTYPE_BIT(dtype)) == 0) {
      return Error(reason::kDtypeUnsupported,
                   absl::StrCat("kernel '", info.name, "' does not take ",
                                kernels::DtypeName(dtype), " as '", info.arguments[i].name, "'"))
          .At(field())
          .With("kernel", info.name)
          .With("argument", info.arguments[i].name)
          .With("dtype", kernels::DtypeName(dtype));
    }
  }
  return all_accepted ? absl::OkStatus() : AskKernel(kernel, args);
}

absl::Status TensorTable::Place(const pto_kernel_info& info, uint32_t chip, uint32_t tensor,
                                const TextTable& text) {
  ImageSlot& slot = slots_[tensors_[tensor].slot];
  if (slot.chip == chip) return absl::OkStatus();
  if (info.control != PTO_CONTROL_NONE) {
    // The engine can access all chips.
    if (slot.chip == ImageSlot::kUnused) slot.chip = ImageSlot::kAnyChip;
    return absl::OkStatus();
  }
  if (slot.chip == ImageSlot::kUnused || slot.chip == ImageSlot::kAnyChip) {
    slot.chip = chip;
    return absl::OkStatus();
  }
  return Error(reason::kBufferOnOtherChip,
               absl::StrCat("buffer '", text.Get(slot.name), "' is used on chips/", slot.chip,
                            " and on chips/", chip))
      .With("have", absl::StrCat("chips/", slot.chip))
      .With("want", absl::StrCat("chips/", chip));
}

absl::Status TensorTable::AddArgs(uint32_t kernel, uint32_t chip, absl::Span<const uint32_t> args,
                                  const TextTable& text) {
  for (size_t i = 0; i < args.size(); ++i) {
    absl::Status placed = Place(*kernels_[kernel].info, chip, args[i], text);
    if (!placed.ok()) return PrefixField(placed, absl::StrCat("args[", i, "]"));
  }
  args_.append(args);
  return absl::OkStatus();
}

void TensorTable::UseArgs(uint32_t kernel, absl::Span<const uint32_t> args,
                          uint32_t no_dependency_args) {
  for (size_t i = 0; i < args.size(); ++i) {
    const ImageTensor& tensor = tensors_[args[i]];
    // The layouts are those of the kernel's last arguments.
    const Arg& arg = args_of_kernels_[kernels_[kernel].first_arg + i];
    if ((no_dependency_args >> i & 1) == 0) {
      Use(tensor, arg);
    } else if (arg.used && arg.size.extent > 0) {
      uses_[tensor.slot].unordered.Extend(BytesOf(tensor, arg));
    }
  }
}

absl::Status TensorTable::AddRead(uint32_t kernel, uint32_t chip, uint32_t tensor,
                                  const TextTable& text) {
  PTO_RETURN_IF_ERROR(Place(*kernels_[kernel].info, chip, tensor, text));
  Arg read;
  read.used = true;
  read.size = sizes_[tensors_[tensor].layout];
  Use(tensors_[tensor], read);
  return absl::OkStatus();
}

void TensorTable::Write(ImageWriter& writer, ImageHeader& header) const {
  header.slots = writer.Add(slots_);
  header.slot_uses = writer.Add(uses_);
  header.layouts = writer.Add(layouts_);
  header.tensors = writer.Add(tensors_);
  header.args = writer.Add(args_);
}

}  // namespace pto::engine
