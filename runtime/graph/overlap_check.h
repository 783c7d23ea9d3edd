#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "kernels/pto_kernel.h"
#include "runtime/graph/alias.h"
#include "runtime/graph/footprint.h"
#include "runtime/graph/image.h"
#include "runtime/graph/layout.h"
#include "runtime/graph/task_input.h"
#include "runtime/graph/tensor_table.h"
#include "runtime/graph/work_budget.h"

namespace pto {

// Two arguments of a kernel, at least one of them written, that must not overlap.
struct ArgumentPair {
  uint32_t written = 0;
  uint32_t other = 0;
  bool may_be_same = false;  // the very same view is allowed
};

// All such pairs of a kernel.
std::vector<ArgumentPair> FindArgumentPairs(const pto_kernel_info& kernel);

// Whether two views are the same if their first elements are.
bool IsSameView(const Layout& a, const Layout& b);

// Whether two elements of a view lie in the same place. Exact where Overlaps(Footprint) is; says
// yes where that gives up.
bool HasOverlappingElements(const Layout& layout);

// Refuses tasks whose arguments overlap in a way that their kernels do not support: see
// pto_overlap_info. Part of a graph that is being built. Errors are ARGUMENTS_OVERLAP at
// `args[i]`, the argument that is written.
//
// Most tasks have arguments in different slots, in different parts of one, or the same view twice:
// IsApart finds that out by some comparisons. Only what is left is compared exactly, such as tiles
// of a matrix; these mostly lie to each other as others before, which it remembers.
class OverlapCheck {
 public:
  // Call for all kernels, in order. Their descriptions must outlive the check.
  void AddKernel(const pto_kernel_info& info);

  // Whether there is anything to check in tasks of this kernel.
  bool HasPairs(uint32_t kernel) const { return kernels_[kernel].pair_count > 0; }

  // Whether it is certain that a task of this kernel alone, with tensors of layouts that CheckTask
  // has seen in their places, is right.
  bool IsApart(uint32_t kernel, absl::Span<const uint32_t> args, const TensorTable& tensors) const {
    const Kernel& known = kernels_[kernel];
    const ArgumentPair* pair = pairs_.data() + known.first_pair;
    for (const ArgumentPair* const end = pair + known.pair_count; pair != end; ++pair) {
      const ImageTensor& a = tensors.tensor(args[pair->written]);
      const ImageTensor& b = tensors.tensor(args[pair->other]);
      if (a.slot != b.slot) continue;
      if (a.layout == b.layout && a.offset == b.offset && pair->may_be_same) continue;
      const ByteRange a_bytes = tensors.Bytes(a);
      const ByteRange b_bytes = tensors.Bytes(b);
      if (!a_bytes.Overlaps(b_bytes)) continue;
      const Relation relation = {a.layout, b.layout,
                                 static_cast<int64_t>(b_bytes.begin - a_bytes.begin)};
      if (apart_[relation.index()] != relation) return false;
    }
    return true;
  }

  // Looks at the arguments of a task for all its kernels, on all its chips. Their number and
  // types must have been checked.
  absl::Status CheckTask(const TaskInput& task, const TensorTable& tensors);

 private:
  struct Kernel {
    const pto_kernel_info* info = nullptr;
    uint32_t first_pair = 0;
    uint32_t pair_count = 0;
  };
  // What was found out of a layout.
  struct KnownLayout {
    absl::optional<Footprint> footprint;
    absl::optional<bool> overlaps_itself;
  };

  // How two views lie to each other.
  struct Relation {
    uint32_t a_layout = 0xffffffff;
    uint32_t b_layout = 0xffffffff;
    int64_t distance = 0;  // from the first byte of a to that of b

    bool operator==(const Relation&) const = default;
    size_t index() const {
      const uint64_t mixed = (static_cast<uint64_t>(distance) ^ (uint64_t{a_layout} << 40) ^
                              (uint64_t{b_layout} << 20)) *
                             0x9e3779b97f4a7c15u;
      return mixed >> (64 - kKnownBits);
    }
  };
  static constexpr uint32_t kKnownBits = 8;

  absl::Status CheckArgs(uint32_t kernel, absl::Span<const uint32_t> args, const TaskInput& task,
                         const TensorTable& tensors);
  bool Overlap(const ImageTensor& a, const ImageTensor& b, const TensorTable& tensors);
  bool OverlapsItself(const ImageTensor& tensor, const TensorTable& tensors);
  KnownLayout& Known(uint32_t layout);

  std::vector<Kernel> kernels_;
  std::vector<ArgumentPair> pairs_;
  std::vector<KnownLayout> layouts_;  // as far as they were needed
  // Some of the last ones in which views were apart though their ranges of bytes were not.
  std::array<Relation, size_t{1} << kKnownBits> apart_;
};

// The same for a launch whose slots overlap like `places`, which come from FindAliases: looks at
// arguments in different slots. Errors are ARGUMENTS_OVERLAP at `buffers`, and those of WorkError.
absl::Status CheckOverlaps(const GraphImage& image, const SlotPlaces& places,
                           WorkBudget::Cancelled cancelled = nullptr);

}  // namespace pto
