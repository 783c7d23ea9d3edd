// Both forms of a graph mean the same, and both are read quickly.

#include <time.h>

#include <cstdint>
#include <cstring>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "daemon/graph/packed_decoder.h"
#include "daemon/graph/spec_decoder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"
#include "runtime/graph/graph_testing.h"

namespace pto::daemon {
namespace {

using ::pto::engine::testing::GraphTestTarget;
using ::pto::testing::IsOk;
using ::testing::ElementsAreArray;

constexpr uint32_t kBlockTasks = 65536;
const char* const kKernels[] = {"nop", "axpy", "step", "copy_async"};

// A graph independent of the form.
struct Plan {
  struct Tensor {
    uint32_t buffer, layout;
    int64_t offset;
  };
  struct Task {
    uint32_t kernel, chip, launch;
    std::vector<uint32_t> args, after;
    std::vector<uint64_t> scalars;
    // Beyond the columns. With members, chip and args are empty.
    std::vector<std::pair<uint32_t, std::vector<uint32_t>>> members = {};
    uint32_t no_dependency_mask = 0;
    absl::optional<engine::PredicateInput> predicate = {};
  };
  uint32_t chips = 1;
  uint32_t buffers = 1;  // buffer b is on the chip b % chips
  std::vector<v1::Layout> layouts;
  std::vector<v1::LaunchSpec> launches;
  std::vector<Tensor> tensors;
  std::vector<Task> tasks;
  bool explicit_dependencies_only = false;
};

uint64_t BitsOf(double value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

double DoubleOf(uint64_t bits) {
  double value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

Plan RandomPlan(std::mt19937_64& random, uint32_t task_count) {
  Plan plan;
  plan.chips = 1 + random() % 3;
  plan.buffers = plan.chips * (1 + random() % 4);
  const uint32_t layout_count = 1 + random() % 4;
  for (uint32_t i = 0; i < layout_count; ++i) {
    v1::Layout layout;
    layout.set_dtype(random() % 2 == 0 ? v1::F32 : v1::F64);
    const bool strided = random() % 2 == 0;
    for (uint64_t d = random() % 6; d > 0; --d) {
      layout.add_shape(static_cast<int64_t>(random() % 5));
      if (strided) layout.add_strides(static_cast<int64_t>(1 + random() % 9));
    }
    plan.layouts.push_back(layout);
  }
  // The first launch is empty, for tasks that need no other.
  const uint64_t launch_count = random() % 4;
  if (launch_count > 0) plan.launches.emplace_back();
  for (uint64_t i = launch_count; i > 0; --i) {
    v1::LaunchSpec launch;
    launch.set_core(static_cast<v1::Core>(random() % 4));
    launch.set_block_num(random() % 4);
    launch.set_require_sync_start(random() % 2 == 0);
    if (random() % 3 == 0) launch.mutable_timeout()->set_nanos(static_cast<int>(random() % 1000));
    plan.launches.push_back(launch);
  }
  plan.explicit_dependencies_only = random() % 4 == 0;
  for (uint32_t i = 0; i < plan.buffers * layout_count; ++i) {
    plan.tensors.push_back({i % plan.buffers, static_cast<uint32_t>(random() % layout_count),
                            static_cast<int64_t>(random() % 1000)});
  }
  // One word on each chip, used only for predicates.
  const auto data_tensors = static_cast<uint32_t>(plan.tensors.size());
  plan.layouts.emplace_back().set_dtype(v1::I32);
  for (uint32_t i = 0; i < plan.chips; ++i) plan.tensors.push_back({i, layout_count, 2000});
  for (uint32_t i = 0; i < task_count; ++i) {
    Plan::Task task{
        static_cast<uint32_t>(random() % 3),
        static_cast<uint32_t>(random() % plan.chips),
        plan.launches.empty() ? 0 : static_cast<uint32_t>(random() % plan.launches.size()),
        {},
        {},
        {}};
    // A tensor on the task's chip: the list of tensors cycles through the buffers.
    const auto tensor_on = [&](uint32_t chip) {
      return static_cast<uint32_t>(random() % (data_tensors / plan.chips)) * plan.chips + chip;
    };
    const uint32_t tensor = tensor_on(task.chip);
    if (random() % 8 == 0) {
      task.predicate =
          engine::PredicateInput{data_tensors + task.chip, static_cast<uint32_t>(1 + random() % 6),
                                 static_cast<int64_t>(random())};
    }
    if (random() % 8 == 0) {
      task.kernel = 2;
      task.scalars = {BitsOf(-1.5), random()};
      task.members.push_back({task.chip, {tensor}});
      const uint32_t other = (task.chip + 1) % plan.chips;
      if (other != task.chip) task.members.push_back({other, {tensor_on(other)}});
      task.chip = 0;
      task.launch = 0;
    } else if (random() % 8 == 0) {
      // Between any two chips, with equal shapes.
      task.kernel = 3;
      task.args = {tensor, tensor};
      task.launch = 0;
    } else if (task.kernel == 1) {
      task.args = {tensor, tensor, tensor};
      task.scalars = {BitsOf(static_cast<double>(random() % 1000) / 8)};
    } else if (task.kernel == 2) {
      task.args = {tensor};
      task.scalars = {BitsOf(-1.5), random()};
    }
    if (!task.args.empty() && random() % 4 == 0) task.no_dependency_mask = 1;
    for (uint64_t d = i == 0 ? 0 : random() % 4; d > 0; --d) {
      task.after.push_back(static_cast<uint32_t>(random() % i));
    }
    plan.tasks.push_back(task);
  }
  return plan;
}

v1::GraphSpec ToSpec(const Plan& plan) {
  v1::GraphSpec spec;
  spec.set_explicit_dependencies_only(plan.explicit_dependencies_only);
  for (size_t i = 0; i < plan.tensors.size(); ++i) {
    const v1::Layout& layout = plan.layouts[plan.tensors[i].layout];
    v1::TensorSpec* tensor = spec.add_tensors();
    tensor->set_name(absl::StrCat("tensor ", i));
    tensor->set_buffer(absl::StrCat("b", plan.tensors[i].buffer));
    tensor->set_dtype(layout.dtype());
    *tensor->mutable_shape() = layout.shape();
    *tensor->mutable_strides() = layout.strides();
    tensor->set_offset(plan.tensors[i].offset);
  }
  for (const Plan::Task& in : plan.tasks) {
    v1::TaskSpec* task = spec.add_tasks();
    const auto index = static_cast<uint32_t>(spec.tasks_size() - 1);
    if (index % 3 != 0) task->set_name(absl::StrCat("task ", index));
    task->set_kernel(kKernels[in.kernel]);
    if (in.members.empty()) task->set_chip(absl::StrCat("chips/", in.chip));
    for (const auto& [chip, args] : in.members) {
      v1::TaskMember* member = task->add_members();
      member->set_chip(absl::StrCat("chips/", chip));
      for (const uint32_t arg : args) member->add_args(absl::StrCat("tensor ", arg));
    }
    for (uint32_t arg = 0; arg < 32; ++arg) {
      if ((in.no_dependency_mask >> arg & 1) != 0) task->add_no_dependency_args(arg);
    }
    if (in.predicate.has_value()) {
      v1::Predicate* predicate = task->mutable_predicate();
      predicate->set_tensor(absl::StrCat("tensor ", in.predicate->tensor));
      predicate->set_compare(static_cast<v1::Comparison>(in.predicate->compare));
      predicate->set_value(in.predicate->value);
    }
    if (!plan.launches.empty()) *task->mutable_launch() = plan.launches[in.launch];
    for (const uint32_t arg : in.args) task->add_args(absl::StrCat("tensor ", arg));
    for (const uint32_t before : in.after) {
      task->add_after(before % 3 != 0 ? absl::StrCat("task ", before) : absl::StrCat(before));
    }
    for (size_t i = 0; i < in.scalars.size(); ++i) {
      if (i == 0) {
        task->add_scalars()->set_f64(DoubleOf(in.scalars[i]));
      } else {
        task->add_scalars()->set_i64(static_cast<int64_t>(in.scalars[i]));
      }
    }
  }
  return spec;
}

void AddExtra(const Plan::Task& task, uint32_t row, v1::TaskExtra& extra) {
  extra.set_row(row);
  for (const auto& [chip, args] : task.members) {
    v1::PackedMember* member = extra.add_members();
    member->set_chip(chip);
    for (const uint32_t arg : args) member->add_args(arg);
  }
  extra.set_no_dependency_mask(task.no_dependency_mask);
  if (!task.predicate.has_value()) return;
  extra.mutable_predicate()->set_tensor(task.predicate->tensor);
  extra.mutable_predicate()->set_compare(static_cast<v1::Comparison>(task.predicate->compare));
  extra.mutable_predicate()->set_value(task.predicate->value);
}

// Chunks of `chunk` tasks and tensors each.
std::vector<v1::PackedGraphPart> ToPacked(const Plan& plan, size_t chunk) {
  std::vector<v1::PackedGraphPart> parts(1);
  v1::PackedHeader& header = *parts[0].mutable_header();
  header.set_parent("sessions/s1");
  header.set_explicit_dependencies_only(plan.explicit_dependencies_only);
  for (const char* kernel : kKernels) header.add_kernels(kernel);
  for (uint32_t i = 0; i < plan.chips; ++i) header.add_chips(absl::StrCat("chips/", i));
  for (uint32_t i = 0; i < plan.buffers; ++i) header.add_buffers(absl::StrCat("b", i));
  for (const v1::Layout& layout : plan.layouts) *header.add_layouts() = layout;
  for (const v1::LaunchSpec& launch : plan.launches) *header.add_launches() = launch;
  int64_t last = 0;
  for (size_t i = 0; i < plan.tensors.size(); ++i) {
    if (i % chunk == 0) {
      parts.emplace_back().mutable_tensors();
      last = 0;
    }
    v1::TensorBlock& out = *parts.back().mutable_tensors();
    out.add_buffer(plan.tensors[i].buffer);
    out.add_layout(plan.tensors[i].layout);
    out.add_offset_delta(plan.tensors[i].offset - last);
    last = plan.tensors[i].offset;
  }
  for (size_t i = 0; i < plan.tasks.size(); ++i) {
    if (i % chunk == 0) {
      parts.emplace_back().mutable_tasks()->set_first_task(i);
      last = 0;
    }
    v1::TaskBlock& out = *parts.back().mutable_tasks();
    const Plan::Task& task = plan.tasks[i];
    out.add_kernel(task.kernel);
    if (plan.chips > 1) out.add_chip(task.chip);
    if (!plan.launches.empty()) out.add_launch(task.launch);
    out.add_dep_count(static_cast<uint32_t>(task.after.size()));
    for (const uint32_t before : task.after) out.add_dep_back(static_cast<uint32_t>(i) - before);
    for (const uint32_t arg : task.args) {
      out.add_arg_delta(int64_t{arg} - last);
      last = arg;
    }
    for (const uint64_t bits : task.scalars) out.add_scalar(bits);
    if (!task.members.empty() || task.no_dependency_mask != 0 || task.predicate.has_value()) {
      AddExtra(task, static_cast<uint32_t>(out.kernel_size() - 1), *out.add_extras());
    }
  }
  parts.emplace_back().mutable_commit()->set_task_count(plan.tasks.size());
  return parts;
}

absl::StatusOr<DecodedGraph> DecodePacked(const std::vector<v1::PackedGraphPart>& parts,
                                          const engine::GraphTarget& target) {
  PackedDecoder decoder(target, kBlockTasks);
  for (const v1::PackedGraphPart& part : parts) {
    absl::Status status = decoder.Add(part);
    if (!status.ok()) return status;
  }
  return decoder.Finish();
}

void ExpectSame(const engine::GraphImage& one, const engine::ImageDetail* a,
                const engine::GraphImage& two, const engine::ImageDetail* b) {
  ASSERT_EQ(a == nullptr, b == nullptr);
  if (a == nullptr) return;
  ASSERT_THAT(one.members(*a), ElementsAreArray(two.members(*b)));
  for (uint32_t m = 0; m < a->member_count; ++m) {
    ASSERT_THAT(one.args(a->task, m), ElementsAreArray(two.args(b->task, m)));
  }
  ASSERT_EQ(a->no_dependency_args, b->no_dependency_args);
  ASSERT_EQ(a->predicate_tensor, b->predicate_tensor);
  ASSERT_EQ(a->predicate_compare, b->predicate_compare);
  ASSERT_EQ(a->predicate_value, b->predicate_value);
  ASSERT_EQ(a->timeout_ns, b->timeout_ns);
}

void ExpectSame(const engine::GraphImage& one, const engine::GraphImage& two) {
  ASSERT_EQ(one.task_count(), two.task_count());
  ASSERT_EQ(one.edge_count(), two.edge_count());
  ASSERT_THAT(one.roots(), ElementsAreArray(two.roots()));
  ASSERT_THAT(one.chips(), ElementsAreArray(two.chips()));
  for (uint32_t i = 0; i < one.task_count(); ++i) {
    const engine::ImageTask &a = one.tasks()[i], &b = two.tasks()[i];
    ASSERT_STREQ(one.kernel(i).name, two.kernel(i).name);
    ASSERT_EQ(a.chip, b.chip);
    ASSERT_EQ(a.core, b.core);
    ASSERT_EQ(a.block_num, b.block_num);
    ASSERT_EQ(a.traits, b.traits);
    ASSERT_NO_FATAL_FAILURE(ExpectSame(one, one.detail(i), two, two.detail(i)));
    ASSERT_EQ(a.dependencies, b.dependencies);
    ASSERT_THAT(one.successors(i), ElementsAreArray(two.successors(i)));
    ASSERT_THAT(one.args(i), ElementsAreArray(two.args(i)));
    ASSERT_EQ(one.scalar_refs(i).size(), two.scalar_refs(i).size());
    for (size_t s = 0; s < one.scalar_refs(i).size(); ++s) {
      ASSERT_EQ(one.scalar_values()[one.scalar_refs(i)[s]],
                two.scalar_values()[two.scalar_refs(i)[s]]);
    }
  }
  ASSERT_EQ(one.tensors().size(), two.tensors().size());
  for (size_t i = 0; i < one.tensors().size(); ++i) {
    const engine::ImageTensor &a = one.tensors()[i], &b = two.tensors()[i];
    ASSERT_EQ(a.offset, b.offset);
    ASSERT_EQ(one.layouts()[a.layout], two.layouts()[b.layout]);
    const engine::ImageSlot &s = one.slots()[a.slot], &t = two.slots()[b.slot];
    ASSERT_EQ(one.text(s.name), two.text(t.name));
    ASSERT_EQ(s.chip, t.chip);
    ASSERT_EQ(s.min_bytes, t.min_bytes);
    ASSERT_EQ(s.largest_tensor, t.largest_tensor);
  }
}

TEST(BothFormsTest, MeanTheSame) {
  std::mt19937_64 random(42);
  const engine::GraphTarget target = GraphTestTarget({24, 4, 36});
  int groups = 0;
  for (int round = 0; round < 200; ++round) {
    const Plan plan = RandomPlan(random, 1 + random() % 60);
    const absl::StatusOr<DecodedGraph> spec = DecodeGraphSpec(ToSpec(plan), "s1", target);
    ASSERT_THAT(spec, IsOk());
    const absl::StatusOr<DecodedGraph> packed =
        DecodePacked(ToPacked(plan, 1 + random() % 20), target);
    ASSERT_THAT(packed, IsOk());
    ASSERT_EQ(packed->image->task_count(), plan.tasks.size());
    ASSERT_NO_FATAL_FAILURE(ExpectSame(*spec->image, *packed->image)) << "round " << round;
    for (const engine::ImageDetail& detail : spec->image->details())
      groups += detail.member_count > 1;
  }
  EXPECT_GT(groups, 10);
}

// Changes some bytes of a message; returns false if the result does not parse.
template <typename Message>
bool Damage(std::mt19937_64& random, Message& message) {
  std::string bytes = message.SerializeAsString();
  if (bytes.empty()) return false;
  for (uint64_t i = 1 + random() % 3; i > 0; --i) {
    bytes[random() % bytes.size()] = static_cast<char>(random() % 4 == 0 ? random() : random() % 8);
  }
  return message.ParseFromString(bytes);
}

// For any input there is either a graph or an error with a reason.
TEST(BothFormsTest, DamagedGraphsAreRefusedWithAReason) {
  std::mt19937_64 random(4242);
  const engine::GraphTarget target = GraphTestTarget({24, 1, 36});
  int good = 0, refused = 0;
  const auto look_at = [&](const absl::StatusOr<DecodedGraph>& graph) {
    ++(graph.ok() ? good : refused);
    EXPECT_EQ(ReasonOf(graph.status()).empty(), graph.ok()) << graph.status();
  };
  for (int round = 0; round < 3000; ++round) {
    const Plan plan = RandomPlan(random, 1 + random() % 10);
    v1::GraphSpec spec = ToSpec(plan);
    if (Damage(random, spec)) look_at(DecodeGraphSpec(spec, "s1", target));
    std::vector<v1::PackedGraphPart> parts = ToPacked(plan, 1 + random() % 10);
    if (Damage(random, parts[random() % parts.size()])) look_at(DecodePacked(parts, target));
  }
  EXPECT_GT(good, 100);
  EXPECT_GT(refused, 100);
}

// Each task adds two tensors and waits for two tasks.
Plan LargePlan(uint32_t task_count) {
  Plan plan;
  plan.buffers = 1000;
  plan.layouts.emplace_back().set_dtype(v1::F32);
  plan.layouts[0].add_shape(64);
  for (uint32_t i = 0; i < plan.buffers; ++i) plan.tensors.push_back({i, 0, 0});
  plan.tasks.reserve(task_count);
  for (uint32_t i = 0; i < task_count; ++i) {
    Plan::Task task{1, 0, 0, {i % 1000, (i * 7) % 1000, (i * 13) % 1000}, {}, {BitsOf(1.0)}};
    if (i > 0) task.after.push_back(i - 1);
    if (i > 9) task.after.push_back(i - 10);
    plan.tasks.push_back(std::move(task));
  }
  return plan;
}

// CPU time of the calling thread, so that other load on the machine does not count.
absl::Duration ThreadTime() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return absl::DurationFromTimespec(time);
}

// Bounds that only a wrong algorithm exceeds, in any build; the times are printed.
TEST(BothFormsTest, LargeGraphsAreReadQuickly) {
  constexpr uint32_t kTasks = 100'000;
  const engine::GraphTarget target = GraphTestTarget();
  const Plan plan = LargePlan(kTasks);
  const v1::GraphSpec spec = ToSpec(plan);
  const std::vector<v1::PackedGraphPart> parts = ToPacked(plan, 8192);

  absl::Duration begin = ThreadTime();
  const absl::StatusOr<DecodedGraph> from_spec = DecodeGraphSpec(spec, "s1", target);
  const absl::Duration spec_time = ThreadTime() - begin;
  ASSERT_THAT(from_spec, IsOk());
  begin = ThreadTime();
  const absl::StatusOr<DecodedGraph> from_packed = DecodePacked(parts, target);
  const absl::Duration packed_time = ThreadTime() - begin;
  ASSERT_THAT(from_packed, IsOk());
  std::cout << kTasks << " tasks: named " << spec_time << ", packed " << packed_time << "\n";
  EXPECT_EQ(from_packed->image->task_count(), kTasks);
  EXPECT_LT(spec_time, absl::Seconds(10));
  EXPECT_LT(packed_time, absl::Seconds(5));
}

}  // namespace
}  // namespace pto::daemon
