// Random accesses to small memories, checked byte by byte: any two accesses that must not be
// reordered are ordered, and every edge has such a pair.

#include <algorithm>
#include <array>
#include <cstdint>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/dtype.h"
#include "runtime/graph/access_map.h"
#include "runtime/graph/layout.h"

namespace pto::engine {
namespace {

constexpr size_t kMaxBytes = 8192;
constexpr uint32_t kMaxTasks = 64;

struct View {
  uint32_t space = 0;
  Layout layout;
  int64_t offset = 0;  // in elements

  std::vector<uint32_t> bytes;  // touched bytes; may contain duplicates
};

std::string Text(const View& view) {
  std::ostringstream out;
  out << "space " << view.space << " type " << kernels::DtypeName(view.layout.dtype) << " shape";
  for (uint32_t i = 0; i < view.layout.ndim; ++i) out << ' ' << view.layout.shape[i];
  out << " strides";
  for (uint32_t i = 0; i < view.layout.ndim; ++i) out << ' ' << view.layout.strides[i];
  out << " offset " << view.offset;
  return out.str();
}

void FindBytes(View& view) {
  const Layout& layout = view.layout;
  if (layout.extent == 0) return;
  const auto size = static_cast<uint32_t>(kernels::DtypeSize(layout.dtype));
  std::array<int64_t, PTO_MAX_DIMS> at{};
  for (;;) {
    int64_t element = view.offset;
    for (uint32_t i = 0; i < layout.ndim; ++i) element += at[i] * layout.strides[i];
    for (uint32_t i = 0; i < size; ++i) {
      view.bytes.push_back(static_cast<uint32_t>(element) * size + i);
      ASSERT_LT(view.bytes.back(), kMaxBytes);
    }
    uint32_t dim = layout.ndim;
    while (dim > 0 && ++at[dim - 1] == layout.shape[dim - 1]) at[--dim] = 0;
    if (dim == 0) return;
  }
}

// The kinds of views in a case.
enum class Kind {
  kBoxes,   // boxes of one tensor, with the tensor's strides
  kSlices,  // slices of one tensor with steps, dropped and reversed dimensions
  kTiles,   // tiles of a grid, rows, columns and the whole tensor
  kMixed,   // several tensors of several types in the same memory
  kAny,     // any strides, so elements of one view may overlap
  kSizes,   // many views of all sizes, from one element to nearly everything
  kCrowd,   // many overlapping views, mostly read
  kAgain,   // few views, each used many times
};

// Cases with so many views that the index matters.
bool IsLarge(Kind kind) { return kind >= Kind::kSizes; }

class Generator {
 public:
  explicit Generator(uint64_t seed) : state_(seed) {}

  // A number from 0 to limit - 1.
  uint32_t Below(uint32_t limit) {
    // SplitMix64, because it needs no initialisation.
    uint64_t bits = state_ += 0x9e3779b97f4a7c15;
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
    return static_cast<uint32_t>((bits >> 33) % limit);
  }
  bool Chance(uint32_t one_in) { return Below(one_in) == 0; }

  std::vector<View> Views(Kind kind) {
    const uint32_t count = IsLarge(kind) ? 30 + Below(50) : 2 + Below(7);
    std::vector<View> views;
    const Layout whole = Tensor(kind == Kind::kTiles ? 2 : 1 + Below(PTO_MAX_DIMS), Dtype());
    const Layout other = Tensor(1 + Below(PTO_MAX_DIMS), Dtype());
    for (uint32_t i = 0; i < count; ++i) {
      View view;
      switch (kind) {
        case Kind::kBoxes:
          view = Part(whole, false);
          break;
        case Kind::kSlices:
          view = Part(whole, true);
          break;
        case Kind::kTiles:
          view = Tile(whole);
          break;
        case Kind::kMixed:
          view = Part(Chance(2) ? whole : other, Chance(2));
          view.offset += Chance(2) ? Below(8) : 0;
          break;
        case Kind::kAny:
          view = Anything();
          break;
        case Kind::kSizes:
          view = Sized(1u << Below(11), 8000);
          break;
        case Kind::kCrowd:
          view = Chance(4) ? Sized(64, 100) : Sized(1000, 600);
          break;
        case Kind::kAgain:
          view = i < 6 ? Sized(200, 100) : views[Below(6)];
          view.bytes.clear();
          break;
      }
      view.space = Chance(8) && kind != Kind::kAgain ? 3 : 1;
      FindBytes(view);
      views.push_back(view);
    }
    if (Chance(4)) views.push_back(views.front());
    return views;
  }

