// Every kernel stops soon after it was told to, whatever its arguments ask for.

#include "kernels/work_meter.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/builtin_kernels.h"
#include "kernels/pto_kernel.h"
#include "kernels/registry.h"

namespace pto::kernels {
namespace {

// The longest that a kernel may go on. Release builds take a tenth of it.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int64_t kLongestNs = 100'000'000;
#else
constexpr int64_t kLongestNs = 10'000'000;
#endif
// It is cancelled at this look.
constexpr int kLooks = 20;

// The processor time of this thread: what else runs on the machine does not count.
int64_t ThreadNanos() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * int64_t{1'000'000'000} + now.tv_nsec;
}

// The cancel flag of one call: notes how long the kernel goes on between two looks.
struct Flag {
  void Note() {
    const int64_t now = ThreadNanos();
    longest_ns = std::max(longest_ns, now - last_ns);
    last_ns = now;
  }
  int looks = 0;
  int64_t last_ns = ThreadNanos();
  int64_t longest_ns = 0;
  std::string error;
};

// The arguments of a task that takes very long.
struct Arguments {
  std::vector<std::vector<pto_tensor>> members;
  std::vector<pto_scalar> scalars;
};

// Of a task on one chip.
Arguments One(std::vector<pto_tensor> tensors, std::vector<pto_scalar> scalars = {}) {
  Arguments arguments;
  arguments.members.push_back(std::move(tensors));
  arguments.scalars = std::move(scalars);
  return arguments;
}

constexpr int64_t kMany = int64_t{1} << 20;

// All tensors that are only read are here, and those that are written. A view overlaps itself, so
// that little memory becomes hours of work. Inputs are zero, which is a valid index.
std::byte* Memory(bool written) {
  static std::vector<uint64_t>* const both[] = {new std::vector<uint64_t>(6 * kMany),
                                                new std::vector<uint64_t>(6 * kMany)};
  return reinterpret_cast<std::byte*>(both[written ? 1 : 0]->data());
}

pto_tensor Tensor(uint32_t dtype, const std::vector<int64_t>& shape, int64_t inner_stride = 1) {
  pto_tensor tensor = {};
  tensor.data = Memory(false);
  tensor.dtype = dtype;
  tensor.ndim = static_cast<uint32_t>(shape.size());
  for (size_t d = 0; d < shape.size(); ++d) {
    tensor.shape[d] = shape[d];
    tensor.strides[d] = d + 1 == shape.size() ? inner_stride : 1;
  }
  return tensor;
}

pto_scalar Integer(int64_t value) {
  pto_scalar scalar;
  scalar.i64 = value;
  return scalar;
}

pto_scalar Float(double value) {
  pto_scalar scalar;
  scalar.f64 = value;
  return scalar;
}

// Types that the first argument can have: of each size, and floats.
std::vector<uint32_t> DtypesOf(const pto_kernel_info& info) {
  std::vector<uint32_t> some;
  for (const uint32_t dtype : {PTO_F32, PTO_BF16, PTO_I64, PTO_I32, PTO_U8}) {
    if ((info.arguments[0].dtypes & PTO_DTYPE_BIT(dtype)) != 0) some.push_back(dtype);
  }
  return some;
}

// Long runs, short runs, and elements that are far from each other.
std::vector<Arguments> Elementwise(const pto_kernel_info& info) {
  std::vector<Arguments> all;
  for (const uint32_t dtype : DtypesOf(info)) {
    for (const pto_tensor& view :
         {Tensor(dtype, {kMany, kMany}), Tensor(dtype, {kMany, kMany, kMany, 2}),
          Tensor(dtype, {kMany, 2048}, 2048), Tensor(dtype, {kMany, kMany}, 2)}) {
      std::vector<pto_tensor> tensors(info.argument_count, view);
      // The one element that some of them write.
      if (std::string(info.name) == "compare") tensors[2] = Tensor(PTO_I64, {});
      if (std::string(info.name) == "reduce_sum") tensors[1] = Tensor(dtype, {});
      all.push_back(One(tensors, std::vector<pto_scalar>(info.scalar_count, Float(1))));
    }
  }
  return all;
}

// Many narrow rows and many long ones; sums of few and of many rows, also of rows without elements.
std::vector<Arguments> Rows(const pto_kernel_info& info) {
  const std::string name = info.name;
  std::vector<Arguments> all;
  for (const uint32_t dtype : DtypesOf(info)) {
    for (const int64_t width : {kMany, int64_t{1}}) {
      const pto_tensor matrix = Tensor(dtype, {kMany, width});
      if (name == "sum_rows") {
        for (const int64_t terms : {int64_t{1}, int64_t{7}, kMany}) {
          all.push_back(One({matrix, Tensor(PTO_I32, {kMany, terms}), matrix}));
        }
      } else {
        const uint32_t second = name == "take_rows" ? PTO_I32 : PTO_F32;
        all.push_back(One({matrix, Tensor(second, {kMany}), matrix}));
      }
    }
    if (name != "sum_rows") continue;
    const pto_tensor none = Tensor(dtype, {kMany, 0});
    all.push_back(One({none, Tensor(PTO_I32, {kMany, kMany}), none}));
  }
  return all;
}

std::vector<Arguments> Matrices(const pto_kernel_info& info) {
  struct Sizes {
    int64_t rows, inner, columns, stride;
  };
  std::vector<Arguments> all;
  for (const uint32_t dtype : DtypesOf(info)) {
    for (const Sizes& sizes :
         {Sizes{256, kMany, kMany, 1}, Sizes{kMany, kMany, 1, 1}, Sizes{1, kMany, kMany, 1},
          Sizes{kMany, 1, kMany, 1}, Sizes{kMany, 100, 100, 1}, Sizes{kMany, kMany, kMany, 1},
          Sizes{256, kMany, kMany, 3}, Sizes{kMany, 0, kMany, 1}, Sizes{2048, 2048, 2048, 2048},
          Sizes{100, 2048, 2048, 2048}}) {
      all.push_back(One({Tensor(dtype, {sizes.rows, sizes.inner}, sizes.stride),
                         Tensor(dtype, {sizes.inner, sizes.columns}, sizes.stride),
                         Tensor(dtype, {sizes.rows, sizes.columns}, sizes.stride)}));
    }
  }
  return all;
}

// Collectives take dense tensors only. All ranks use the same memory.
constexpr int64_t kRanks = 32;
constexpr int64_t kPart = int64_t{1} << 18;
constexpr int64_t kWhole = kRanks * kPart;

Arguments Ranks(const std::vector<pto_tensor>& tensors, std::vector<int64_t> scalars = {}) {
  Arguments arguments;
  arguments.members.assign(kRanks, tensors);
  for (const int64_t scalar : scalars) arguments.scalars.push_back(Integer(scalar));
  return arguments;
}

std::vector<Arguments> AllReduce(const pto_kernel_info& info) {
  std::vector<Arguments> all;
  for (const uint32_t dtype : DtypesOf(info)) {
    if (dtype == PTO_I64) continue;  // more memory than there is
    for (int64_t algorithm = 0; algorithm <= 4; ++algorithm) {
      all.push_back(Ranks({Tensor(dtype, {kWhole}), Tensor(dtype, {kWhole})}, {1, algorithm, 0}));
    }
  }
  return all;
}

std::vector<Arguments> Exchange(const pto_kernel_info& info) {
  static const std::vector<int64_t>* const counts = new std::vector<int64_t>(kRanks, kPart);
  if (info.argument_count == 2) {
    std::vector<pto_tensor> same(2, Tensor(PTO_F32, {kWhole}));
    std::vector<Arguments> all = {Ranks(same)};
    // In place, ranks swap what they have.
    for (pto_tensor& tensor : same) tensor.data = Memory(true);
    all.push_back(Ranks(same));
    return all;
  }
  pto_tensor fixed = Tensor(PTO_I64, {kRanks});
  fixed.data = const_cast<int64_t*>(counts->data());
  return {Ranks({Tensor(PTO_F32, {kWhole}), fixed, Tensor(PTO_F32, {kWhole}), fixed})};
}

std::vector<Arguments> Moves(int64_t in, int64_t out, std::vector<int64_t> scalars) {
  return {Ranks({Tensor(PTO_F32, {in}), Tensor(PTO_F32, {out})}, std::move(scalars))};
}

// Tasks that take very long, of each kernel.
std::vector<Arguments> ArgumentsOf(const pto_kernel_info& info) {
  const std::string name = info.name;
  using Make = std::vector<Arguments> (*)(const pto_kernel_info&);
  static const std::map<std::string, Make>* const makers = new std::map<std::string, Make>{
      {"add", Elementwise},
      {"sub", Elementwise},
      {"mul", Elementwise},
      {"scale", Elementwise},
      {"axpy", Elementwise},
      {"copy", Elementwise},
      {"compare", Elementwise},
      {"fill", Elementwise},
      {"iota", Elementwise},
      {"reduce_sum", Elementwise},
      {"take_rows", Rows},
      {"scale_rows", Rows},
      {"sum_rows", Rows},
      {"matmul", Matrices},
      {"all_reduce", AllReduce},
      {"all_to_all", Exchange},
      {"all_to_all_v", Exchange},
      {"reduce", [](const pto_kernel_info&) { return Moves(kWhole, kWhole, {1, 0}); }},
      {"reduce_scatter", [](const pto_kernel_info&) { return Moves(kWhole, kPart, {1}); }},
      {"broadcast", [](const pto_kernel_info&) { return Moves(kWhole, kWhole, {0}); }},
      {"all_gather", [](const pto_kernel_info&) { return Moves(kPart, kWhole, {}); }},
      {"scatter", [](const pto_kernel_info&) { return Moves(kWhole, kPart, {0}); }},
      {"gather", [](const pto_kernel_info&) { return Moves(kPart, kWhole, {0}); }},
      {"send_recv", [](const pto_kernel_info&) { return Moves(kWhole, kWhole, {0, 1}); }},
      {"spin",
       [](const pto_kernel_info&) {
         return std::vector<Arguments>{One({}, {Integer(int64_t{3'600'000'000})})};
       }},
      {"falter",
       [](const pto_kernel_info&) {
         return std::vector<Arguments>{
             One({Tensor(PTO_I32, {})}, {Integer(0), Integer(0), Integer(2)})};
       }},
  };
  const auto found = makers->find(name);
  return found == makers->end() ? std::vector<Arguments>() : found->second(info);
}

// Kernels that do no more for any arguments than for few: they only make one call each.
bool IsShort(const std::string& name) {
  const std::vector<std::string> all = {"noop", "fail", "hold", "defer", "barrier"};
  return std::find(all.begin(), all.end(), name) != all.end();
}

// Runs the block, or the first call of the first phase, until it returns.
Flag RunUntilCancelled(const pto_kernel_info& info, Arguments arguments) {
  for (std::vector<pto_tensor>& tensors : arguments.members) {
    for (uint32_t i = 0; i < info.argument_count; ++i) {
      if (info.arguments[i].direction != PTO_INPUT) tensors[i].data = Memory(true);
    }
  }
  pto_kernel_api api = {};
  api.struct_size = sizeof api;
  api.abi_version = PTO_KERNEL_ABI_VERSION;
  api.cancelled = [](const pto_context* context) {
    auto* const flag = static_cast<Flag*>(context->engine);
    flag->Note();
    return ++flag->looks >= kLooks ? 1 : 0;
  };
  api.set_error = [](const pto_context* context, const char* text) {
    static_cast<Flag*>(context->engine)->error = text;
  };
  api.notify = [](const pto_context*, const pto_signal*, pto_notify_op, int64_t) -> int32_t {
    return PTO_OK;
  };
  std::vector<const pto_tensor*> members;
  for (const std::vector<pto_tensor>& tensors : arguments.members)
    members.push_back(tensors.data());
  pto_plan plan = {};
  plan.struct_size = sizeof plan;
  plan.phases = 1;
  if (info.plan != nullptr) {
    pto_launch launch = {};
    launch.struct_size = sizeof launch;
    launch.member_count = static_cast<uint32_t>(members.size());
    launch.block_count = 1;
    launch.tensor_count = info.argument_count;
    launch.scalar_count = info.scalar_count;
    launch.members = members.data();
    launch.scalars = arguments.scalars.data();
    char message[200] = "";
    EXPECT_EQ(info.plan(&launch, &plan, message, sizeof message), 0) << info.name << message;
  }
  const auto workspace = std::make_unique<std::byte[]>(plan.workspace_bytes + 1);
  Flag flag;
  pto_context context = {};
  context.struct_size = sizeof context;
  context.block_count = 1;
  context.core_kind = info.default_core;
  context.tensor_count = info.argument_count;
  context.scalar_count = info.scalar_count;
  context.tensors = members[0];
  context.scalars = arguments.scalars.data();
  context.api = &api;
  context.engine = &flag;
  context.member_count = static_cast<uint32_t>(members.size());
  context.members = members.data();
  context.phase_count = plan.phases;
  context.workspace = workspace.get();
  // One call can have too little to do: the others follow, as in the engine.
  for (; context.phase < plan.phases && flag.looks < kLooks; ++context.phase) {
    for (context.member_index = 0; context.member_index < members.size() && flag.looks < kLooks;
         ++context.member_index) {
      context.tensors = members[context.member_index];
      flag.last_ns = ThreadNanos();
      EXPECT_EQ(info.function(&context), 0) << info.name << ": " << flag.error;
      flag.Note();
    }
  }
  return flag;
}

TEST(WorkMeterTest, LooksOnceInAWhileAndStopsForGood) {
  struct Asked {
    int looks = 0;
    bool cancel = false;
  } asked;
  pto_kernel_api api = {};
  api.cancelled = [](const pto_context* context) {
    auto* const asked = static_cast<Asked*>(context->engine);
    ++asked->looks;
    return asked->cancel ? 1 : 0;
  };
  pto_context context = {};
  context.api = &api;
  context.engine = &asked;
  WorkMeter meter(&context);
  for (int64_t done = 0; done < 10 * WorkMeter::kBetweenLooks; done += 1024) {
    ASSERT_TRUE(meter.Spend(1024));
  }
  EXPECT_EQ(asked.looks, 9);
  asked.cancel = true;
  while (meter.Spend(1024)) {
  }
  EXPECT_EQ(asked.looks, 10);
  EXPECT_TRUE(meter.stopped());
  // Permanently, without looking again.
  asked.cancel = false;
  EXPECT_FALSE(meter.Spend(0));
  EXPECT_FALSE(meter.Spend(1));
  EXPECT_EQ(asked.looks, 10);
}

TEST(WorkMeterTest, WithoutAContextNothingStopsIt) {
  WorkMeter meter(nullptr);
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(meter.Spend(WorkMeter::kPiece));
}

// A new kernel must be added here. If it has loops whose length depends on its arguments, use
// WorkMeter or ForShare.
TEST(WorkMeterTest, EveryKernelStopsInTime) {
  for (const std::shared_ptr<const Kernel>& kernel : BuiltinKernels().List()) {
    const pto_kernel_info& info = kernel->info();
    if (info.function == nullptr || IsShort(info.name)) continue;
    const std::vector<Arguments> all = ArgumentsOf(info);
    EXPECT_FALSE(all.empty()) << info.name << ": give it work for hours";
    for (size_t i = 0; i < all.size(); ++i) {
      Flag best = RunUntilCancelled(info, all[i]);
      // A machine that is shared with others counts their time now and then.
      for (int again = 0; again < 3 && best.longest_ns > kLongestNs; ++again) {
        const Flag flag = RunUntilCancelled(info, all[i]);
        if (flag.longest_ns < best.longest_ns) best = flag;
      }
      EXPECT_GE(best.looks, kLooks) << info.name << ", arguments " << i << ": looks too rarely";
      EXPECT_LE(best.longest_ns, kLongestNs) << info.name << ", arguments " << i;
    }
  }
}

}  // namespace
}  // namespace pto::kernels
