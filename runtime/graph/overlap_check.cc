#include "runtime/graph/overlap_check.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "kernels/dtype.h"
#include "kernels/kernel_info.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"
#include "runtime/graph/work_error.h"

namespace pto::engine {
namespace {

bool IsWritten(const pto_kernel_info& kernel, uint32_t argument) {
  const pto_direction direction = kernel.arguments[argument].direction;
  return direction == PTO_OUTPUT || direction == PTO_INOUT;
}

bool IsRead(const pto_kernel_info& kernel, uint32_t argument) {
  const pto_direction direction = kernel.arguments[argument].direction;
  return direction == PTO_INPUT || direction == PTO_INOUT;
}

// The overlaps that the kernel supports for an argument that it writes.
std::string HintFor(const pto_kernel_info& kernel, uint32_t argument, bool alone) {
  const auto names = [&](uint32_t set) {
    std::vector<std::string> names;
    for (uint32_t i = 0; i < kernel.argument_count; ++i) {
      if ((set >> i & 1) != 0) names.push_back(absl::StrCat("'", kernel.arguments[i].name, "'"));
    }
    return absl::StrJoin(names, " or ");
  };
  const absl::string_view name = kernel.arguments[argument].name;
  const uint32_t same = OverlapOf(kernel, argument).same;
  if (same == 0) {
    return absl::StrCat("'", name, "' of '", kernel.name, "' needs its own memory");
  }
  if (!alone) return "in a task with launch.vector_kernels, no argument may be written in place";
  return absl::StrCat("'", name, "' of '", kernel.name, "' may be exactly the same view as ",
                      names(same), "; otherwise it needs its own memory");
}

Error PairError(const pto_kernel_info& kernel, const ArgumentPair& pair, bool alone,
                absl::string_view task, absl::string_view where) {
  const absl::string_view written = kernel.arguments[pair.written].name;
  const absl::string_view other = kernel.arguments[pair.other].name;
  return Error(reason::kArgumentsOverlap,
               absl::StrCat(task, "'", written, "' of kernel '", kernel.name, "' overlaps '", other,
                            "'", where,
                            pair.may_be_same && alone ? ", and is not the same view" : ""))
      .With("kernel", kernel.name)
      .With("argument", written)
      .With("other", other)
      .Hint(HintFor(kernel, pair.written, alone));
}

// "task 'name': ", or nothing when it has no name.
std::string TaskText(absl::string_view name) {
  return name.empty() ? std::string() : absl::StrCat("task '", name, "': ");
}

}  // namespace

std::vector<ArgumentPair> FindArgumentPairs(const pto_kernel_info& kernel) {
  std::vector<ArgumentPair> pairs;
  for (uint32_t i = 0; i < kernel.argument_count; ++i) {
    if (!IsWritten(kernel, i)) continue;
    const pto_overlap_info overlap = OverlapOf(kernel, i);
    for (uint32_t j = 0; j < kernel.argument_count; ++j) {
      const bool both_written = IsWritten(kernel, j);
      if (j == i || !(IsRead(kernel, j) || both_written)) continue;
      // If both arguments are written, the declaration of either one is enough.
      if (both_written && j > i) continue;
      const pto_overlap_info back = both_written ? OverlapOf(kernel, j) : pto_overlap_info{0, 0};
      if ((overlap.any >> j & 1) != 0 || (back.any >> i & 1) != 0) continue;
      const bool same = (overlap.same >> j & 1) != 0 || (back.same >> i & 1) != 0;
      pairs.push_back({i, j, same});
    }
  }
  return pairs;
}

bool IsSameView(const Layout& a, const Layout& b) {
  if (a.dtype != b.dtype || a.ndim != b.ndim) return false;
  for (uint32_t i = 0; i < a.ndim; ++i) {
    if (a.shape[i] != b.shape[i]) return false;
    if (a.shape[i] > 1 && a.strides[i] != b.strides[i]) return false;
  }
  return true;
}

bool HasOverlappingElements(const Layout& layout) {
  if (layout.extent == 0) return false;
  // Sorted by increasing stride. An element counts as one byte.
  struct Dim {
    int64_t size, stride;
  };
  std::array<Dim, PTO_MAX_DIMS> dims;
  uint32_t count = 0;
  for (uint32_t i = 0; i < layout.ndim; ++i) {
    if (layout.shape[i] == 1) continue;
    uint32_t at = count++;
    for (; at > 0 && dims[at - 1].stride > layout.strides[i]; --at) dims[at] = dims[at - 1];
    dims[at] = {layout.shape[i], layout.strides[i]};
  }
  std::array<int64_t, PTO_MAX_DIMS> shape, strides;
  int64_t reach = 0;  // from the first to the last element of the dimensions so far
  for (uint32_t i = 0; i < count; ++i) {
    shape[i] = dims[i].size;
    strides[i] = dims[i].stride;
    // Steps longer than everything inside this dimension cannot cause an overlap.
    if (dims[i].stride <= reach) {
      const auto part = [&](uint32_t ndim) {
        return MakeFootprint(*MakeLayout(PTO_U8, absl::MakeConstSpan(shape.data(), ndim),
                                         absl::MakeConstSpan(strides.data(), ndim)));
      };
      const Footprint inside = part(i);
      shape[i] = dims[i].size - 1;
      const Footprint others = part(i + 1);
      shape[i] = dims[i].size;
      if (Overlaps(inside, 0, others, dims[i].stride)) return true;
    }
    reach += (dims[i].size - 1) * dims[i].stride;
  }
  return false;
}

void OverlapCheck::AddKernel(const pto_kernel_info& info) {
  const std::vector<ArgumentPair> pairs = FindArgumentPairs(info);
  kernels_.push_back(
      {&info, static_cast<uint32_t>(pairs_.size()), static_cast<uint32_t>(pairs.size())});
  pairs_.insert(pairs_.end(), pairs.begin(), pairs.end());
}

OverlapCheck::KnownLayout& OverlapCheck::Known(uint32_t layout) {
  if (layout >= layouts_.size()) layouts_.resize(layout + 1);
  return layouts_[layout];
}

bool OverlapCheck::Overlap(const ImageTensor& a, const ImageTensor& b, const TensorTable& tensors) {
  for (const uint32_t layout : {a.layout, b.layout}) {
    KnownLayout& known = Known(layout);
    if (!known.footprint.has_value()) known.footprint = MakeFootprint(tensors.layout(layout));
  }
  return Overlaps(*layouts_[a.layout].footprint, tensors.FirstByte(a),
                  *layouts_[b.layout].footprint, tensors.FirstByte(b));
}

bool OverlapCheck::OverlapsItself(const ImageTensor& tensor, const TensorTable& tensors) {
  KnownLayout& known = Known(tensor.layout);
  if (!known.overlaps_itself.has_value()) {
    known.overlaps_itself = HasOverlappingElements(tensors.layout(tensor.layout));
  }
  return *known.overlaps_itself;
}

absl::Status OverlapCheck::CheckArgs(uint32_t kernel, absl::Span<const uint32_t> args,
                                     const TaskInput& task, const TensorTable& tensors) {
  const pto_kernel_info& info = *kernels_[kernel].info;
  const bool alone = task.vector_kernels.empty();
  for (uint32_t i = 0; i < info.argument_count; ++i) {
    if (!IsWritten(info, i) || (OverlapOf(info, i).any >> i & 1) != 0) continue;
    if (!OverlapsItself(tensors.tensor(args[i]), tensors)) continue;
    const absl::string_view name = info.arguments[i].name;
    return Error(reason::kArgumentsOverlap,
                 absl::StrCat(TaskText(task.name), "elements of '", name, "' of kernel '",
                              info.name, "', which writes it, overlap each other"))
        .At(absl::StrCat("args[", i, "]"))
        .With("kernel", info.name)
        .With("argument", name)
        .With("other", name)
        .Hint("use strides that do not make elements overlap");
  }
  const ArgumentPair* const pairs = pairs_.data() + kernels_[kernel].first_pair;
  for (const ArgumentPair& pair : absl::MakeConstSpan(pairs, kernels_[kernel].pair_count)) {
    const ImageTensor& a = tensors.tensor(args[pair.written]);
    const ImageTensor& b = tensors.tensor(args[pair.other]);
    if (a.slot != b.slot || !tensors.Bytes(a).Overlaps(tensors.Bytes(b))) continue;
    if (pair.may_be_same && alone && tensors.FirstByte(a) == tensors.FirstByte(b) &&
        IsSameView(tensors.layout(a.layout), tensors.layout(b.layout))) {
      continue;
    }
    if (!Overlap(a, b, tensors)) {
      const Relation relation = {a.layout, b.layout, tensors.FirstByte(b) - tensors.FirstByte(a)};
      apart_[relation.index()] = relation;
      continue;
    }
    return PairError(info, pair, alone, TaskText(task.name), "")
        .At(absl::StrCat("args[", pair.written, "]"));
  }
  return absl::OkStatus();
}

absl::Status OverlapCheck::CheckTask(const TaskInput& task, const TensorTable& tensors) {
  const auto check = [&](absl::Span<const uint32_t> args) -> absl::Status {
    PTO_RETURN_IF_ERROR(CheckArgs(task.kernel, args, task, tensors));
    for (const uint32_t kernel : task.vector_kernels) {
      PTO_RETURN_IF_ERROR(CheckArgs(kernel, args, task, tensors));
    }
    return absl::OkStatus();
  };
  // Members are on different chips, so their memory is disjoint.
  if (task.members.empty()) return check(task.args);
  for (size_t i = 0; i < task.members.size(); ++i) {
    absl::Status right = check(task.members[i].args);
    if (!right.ok()) return PrefixField(right, absl::StrCat("members[", i, "]."));
  }
  return absl::OkStatus();
}

namespace {

// Checks the tasks of an image for the given places of its slots.
class LaunchedOverlaps {
 public:
  LaunchedOverlaps(const GraphImage& image, const SlotPlaces& places, WorkBudget budget)
      : image_(image), places_(places), budget_(std::move(budget)) {
    for (uint32_t i = 0; i < image.kernels().size(); ++i) {
      pairs_.push_back(FindArgumentPairs(image.kernel_info(i)));
    }
    for (const Layout& layout : image.layouts()) footprints_.push_back(MakeFootprint(layout));
  }

