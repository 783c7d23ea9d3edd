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

namespace pto::engine {

// Two arguments of a kernel that must not overlap; at least one of them is written.
struct ArgumentPair {
  uint32_t written = 0;
  uint32_t other = 0;
  bool may_be_same = false;  // identical views are allowed
};

// All such pairs of a kernel.
std::vector<ArgumentPair> FindArgumentPairs(const pto_kernel_info& kernel);

// Whether two views are identical if their first elements are.
bool IsSameView(const Layout& a, const Layout& b);

// Whether two elements of a view share memory. As exact as Overlaps(Footprint); returns true where
// that gives up.
bool HasOverlappingElements(const Layout& layout);

// Rejects tasks whose arguments overlap in a way that their kernels do not support: see
// pto_overlap_info. Used while a graph is built. Errors are ARGUMENTS_OVERLAP at `args[i]`, the
// argument that is written.
//
// In most tasks the arguments are in different slots, in different parts of one slot, or identical
// views; IsApart detects this with a few comparisons. Only the remaining pairs, for example tiles
// of a matrix, are compared exactly. Their relative positions repeat, so the results are cached.
class OverlapCheck {
 public:
  // Call for all kernels, in order of their indices. `info` must outlive the check.
  void AddKernel(const pto_kernel_info& info);

  // Whether tasks of this kernel need a check.
  bool HasPairs(uint32_t kernel) const { return kernels_[kernel].pair_count > 0; }

  // Whether a task of this kernel certainly has no illegal overlap. The task must have no other
  // kernels, and CheckTask must have seen tensors of the same layouts in the same arguments.
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

  // Checks the arguments of a task for all its kernels, on all its chips. Their number and types
  // must already be checked.
  absl::Status CheckTask(const TaskInput& task, const TensorTable& tensors);

 private:
  struct Kernel {
    const pto_kernel_info* info = nullptr;
    uint32_t first_pair = 0;
    uint32_t pair_count = 0;
  };
  // Cached properties of a layout.
  struct KnownLayout {
    absl::optional<Footprint> footprint;
    absl::optional<bool> overlaps_itself;
  };

  // The relative position of two views.
  struct Relation {
    uint32_t a_layout = 0xffffffff;
    uint32_t b_layout = 0xffffffff;
    int64_t distance = 0;  // from the first byte of a to the first byte of b

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
  std::vector<KnownLayout> layouts_;  // only as far as needed
  // A cache of views that are disjoint although their byte ranges overlap.
  std::array<Relation, size_t{1} << kKnownBits> apart_;
};

// The same for a launch whose slots overlap as in `places`, which come from FindAliases: checks
// arguments in different slots. Errors are ARGUMENTS_OVERLAP at `buffers`, and those of WorkError.
absl::Status CheckOverlaps(const GraphImage& image, const SlotPlaces& places,
                           WorkBudget::Cancelled cancelled = nullptr);

}  // namespace pto::engine
