// Random graphs, launched with slots bound to random places of a few memories, checked byte by
// byte: any two tasks that must not be reordered are ordered.

#include <bitset>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/dtype.h"
#include "runtime/graph/builder.h"
#include "runtime/graph/graph_testing.h"
#include "runtime/graph/realias.h"

namespace pto::engine {
namespace {

constexpr uint32_t kGraphs = 3000;
constexpr uint32_t kBindings = 8;  // of each graph
constexpr uint32_t kSlots = 5;     // the last two on chip 1
constexpr uint32_t kChip0Slots = 3;
constexpr uint32_t kMemoryBytes = 256;  // of each of three; the last on chip 1
using Bytes = std::bitset<3 * kMemoryBytes>;

int32_t DoNothing(const pto_context*) { return 0; }

// Kernels with two arguments, for all combinations of directions: k11, k12, …
const KernelRegistry& Kernels() {
  static const KernelRegistry* const kernels = [] {
    static pto_argument_info arguments[16][2];
    // The kernels do nothing, so any overlap is allowed.
    static pto_overlap_info overlaps[16][2];
    static std::string names[16];
    auto* registry = new KernelRegistry;
    for (int i = 0; i < 16; ++i) {
      const auto first = static_cast<pto_direction>(1 + i / 4);
      const auto second = static_cast<pto_direction>(1 + i % 4);
      arguments[i][0] = {"a", first, PTO_DTYPE_ALL};
      arguments[i][1] = {"b", second, PTO_DTYPE_ALL};
      for (int argument = 0; argument < 2; ++argument) {
        const pto_direction direction = arguments[i][argument].direction;
        const bool writes = direction == PTO_OUTPUT || direction == PTO_INOUT;
        overlaps[i][argument] = {0, writes ? 3u : 0u};
      }
      names[i] = "k" + std::to_string(first) + std::to_string(second);
      auto* info = new pto_kernel_info{sizeof(pto_kernel_info),
                                       names[i].c_str(),
                                       "Nothing.",
                                       &DoNothing,
                                       nullptr,
                                       PTO_MIX,
                                       arguments[i],
                                       2,
                                       nullptr,
                                       0,
                                       0,
                                       0,
                                       0,
                                       nullptr,
                                       overlaps[i]};
      EXPECT_TRUE(registry->Add(*info).ok());
    }
    return registry;
  }();
  return *kernels;
}

struct Used {
  Bytes read, written;
};

class Case {
 public:
  explicit Case(uint32_t seed) : random_(seed) {
    GraphTarget target;
    target.kernels = &Kernels();
    target.chip_clusters = {4, 4};
    GraphBuilder builder(target);
    for (const auto& kernel : Kernels().List()) {
      kernels_.push_back(&kernel->info());
      builder.AddKernel(kernel->name()).value();
    }
    for (uint32_t slot = 0; slot < kSlots; ++slot) {
      builder.AddSlot("s" + std::to_string(slot));
      for (uint32_t count = 1 + Below(3); count > 0; --count) AddTensor(builder, slot, false);
      AddTensor(builder, slot, true);  // one element, for predicates
    }
    tasks_ = 2 + Below(9);
    for (uint32_t i = 0; i < tasks_; ++i) AddTask(builder, i);
    image_ = builder.Build().value();
  }

  // Returns whether slots overlapped.
  bool CheckBinding() {
    std::vector<SlotMemory> slots;
    std::vector<uint32_t> memories;
    for (uint32_t slot = 0; slot < kSlots; ++slot) {
      memories.push_back(slot < kChip0Slots ? Below(2) : 2);
      slots.push_back({&marks_[memories.back()], Chance(3) ? 0 : Below(100)});
    }
    std::vector<Used> used(tasks_);
    for (const Access& access : accesses_) {
      const Tensor& tensor = tensors_[access.tensor];
      const uint64_t begin =
          memories[tensor.slot] * uint64_t{kMemoryBytes} + slots[tensor.slot].offset;
      Bytes& bytes = access.writes ? used[access.task].written : used[access.task].read;
      for (const uint32_t byte : tensor.bytes) bytes.set(begin + byte);
    }
    const SlotPlaces places = FindAliases(*image_, slots);
    const std::shared_ptr<const GraphImage> image =
        places.empty() ? image_ : Realias(*image_, places, 1'000'000).value();
    Check(*image, used);
    return !places.empty();
  }

 private:
  struct Tensor {
    uint32_t slot;
    std::vector<uint32_t> bytes;  // of its slot
  };
  struct Access {
    uint32_t task;
    uint32_t tensor;
    bool writes;
  };

  uint32_t Below(uint32_t limit) { return static_cast<uint32_t>(random_() % limit); }
  bool Chance(uint32_t one_in) { return Below(one_in) == 0; }

  void Check(const GraphImage& image, const std::vector<Used>& used) {
    std::vector<uint32_t> before(tasks_);  // bit i: task i precedes this task
    std::vector<uint32_t> dependencies(tasks_);
    for (uint32_t i = 0; i < tasks_; ++i) {
      for (const uint32_t next : image.successors(i)) {
        ASSERT_GT(next, i);
        before[next] |= before[i] | 1u << i;
        ++dependencies[next];
      }
      for (const uint32_t next : image_->successors(i)) EXPECT_NE(before[next] >> i & 1, 0u);
    }
    std::vector<uint32_t> roots;
    for (uint32_t i = 0; i < tasks_; ++i) {
      EXPECT_EQ(image.tasks()[i].dependencies, dependencies[i]);
      if (dependencies[i] == 0) roots.push_back(i);
      for (uint32_t earlier = 0; earlier < i; ++earlier) {
        if ((before[i] >> earlier & 1) != 0) continue;
        const Used &a = used[earlier], &b = used[i];
        EXPECT_TRUE(((a.written & (b.read | b.written)) | (a.read & b.written)).none())
            << earlier << " and " << i;
      }
    }
    EXPECT_EQ(image.roots(), absl::MakeConstSpan(roots));
  }