  absl::Status Check() {
    for (uint32_t task = 0; task < image_.task_count(); ++task) {
      const ImageDetail* const detail = image_.detail(task);
      const uint32_t members = detail == nullptr ? 1 : detail->member_count;
      budget_.EarnTask(uint64_t{members} * image_.args(task).size(), 0);
      if (!budget_.Spend(members)) return WorkError(budget_, task, "buffers");
      const uint32_t own = image_.tasks()[task].kernel;
      if (detail == nullptr) {
        PTO_RETURN_IF_ERROR(CheckArgs(task, own, image_.args(task), true));
        continue;
      }
      const bool alone = (image_.tasks()[task].traits & kTaskMixed) == 0;
      for (uint32_t member = 0; member < detail->member_count; ++member) {
        const absl::Span<const uint32_t> args = image_.args(task, member);
        PTO_RETURN_IF_ERROR(CheckArgs(task, own, args, alone));
        for (const uint32_t kernel : detail->vector_kernels) {
          if (kernel == ImageDetail::kNone) continue;
          PTO_RETURN_IF_ERROR(CheckArgs(task, kernel, args, alone));
        }
      }
    }
    return absl::OkStatus();
  }

 private:
  int64_t FirstByte(const ImageTensor& tensor) const {
    const auto element =
        static_cast<int64_t>(kernels::DtypeSize(image_.layouts()[tensor.layout].dtype));
    return static_cast<int64_t>(places_[tensor.slot].offset) + tensor.offset * element;
  }

