// Also in builds that define NDEBUG: tests of mistakes must not make them.
#define PTO_KERNEL_CHECKS 1
#include "kernels/pto_kernel_cpp.h"

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pto::kernel {
namespace {

using ::testing::ElementsAre;

// What the kernels below do; a test sets it before a call.
void (*body)(const Block&) = nullptr;
void Body(const Block& block) { body(block); }

// The engine's side: keeps the text of the error, and answers all calls with `result`.
struct Engine {
  std::string error;
  int32_t result = PTO_OK;
  bool cancelled = false;
  std::vector<std::string> calls = {};
};

Engine& EngineOf(const pto_context* context) { return *static_cast<Engine*>(context->engine); }

int32_t Answer(const pto_context* context, const char* call) {
  EngineOf(context).calls.emplace_back(call);
  return EngineOf(context).result;
}

pto_kernel_api MakeApi() {
  pto_kernel_api api = {};
  api.struct_size = sizeof api;
  api.abi_version = PTO_KERNEL_ABI_VERSION;
  api.cancelled = [](const pto_context* context) { return EngineOf(context).cancelled ? 1 : 0; };
  api.log = [](const pto_context* context, pto_log_level, const char* text) {
    EngineOf(context).calls.push_back(std::string("log ") + text);
  };
  api.set_error = [](const pto_context* context, const char* text) {
    EngineOf(context).error = text;
  };
  api.wait = [](const pto_context* context, const pto_signal*, pto_compare, int64_t, int64_t) {
    return Answer(context, "wait");
  };
  api.notify = [](const pto_context* context, const pto_signal*, pto_notify_op, int64_t) {
    return Answer(context, "notify");
  };
  api.barrier = [](const pto_context* context, pto_scope) { return Answer(context, "barrier"); };
  api.copy = [](const pto_context* context, const pto_tensor*, const pto_tensor*, const pto_signal*,
                pto_notify_op, int64_t, pto_event* event) {
    *event = 7;
    return Answer(context, "copy");
  };
  api.wait_copy = [](const pto_context* context, pto_event event, int64_t) {
    EXPECT_EQ(event, 7u);
    return Answer(context, "wait_copy");
  };
  api.defer = [](const pto_context* context, const pto_signal*, pto_compare, int64_t, int64_t) {
    return Answer(context, "defer");
  };
  api.defer_copy = [](const pto_context* context, pto_event, int64_t) {
    return Answer(context, "defer_copy");
  };
  return api;
}

constexpr Describe kDescription = Describe("test", "Runs what a test wants.")
                                      .In("x", PTO_F32)
                                      .Out("y", PTO_F32)
                                      .MayBeSame(PTO_ARGUMENT_BIT(0))
                                      .NoDependency("signals", PTO_I64)
                                      .MayOverlap(PTO_ARGUMENT_BIT(2))
                                      .Float("factor")
                                      .Integer("count")
                                      .On(PTO_AIC)
                                      .Flags(PTO_KERNEL_WAITS)
                                      .SyncStart();

pto_tensor Tensor(void* data, pto_dtype dtype, std::vector<int64_t> shape,
                  std::vector<int64_t> strides) {
  pto_tensor tensor = {};
  tensor.data = data;
  tensor.dtype = dtype;
  tensor.ndim = static_cast<uint32_t>(shape.size());
  for (size_t d = 0; d < shape.size(); ++d) {
    tensor.shape[d] = shape[d];
    tensor.strides[d] = strides[d];
  }
  return tensor;
}

// x is [2,3] with gaps, y is [2,3] without, signals are 4 words. Two members with the same tensors.
class PtoKernelCppTest : public ::testing::Test {
 protected:
  // Runs one block.
  int32_t Run(void (*function)(const Block&), uint32_t block = 0, uint32_t blocks = 1) {
    body = function;
    const pto_kernel_api api = MakeApi();
    const pto_tensor* const members[] = {tensors_, tensors_};
    pto_scalar scalars[2];
    scalars[0].f64 = 0.5;
    scalars[1].i64 = -3;
    pto_context context = {};
    context.struct_size = sizeof context;
    context.block_index = block;
    context.block_count = blocks;
    context.tensor_count = 3;
    context.scalar_count = 2;
    context.tensors = tensors_;
    context.scalars = scalars;
    context.api = &api;
    context.engine = &engine_;
    context.member_index = 1;
    context.member_count = 2;
    context.members = members;
    engine_.error.clear();
    return Call<Body, &kDescription>(&context);
  }

  float x_[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  float y_[6] = {};
  int64_t signals_[4] = {};
  pto_tensor tensors_[3] = {Tensor(x_, PTO_F32, {2, 3}, {8, 2}),
                            Tensor(y_, PTO_F32, {2, 3}, {3, 1}),
                            Tensor(signals_, PTO_I64, {4}, {1})};
  Engine engine_;
};

TEST_F(PtoKernelCppTest, DescribesItself) {
  const pto_kernel_info info = kDescription.Info(&Call<Body, &kDescription>);
  EXPECT_STREQ(info.name, "test");
  ASSERT_EQ(info.argument_count, 3u);
  EXPECT_EQ(info.arguments[2].direction, PTO_NO_DEPENDENCY);
  EXPECT_EQ(info.overlaps[1].same, PTO_ARGUMENT_BIT(0));
  EXPECT_EQ(info.overlaps[2].any, PTO_ARGUMENT_BIT(2));
  ASSERT_EQ(info.scalar_count, 2u);
  EXPECT_EQ(info.scalars[1].type, PTO_INTEGER);
  EXPECT_EQ(info.default_core, PTO_AIC);
  EXPECT_EQ(info.flags, static_cast<uint32_t>(PTO_KERNEL_WAITS));
  EXPECT_EQ(info.requires_sync_start, 1u);
}

TEST_F(PtoKernelCppTest, ViewsFollowTheirStrides) {
  EXPECT_EQ(Run([](const Block& block) {
              const View<const float> x = block.Tensor<const float>(0);
              const View<float> y = block.Tensor<float>("y");
              EXPECT_EQ(x.ndim(), 2u);
              EXPECT_EQ(x.size(), 6);
              EXPECT_EQ(x.dim(1), 3);
              EXPECT_EQ(x.stride(0), 8);
              EXPECT_FALSE(x.contiguous());
              EXPECT_TRUE(y.contiguous());
              for (int64_t i = 0; i < x.size(); ++i) y[i] = x[i];
              EXPECT_EQ(x(1, 2), 12);
              EXPECT_EQ(x.Slice(1, 1, 2)(1, 0), 10);
            }),
            PTO_OK)
      << engine_.error;
  EXPECT_THAT(y_, ElementsAre(0, 2, 4, 8, 10, 12));
}

TEST_F(PtoKernelCppTest, ScalarsHaveIndicesAndNames) {
  EXPECT_EQ(Run([](const Block& block) {
              EXPECT_EQ(block.Float(0), 0.5);
              EXPECT_EQ(block.Float("factor"), 0.5);
              EXPECT_EQ(block.Integer(1), -3);
              EXPECT_EQ(block.Integer("count"), -3);
            }),
            PTO_OK)
      << engine_.error;
}

TEST_F(PtoKernelCppTest, SharesCoverEverythingOnce) {
  for (const uint32_t blocks : {1u, 3u, 7u, 12u}) {
    std::memset(y_, 0, sizeof y_);
    for (uint32_t block = 0; block < blocks; ++block) {
      EXPECT_EQ(Run(
                    [](const Block& each) {
                      const View<float> y = each.Tensor<float>(1);
                      const auto [begin, end] = each.Share(y.size());
                      for (int64_t i = begin; i < end; ++i) y[i] += 1;
                    },
                    block, blocks),
                PTO_OK);
    }
    EXPECT_THAT(y_, ElementsAre(1, 1, 1, 1, 1, 1)) << blocks;
  }
}

TEST_F(PtoKernelCppTest, MistakesFailTheBlockAndSayWhere) {
  const struct {
    void (*function)(const Block&);
    const char* error;
  } cases[] = {
      {[](const Block& b) { b.Tensor<float>(1)(1, 3) = 0; },
       "y: index 3 is outside of the view: dimension 1 has 3"},
      {[](const Block& b) { b.Tensor<float>(1)(-1, 0) = 0; },
       "y: index -1 is outside of the view: dimension 0 has 2"},
      {[](const Block& b) { b.Tensor<float>(1)[6] = 0; },
       "y: element 6 is outside of the view: there are 6"},
      {[](const Block& b) { b.Tensor<float>("x")(0) = 0; },
       "x: 1 indices for a view of 2 dimensions"},
      {[](const Block& b) { b.Tensor<float>("x").Slice(1, 2, 2); },
       "x: a slice of 2 indices from 2 on leaves the view: dimension 1 has 3"},
      {[](const Block& b) { b.Tensor<float>("x").dim(2); },
       "x: there is no dimension 2: the view has 2"},
      {[](const Block& b) { b.Tensor<double>(0); },
       "tensor 0 has elements of type 1, the kernel reads type 4"},
      {[](const Block& b) { b.Tensor<float>(3); }, "there is no tensor 3: the task has 3"},
      {[](const Block& b) { b.Tensor<float>(0, 2); }, "there is no rank 2: the task has 2"},
      {[](const Block& b) { b.Tensor<float>("z"); }, "the kernel describes no tensor 'z'"},
      {[](const Block& b) { b.Float("speed"); }, "the kernel describes no scalar 'speed'"},
      {[](const Block& b) { b.Float(1); },
       "scalar 1 is described as an integer, and read as the other type"},
      {[](const Block& b) { b.Fail(5, "no more"); }, "no more"},
      {[](const Block&) { throw std::bad_alloc(); }, "std::bad_alloc"},
      {[](const Block&) { throw 1; }, "the kernel threw something that is no std::exception"},
  };
  for (const auto& [function, error] : cases) {
    EXPECT_NE(Run(function), PTO_OK) << error;
    EXPECT_EQ(engine_.error, error);
  }
}

TEST_F(PtoKernelCppTest, CallsReachTheEngine) {
  EXPECT_EQ(Run([](const Block& block) {
              const View<int64_t> signals = block.Tensor<int64_t>("signals");
              const View<float> x = block.Tensor<float>(0), y = block.Tensor<float>(1, 0);
              block.Wait(Signal(signals(0)), PTO_GE, 1);
              block.Notify(Signal(signals(1)), PTO_ADD, 1);
              block.Barrier();
              block.Wait(block.Copy(y, x));
              block.Defer(block.Copy(y, x, Signal(signals(2)), PTO_SET, 1));
              block.Defer(Signal(signals(2)), PTO_GE, 1);
              block.Log(PTO_LOG_INFO, "done");
              EXPECT_EQ(block.rank(), 1u);
              EXPECT_EQ(block.ranks(), 2u);
              EXPECT_FALSE(block.cancelled());
            }),
            PTO_OK)
      << engine_.error;
  EXPECT_THAT(engine_.calls, ElementsAre("wait", "notify", "barrier", "copy", "wait_copy", "copy",
                                         "defer_copy", "defer", "log done"));
}

TEST_F(PtoKernelCppTest, RefusedCallEndsTheKernel) {
  engine_.result = PTO_CANCELLED;
  EXPECT_EQ(Run([](const Block& block) {
              block.Barrier();
              ADD_FAILURE() << "went on";
            }),
            PTO_CANCELLED);
  EXPECT_EQ(engine_.error, "barrier: the run must stop");
}

}  // namespace
}  // namespace pto::kernel