  void AddTensor(GraphBuilder& builder, uint32_t slot, bool single) {
    constexpr uint32_t kTypes[] = {PTO_I8, PTO_I16, PTO_I32};
    const uint32_t dtype = kTypes[Below(3)];
    std::vector<int64_t> shape, strides;
    if (!single) {
      shape = {1 + Below(4), Chance(20) ? 0 : 1 + Below(4)};
      strides = {1 + Below(6), 1 + Below(3)};
    }
    const uint32_t layout = builder.AddLayout(dtype, shape, strides).value();
    const int64_t offset = Below(8);
    const uint32_t index = builder.AddTensor(slot, layout, offset).value();
    Tensor tensor = {slot, {}};
    const auto size = static_cast<int64_t>(kernels::DtypeSize(dtype));
    for (int64_t i = 0; i < (single ? 1 : shape[0]); ++i) {
      for (int64_t j = 0; j < (single ? 1 : shape[1]); ++j) {
        const int64_t element = offset + (single ? 0 : i * strides[0] + j * strides[1]);
        for (int64_t byte = 0; byte < size; ++byte) {
          tensor.bytes.push_back(static_cast<uint32_t>(element * size + byte));
        }
      }
    }
    tensors_.push_back(tensor);
    if (single) predicates_[ChipOf(slot)].push_back(index);
  }

  static uint32_t ChipOf(uint32_t slot) { return slot < kChip0Slots ? 0 : 1; }

  std::vector<uint32_t> Args(uint32_t chip) {
    std::vector<uint32_t> args;
    while (args.size() < 2) {
      const uint32_t tensor = Below(static_cast<uint32_t>(tensors_.size()));
      if (ChipOf(tensors_[tensor].slot) == chip) args.push_back(tensor);
    }
    return args;
  }

  void Use(uint32_t task, uint32_t kernel, const std::vector<uint32_t>& args, uint32_t except) {
    for (uint32_t i = 0; i < 2; ++i) {
      const uint32_t direction = kernels_[kernel]->arguments[i].direction;
      if ((except >> i & 1) != 0 || direction == PTO_NO_DEPENDENCY) continue;
      if (direction != PTO_OUTPUT) accesses_.push_back({task, args[i], false});
      if (direction != PTO_INPUT) accesses_.push_back({task, args[i], true});
    }
  }

  void AddTask(GraphBuilder& builder, uint32_t index) {
    TaskInput task;
    task.kernel = Below(16);
    task.no_dependency_args = Chance(6) ? Below(4) : 0;
    std::vector<uint32_t> vector_kernels;
    if (Chance(3)) vector_kernels.resize(1 + Below(2), Below(16));
    task.vector_kernels = vector_kernels;
    std::vector<std::vector<uint32_t>> args;
    std::vector<TaskInput::Member> members;
    if (Chance(4)) {
      args = {Args(0), Args(1)};
      members = {{0, args[0]}, {1, args[1]}};
      task.members = members;
    } else {
      task.chip = Below(3) / 2;
      args = {Args(task.chip)};
      task.args = args[0];
    }
    for (const std::vector<uint32_t>& some : args) {
      Use(index, task.kernel, some, task.no_dependency_args);
      for (const uint32_t kernel : vector_kernels) {
        Use(index, kernel, some, task.no_dependency_args);
      }
    }
    if (Chance(5)) {
      const std::vector<uint32_t>& choice = predicates_[task.chip];
      PredicateInput predicate;
      predicate.tensor = choice[Below(static_cast<uint32_t>(choice.size()))];
      predicate.compare = PTO_EQ;
      task.predicate = predicate;
      accesses_.push_back({index, predicate.tensor, false});
    }
    const uint32_t before = Below(index + 1);
    if (Chance(8) && before < index) task.dependencies = absl::MakeConstSpan(&before, 1);
    builder.AddTask(task).value();
  }

  std::minstd_rand random_;
  const char marks_[3] = {};  // addresses that represent the memories
  std::vector<const pto_kernel_info*> kernels_;
  std::vector<Tensor> tensors_;
  std::vector<uint32_t> predicates_[2];  // tensors for predicates, by chip
  uint32_t tasks_ = 0;
  std::vector<Access> accesses_;
  std::shared_ptr<const GraphImage> image_;
};

TEST(RealiasOracleTest, NoHazardIsMissed) {
  uint32_t aliased = 0;
  for (uint32_t seed = 0; seed < kGraphs; ++seed) {
    Case one(seed + 1);
    for (uint32_t i = 0; i < kBindings; ++i) {
      aliased += one.CheckBinding() ? 1 : 0;
      ASSERT_FALSE(HasFailure()) << "graph " << seed << ", binding " << i;
    }
  }
  EXPECT_GT(aliased, kGraphs * kBindings / 3);
  EXPECT_LT(aliased, kGraphs * kBindings);
}

}  // namespace
}  // namespace pto::engine
