#pragma once

#include <cstdint>
#include <cstring>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "kernels/dtype.h"
#include "kernels/pto_kernel.h"
#include "runtime/base/error.h"
#include "runtime/engine/run/run.h"

namespace pto::engine {

// The arguments of a task, and its description in errors.
class TaskData {
 public:
  // A tensor of the run's image, in the memory that the run was given.
  static void Fill(const Run& run, uint32_t tensor, pto_tensor& out) {
    const GraphImage& image = run.image();
    const ImageTensor& record = image.tensors()[tensor];
    const Layout& layout = image.layouts()[record.layout];
    out.data = nullptr;
    if (layout.extent > 0) {
      const RunSlot& slot = (*run.spec().slots)[record.slot];
      out.data = slot.memory->data() + slot.offset_bytes +
                 static_cast<uint64_t>(record.offset) * kernels::DtypeSize(layout.dtype);
    }
    out.dtype = layout.dtype;
    out.ndim = layout.ndim;
    std::memcpy(out.shape, layout.shape.data(), sizeof out.shape);
    std::memcpy(out.strides, layout.strides.data(), sizeof out.strides);
  }

  // All tensors of a member of a task. `out` must have room for them.
  static void FillTensors(const Run& run, uint32_t task, uint32_t member, pto_tensor* out) {
    const absl::Span<const uint32_t> args = run.image().args(task, member);
    for (size_t i = 0; i < args.size(); ++i) Fill(run, args[i], out[i]);
  }

  // All scalars of a task. `out` must have room for PTO_MAX_SCALARS.
  static void FillScalars(const Run& run, uint32_t task, pto_scalar* out) {
    const GraphImage& image = run.image();
    const absl::Span<const uint32_t> refs = image.scalar_refs(task);
    for (size_t i = 0; i < refs.size(); ++i) {
      const uint64_t bits = refs[i] < run.spec().named_scalars.size()
                                ? run.spec().named_scalars[refs[i]]
                                : image.scalar_values()[refs[i]];
      std::memcpy(&out[i], &bits, sizeof bits);
    }
  }

  static uint32_t Chip(const GraphImage& image, uint32_t task, uint32_t member) {
    return member == 0 ? image.tasks()[task].chip : image.members(*image.detail(task))[member];
  }
  // The number of chips of a task.
  static uint32_t MemberCount(const GraphImage& image, uint32_t task);
  // Whether all memory of the tensor belongs to buffers that the task uses.
  static bool Owns(const Run& run, uint32_t task, const pto_tensor& tensor);

  // Whether a kernel of the task declares that it notifies.
  static bool Notifies(const GraphImage& image, uint32_t task);
  // Whether so many bytes at the address are within one of the task's tensors.
  static bool Reaches(const Run& run, uint32_t task, const void* address, uint64_t bytes = 1);
  // Whether so many bytes at the address are within memory that the run keeps.
  static bool Holds(const Run& run, const void* address, uint64_t bytes);

  // Whether the task must run. True without a predicate.
  static bool PredicateHolds(const Run& run, uint32_t task);

  // "'buffer'[3]" for the element at that address in a tensor of the task; kElsewhere if there is
  // none.
  static constexpr absl::string_view kElsewhere = "memory that is not the task's";
  static std::string NameOf(const Run& run, uint32_t task, const void* address);

  // The task's number in the whole run, if this run is a segment of an open run.
  static uint32_t NumberOf(const Run& run, uint32_t task);

  // "task 3 'name': ", with the number that NumberOf returns.
  static std::string Subject(const Run& run, uint32_t task);
  // "block 0 of 4 on chips/1 core 7", with rank and phase if there are several.
  static std::string Place(const BlockTicket& ticket);
  // Adds place, task and kernel to the details of an error.
  static void AddPlace(const BlockTicket& ticket, Error* error);

  // An error of one block: "task 3 'name': kernel 'k' WHAT in PLACE: TEXT".
  static Error BlockError(const Reason& reason, const BlockTicket& ticket, absl::string_view what,
                          absl::string_view text);
  // The same for a task as a whole, or a task without blocks.
  static Error TaskError(const Reason& reason, const Run& run, uint32_t task,
                         absl::string_view text);

 private:
  static absl::string_view KernelName(const BlockTicket& ticket);
};

}  // namespace pto::engine