  absl::Status CheckArgs(uint32_t task, uint32_t kernel, absl::Span<const uint32_t> args,
                         bool alone) {
    for (const ArgumentPair& pair : pairs_[kernel]) {
      const ImageTensor& a = image_.tensors()[args[pair.written]];
      const ImageTensor& b = image_.tensors()[args[pair.other]];
      // Arguments in the same slot were checked when the graph was built.
      if (a.slot == b.slot || places_[a.slot].space != places_[b.slot].space) continue;
      const int64_t a_begin = FirstByte(a);
      const int64_t b_begin = FirstByte(b);
      if (pair.may_be_same && alone && a_begin == b_begin &&
          IsSameView(image_.layouts()[a.layout], image_.layouts()[b.layout])) {
        continue;
      }
      uint64_t steps = 0;
      const bool overlap =
          Overlaps(footprints_[a.layout], a_begin, footprints_[b.layout], b_begin, &steps);
      if (!budget_.Spend(steps)) return WorkError(budget_, task, "buffers");
      if (!overlap) continue;
      const absl::string_view name = image_.task_name(task);
      const absl::string_view a_slot = image_.text(image_.slots()[a.slot].name);
      const absl::string_view b_slot = image_.text(image_.slots()[b.slot].name);
      return PairError(image_.kernel_info(kernel), pair, alone,
                       absl::StrCat("task ", task,
                                    name.empty() ? "" : absl::StrCat(" '", name, "'"), ": "),
                       absl::StrCat(" where slots '", a_slot, "' and '", b_slot, "' are bound"))
          .At("buffers")
          .With("task", task)
          .With("slot", a_slot)
          .With("other_slot", b_slot);
    }
    return absl::OkStatus();
  }

  const GraphImage& image_;
  const SlotPlaces& places_;
  WorkBudget budget_;
  std::vector<std::vector<ArgumentPair>> pairs_;  // of each kernel
  std::vector<Footprint> footprints_;             // of each layout
};

}  // namespace

absl::Status CheckOverlaps(const GraphImage& image, const SlotPlaces& places,
                           WorkBudget::Cancelled cancelled) {
  return LaunchedOverlaps(image, places, WorkBudget(std::move(cancelled))).Check();
}

}  // namespace pto::engine