 private:
  uint32_t Dtype() {
    constexpr uint32_t kTypes[] = {PTO_I8, PTO_F16, PTO_F32, PTO_I64};
    return kTypes[Below(4)];
  }

  // Contiguous, except that rows may have gaps.
  Layout Tensor(uint32_t ndim, uint32_t dtype) {
    std::vector<int64_t> shape, strides(ndim);
    for (uint32_t i = 0; i < ndim; ++i) shape.push_back(1 + Below(ndim < 4 ? 6 : 3));
    int64_t stride = 1;
    for (uint32_t i = ndim; i-- > 0;) {
      strides[i] = stride;
      stride *= shape[i];
      if (Chance(4)) stride += 1 + Below(3);
    }
    return MakeLayout(dtype, shape, strides).value();
  }

  View Part(const Layout& whole, bool steps) {
    View view;
    std::vector<int64_t> shape, strides;
    for (uint32_t i = 0; i < whole.ndim; ++i) {
      const auto size = static_cast<uint32_t>(whole.shape[i]);
      const uint32_t first = Chance(2) ? 0 : Below(size);
      const uint32_t length = Chance(3) ? size - first : 1 + Below(size - first);
      const uint32_t step = steps && Chance(2) ? 1 + Below(3) : 1;
      view.offset += first * whole.strides[i];
      if (steps && Chance(3)) continue;
      shape.push_back(Chance(40) ? 0 : (length + step - 1) / step);
      strides.push_back(whole.strides[i] * step);
    }
    if (steps && Chance(2)) {
      for (size_t i = shape.size(); i > 1; --i) {
        const size_t other = Below(static_cast<uint32_t>(i));
        std::swap(shape[i - 1], shape[other]);
        std::swap(strides[i - 1], strides[other]);
      }
    }
    view.layout = MakeLayout(whole.dtype, shape, strides).value();
    return view;
  }

  View Tile(const Layout& whole) {
    View view;
    std::vector<int64_t> shape;
    for (uint32_t i = 0; i < 2; ++i) {
      const int64_t tile = std::min<int64_t>(2, whole.shape[i]);
      const bool all = Chance(5);
      shape.push_back(all ? whole.shape[i] : tile);
      if (!all)
        view.offset +=
            Below(static_cast<uint32_t>(whole.shape[i] / tile)) * tile * whole.strides[i];
    }
    view.layout =
        MakeLayout(whole.dtype, shape, absl::MakeConstSpan(whole.strides).first(2)).value();
    return view;
  }

  // A range, or rows with gaps, of at most `most` bytes, roughly within `range`.
  View Sized(uint32_t most, uint32_t range) {
    View view;
    const int64_t size = 1 + Below(most);
    const int64_t rows = Chance(3) ? 1 + Below(5) : 1;
    const int64_t pitch = (size + rows - 1) / rows + (Chance(2) ? 0 : Below(16));
    view.layout = MakeLayout(PTO_I8, {rows, (size + rows - 1) / rows}, {pitch, 1}).value();
    const auto room = static_cast<uint32_t>(kMaxBytes - static_cast<size_t>(view.layout.extent));
    view.offset = Below(std::min(range, room) + 1);
    return view;
  }

  View Anything() {
    View view;
    const uint32_t ndim = Below(PTO_MAX_DIMS + 1);
    std::vector<int64_t> shape, strides;
    for (uint32_t i = 0; i < ndim; ++i) {
      shape.push_back(Chance(40) ? 0 : 1 + Below(4));
      strides.push_back(1 + Below(12));
    }
    view.layout = MakeLayout(Dtype(), shape, strides).value();
    view.offset = Below(24);
    return view;
  }

  uint64_t state_;
};

struct Step {
  uint32_t view = 0;
  bool writes = false;
};

// One case: tasks that use views.
class Case {
 public:
  Case(Kind kind, uint64_t seed) : generator_(seed), views_(generator_.Views(kind)) {
    const uint32_t tasks =
        IsLarge(kind) || generator_.Chance(10) ? kMaxTasks : 2 + generator_.Below(12);
    const uint32_t writes = kind == Kind::kCrowd ? 12 : 1 + generator_.Below(4);
    tasks_.resize(tasks);
    for (std::vector<Step>& task : tasks_) {
      for (uint32_t i = 1 + generator_.Below(3); i > 0; --i) {
        task.push_back(
            {generator_.Below(static_cast<uint32_t>(views_.size())), generator_.Chance(writes)});
      }
    }
    ends_ = generator_.Chance(4);
  }

  void Run() {
    FindConflicts();
    AccessMap map;
    std::vector<uint32_t> regions;
    for (const View& view : views_) {
      const auto size = static_cast<int64_t>(kernels::DtypeSize(view.layout.dtype));
      regions.push_back(
          map.AddRegion(view.space, map.AddFootprint(view.layout), view.offset * size));
    }
    std::vector<uint64_t> reached(tasks_.size());
    uint32_t ended = 0;
    for (uint32_t task = 0; task < tasks_.size(); ++task) {
      if (ends_ && generator_.Chance(3)) {
        ended += generator_.Below(task - ended + 1);
        map.ForgetBefore(ended);
      }
      std::vector<uint32_t> before;
      for (const Step& step : tasks_[task]) {
        if (step.writes) {
          map.Write(task, regions[step.view], before);
        } else {
          map.Read(task, regions[step.view], before);
        }
      }
      for (const uint32_t other : before) {
        ASSERT_LT(other, task) << Describe();
        ASSERT_GE(other, ended) << Describe();
        ASSERT_TRUE((conflicts_[task] >> other & 1) != 0)
            << "needless edge from " << other << " to " << task << '\n'
            << Describe();
        reached[task] |= reached[other] | uint64_t{1} << other;
      }
      const uint64_t own = uint64_t{1} << task;
      ASSERT_EQ(map.TakeMetItself(), (conflicts_[task] & own) != 0) << "task " << task << '\n'
                                                                    << Describe();
      const uint64_t wanted = (conflicts_[task] & ~own) >> ended << ended;
      ASSERT_EQ(wanted & ~reached[task], 0u) << "task " << task << " waits for too few\n"
                                             << Describe();
      edges_ += before.size();
    }
    ASSERT_LE(map.live_regions(), views_.size()) << Describe();
  }

  uint64_t edges() const { return edges_; }

 private:
  // For each task: the earlier tasks that it must not overtake, and itself if two of its own
  // accesses must not be reordered.
  void FindConflicts() {
    conflicts_.resize(tasks_.size());
    // For each byte of a space: bit masks of the tasks that read and wrote it. All 0 between cases.
    static std::array<std::array<uint64_t, kMaxBytes>, 4> readers, writers;
    for (uint32_t task = 0; task < tasks_.size(); ++task) {
      const uint64_t own = uint64_t{1} << task;
      for (const Step& step : tasks_[task]) {
        const View& view = views_[step.view];
        for (const uint32_t byte : view.bytes) {
          conflicts_[task] |=
              writers[view.space][byte] | (step.writes ? readers[view.space][byte] : 0);
        }
        for (const uint32_t byte : view.bytes) {
          (step.writes ? writers : readers)[view.space][byte] |= own;
        }
      }
    }
    for (const View& view : views_) {
      for (const uint32_t byte : view.bytes) {
        readers[view.space][byte] = writers[view.space][byte] = 0;
      }
    }
  }

  std::string Describe() const {
    std::ostringstream out;
    for (size_t i = 0; i < views_.size(); ++i)
      out << "view " << i << ": " << Text(views_[i]) << '\n';
    for (size_t i = 0; i < tasks_.size(); ++i) {
      out << "task " << i << ':';
      for (const Step& step : tasks_[i]) out << (step.writes ? " writes " : " reads ") << step.view;
      out << '\n';
    }
    return out.str();
  }

  Generator generator_;
  std::vector<View> views_;
  std::vector<std::vector<Step>> tasks_;
  std::vector<uint64_t> conflicts_;
  uint64_t edges_ = 0;
  bool ends_ = false;
};

class AccessMapOracleTest : public ::testing::TestWithParam<std::tuple<Kind, uint64_t>> {};

TEST_P(AccessMapOracleTest, OrdersWhatMustBeOrderedAndNothingElse) {
  const auto [kind, round] = GetParam();
  const uint64_t cases = IsLarge(kind) ? 400 : 5200;
  uint64_t edges = 0;
  for (uint64_t i = 0; i < cases; ++i) {
    const uint64_t seed = (static_cast<uint64_t>(kind) * 100 + round) * 5200 + i;
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    Case one(kind, seed);
    one.Run();
    if (HasFatalFailure()) return;
    edges += one.edges();
  }
  // Otherwise the cases test too little.
  EXPECT_GT(edges, cases);
}

INSTANTIATE_TEST_SUITE_P(
    Random, AccessMapOracleTest,
    ::testing::Combine(::testing::Values(Kind::kBoxes, Kind::kSlices, Kind::kTiles, Kind::kMixed,
                                         Kind::kAny, Kind::kSizes, Kind::kCrowd, Kind::kAgain),
                       ::testing::Range(uint64_t{0}, uint64_t{4})));

}  // namespace
}  // namespace pto::engine
