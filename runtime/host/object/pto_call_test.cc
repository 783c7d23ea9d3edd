// What kernels of the PTO ABI get, and what is made of what they leave. The kernels are those of
// tests/kernels, which know only the description of the ABI.

#include "runtime/host/object/pto_call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <time.h>

#include <bit>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_matchers.h"
#include "runtime/host/object/loaded_object.h"
#include "runtime/host/object/look_counter.h"
#include "runtime/host/object/pto_hooks.h"
#include "runtime/host/object/testing/object_testing.h"

namespace pto::host {
namespace {

using ::pto::host::testing::CallResult;
using ::pto::host::testing::LoadPto;
using ::pto::host::testing::ObjectTask;
using ::pto::testing::HasReason;
using ::pto::testing::IsOk;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class PtoCallTest : public ::testing::Test {
 protected:
  PtoCallTest() { SetPtoEnvironment(); }

  // Calls the kernel that writes what it sees.
  std::vector<uint64_t> Described(const std::string& types, ObjectTask task,
                                  const std::string& scalars = ", scalar i64, scalar i64",
                                  const PtoCallInfo& info = {}) {
    const auto kernel =
        LoadPto("pto_describe_gcc", absl::StrCat("in ", types, "[], out u64[]", scalars));
    std::vector<uint64_t> seen(25);
    task.Tensor(seen.data(), PTO_U64, {25});
    // The two buffers, if there are any.
    PtoCallInfo call = info;
    std::vector<PtoBuffer> buffers(info.buffers.begin(), info.buffers.end());
    if (!buffers.empty()) buffers.push_back({seen.data(), 200});
    call.buffers = buffers;
    const CallResult result = task.Call(*kernel, 0, 1, call);
    EXPECT_EQ(result.code, 0) << result.error;
    return seen;
  }

  float floats_[64] = {};
};

uint64_t Address(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }

TEST_F(PtoCallTest, DescribesAViewAlone) {
  ObjectTask task;
  task.Tensor(floats_ + 3, PTO_F32, {2, 3, 4}, {24, 8, 2}).Integer(1).Integer(2);
  const std::vector<uint64_t> seen = Described("f32", task);
  EXPECT_EQ(seen[0], Address(floats_ + 3));
  EXPECT_EQ(seen[4], 3u);
  EXPECT_EQ(seen[5], 0u) << "f32";
  EXPECT_EQ(seen[6], 0u) << "not contiguous";
  EXPECT_EQ(seen[7], 1u) << "device memory";
  EXPECT_EQ(seen[2], ~uint64_t{0}) << "no owner";
  EXPECT_EQ(seen[3], 0u);
  const std::vector<uint64_t> shape(seen.begin() + 8, seen.begin() + 13);
  EXPECT_EQ(shape, (std::vector<uint64_t>{2, 3, 4, 1, 1}));
  const uint64_t extent = 1 + 1 * 24 + 2 * 8 + 3 * 2;
  EXPECT_EQ(seen[13], extent);
  EXPECT_EQ(seen[1], extent * 4);
  const std::vector<uint64_t> strides(seen.begin() + 14, seen.begin() + 19);
  EXPECT_EQ(strides, (std::vector<uint64_t>{24, 8, 2, 1, 1}));
}

TEST_F(PtoCallTest, DescribesAViewInItsBuffer) {
  ObjectTask task;
  task.Tensor(floats_ + 5, PTO_F32, {2, 4}).Integer(1).Integer(2);
  const PtoBuffer buffer = {floats_, sizeof floats_};
  PtoCallInfo info;
  info.buffers = absl::MakeConstSpan(&buffer, 1);
  const std::vector<uint64_t> seen = Described("any", task, ", scalar i64, scalar i64", info);
  EXPECT_EQ(seen[0], Address(floats_));
  EXPECT_EQ(seen[1], sizeof floats_);
  EXPECT_EQ(seen[3], 5u);
  EXPECT_EQ(seen[6], 1u) << "contiguous";
  EXPECT_EQ(seen[13], 8u);
}

TEST_F(PtoCallTest, ANumberIsATensorOfOneDimension) {
  ObjectTask task;
  task.Tensor(floats_, PTO_F32, {}).Integer(1).Integer(2);
  const std::vector<uint64_t> seen = Described("f32", task);
  EXPECT_EQ(seen[4], 1u);
  EXPECT_EQ(seen[8], 1u);
  EXPECT_EQ(seen[13], 1u);
}

TEST_F(PtoCallTest, ViewsWithoutElementsAreAllowed) {
  ObjectTask task;
  task.Tensor(nullptr, PTO_F32, {3, 0}).Integer(1).Integer(2);
  const std::vector<uint64_t> seen = Described("f32", task);
  EXPECT_EQ(seen[1], 0u);
  EXPECT_EQ(seen[9], 0u);
  EXPECT_EQ(seen[13], 0u);
}

TEST_F(PtoCallTest, AllTypesHaveTheirNumbers) {
  const struct {
    pto_dtype dtype;
    const char* type;
    uint64_t number;
  } cases[] = {{PTO_F32, "f32", 0},       {PTO_F16, "f16", 1},     {PTO_I32, "i32", 2},
               {PTO_I16, "i16", 3},       {PTO_I8, "i8", 4},       {PTO_U8, "u8", 5},
               {PTO_BF16, "bf16", 6},     {PTO_I64, "i64", 7},     {PTO_U64, "u64", 8},
               {PTO_U16, "u16", 9},       {PTO_U32, "u32", 10},    {PTO_BOOL, "bool", 11},
               {PTO_U8, "fp8e4m3fn", 12}, {PTO_U8, "fp8e8m0", 13}, {PTO_U8, "fp4e2m1", 14}};
  for (const auto& [dtype, type, number] : cases) {
    ObjectTask task;
    task.Tensor(floats_, dtype, {4}).Integer(1).Integer(2);
    EXPECT_EQ(Described(type, task)[5], number) << type;
    if (number < 12) {
      EXPECT_EQ(Described("any", task)[5], number) << type;
    }
  }
}

TEST_F(PtoCallTest, ScalarsAreWords) {
  const auto words = [&](const std::string& scalars, ObjectTask task) {
    const std::vector<uint64_t> seen = Described("f32", std::move(task), scalars);
    return std::make_pair(seen[19], seen[20]);
  };
  const auto task = [&] {
    ObjectTask made;
    made.Tensor(floats_, PTO_F32, {4});
    return made;
  };
  EXPECT_EQ(
      words(", scalar f32, scalar f64", task().Float(-1.5).Float(-1.5)),
      std::make_pair(uint64_t{std::bit_cast<uint32_t>(-1.5f)}, std::bit_cast<uint64_t>(-1.5)));
  EXPECT_EQ(words(", scalar i32, scalar i64", task().Integer(-2).Integer(-3)),
            std::make_pair(~uint64_t{1}, ~uint64_t{2}));
  EXPECT_EQ(words(", scalar u32, scalar u64", task().Integer(0xffffffff).Integer(-1)),
            std::make_pair(uint64_t{0xffffffff}, ~uint64_t{0}));
  EXPECT_EQ(words(", address(0), scalar i64", task().Integer(9)),
            std::make_pair(Address(floats_), uint64_t{9}));
}

TEST_F(PtoCallTest, SecondVectorCoreIsSubBlockOne) {
  for (const uint32_t lane : {0u, 1u, 2u}) {
    ObjectTask task;
    task.Tensor(floats_, PTO_F32, {4}).Integer(1).Integer(2);
    task.context().lane = lane;
    task.context().core_kind = PTO_MIX;
    EXPECT_EQ(Described("f32", task)[21], lane == 2 ? 1u : 0u);
    task.context().core_kind = PTO_AIV;
    EXPECT_EQ(Described("f32", task)[21], 0u) << "only in a cluster";
    EXPECT_EQ(Described("f32", task)[22], 0u) << "no workspace";
    EXPECT_EQ(Described("f32", task)[23], 0u);
  }
}

TEST_F(PtoCallTest, WhatTheAbiCannotExpressFails) {
  const auto kernel =
      LoadPto("pto_scale_gcc", "in f32[] x, out f32[] y, scalar f32 f, scalar i32 s");
  const auto error = [&](const ObjectTask& task, const PtoCallInfo& info = {}) {
    const CallResult result = task.Call(*kernel, 0, 1, info);
    EXPECT_EQ(result.code, PTO_INVALID);
    return result.error;
  };
  const auto task = [&](pto_dtype dtype, std::vector<int64_t> shape, double factor = 1,
                        int64_t shift = 0) {
    ObjectTask made;
    made.Tensor(floats_, dtype, std::move(shape))
        .Tensor(floats_ + 32, PTO_F32, {2})
        .Float(factor)
        .Integer(shift);
    return made;
  };
  EXPECT_EQ(error(task(PTO_F64, {2})), "x: the kernel does not take elements of F64");
  EXPECT_EQ(error(task(PTO_F32, {int64_t{1} << 32})), "x: dimension 0 is too long for the PTO ABI");
  EXPECT_EQ(error(task(PTO_F32, {int64_t{1} << 62, 1 << 20, 1 << 20})), "x: is not a valid view");
  EXPECT_EQ(error(task(PTO_F32, {-1})), "x: is not a valid view");
  EXPECT_EQ(error(task(PTO_F32, {2}, 1e300)), "f: 1e+300 is too large for an f32");
  EXPECT_EQ(error(task(PTO_F32, {2}, 1, int64_t{1} << 31)),
            "s: 2147483648 is not in -2147483648 … 2147483647");
  EXPECT_EQ(error(ObjectTask()), "tensors: the kernel takes 2 tensors, not 0");
  EXPECT_EQ(
      error(ObjectTask().Tensor(floats_, PTO_F32, {1}).Tensor(floats_, PTO_F32, {1}).Float(1)),
      "s: the task gives no value for it");
  EXPECT_EQ(error(task(PTO_F32, {2}).Integer(1)), "scalars: the kernel takes 2 values, not 3");

  PtoBuffer buffers[2] = {{floats_ + 1, 100}, {floats_, sizeof floats_}};
  PtoCallInfo info;
  info.buffers = buffers;
  EXPECT_EQ(error(task(PTO_F32, {2}), info), "x: is not in its buffer");
  buffers[0] = {floats_, 7};
  EXPECT_EQ(error(task(PTO_F32, {2}), info), "x: is not in its buffer");
  buffers[0] = {reinterpret_cast<char*>(floats_) - 2, sizeof floats_};
  EXPECT_THAT(error(task(PTO_F32, {2}), info), HasSubstr("x: starts 2 bytes behind"));
  info.buffers = absl::MakeConstSpan(buffers, 1);
  EXPECT_EQ(error(task(PTO_F32, {2}), info), "buffers: expected one for each of 2 tensors");
}

TEST_F(PtoCallTest, DomainsAreNamedByIndex) {
  const auto kernel = LoadPto("pto_async_notify_gcc",
                              "out i32[] done, hidden nodep u32[] counter, domain, address(1)");
  uint32_t windows[3][4] = {};
  int32_t done = 0;
  const uint64_t addresses[] = {Address(windows[0]), Address(windows[1]), Address(windows[2])};
  const absl::StatusOr<PtoCommContext> domain = MakePtoCommContext(1, addresses, 16);
  ASSERT_THAT(domain, IsOk());
  PtoCallInfo info;
  info.domains = absl::MakeConstSpan(&*domain, 1);
  ObjectTask task;
  task.Tensor(&done, PTO_I32, {1}).Tensor(&windows[1][2], PTO_U32, {1}).Integer(0);
  const CallResult result = task.Call(*kernel, 0, 1, info);
  EXPECT_EQ(result.code, 0) << result.error;
  EXPECT_EQ(done, 1);
  EXPECT_EQ(windows[0][2], 1u);
  EXPECT_EQ(windows[1][2], 0u);
  EXPECT_EQ(windows[2][2], 1u);
  ASSERT_THAT(result.deferred, SizeIs(1));
  EXPECT_EQ(result.deferred[0].signal.address, &windows[1][2]);
  EXPECT_EQ(result.deferred[0].signal.dtype, static_cast<uint32_t>(PTO_U32));
  EXPECT_EQ(result.deferred[0].compare, PTO_GE);
  EXPECT_EQ(result.deferred[0].value, 2);

  ObjectTask other;
  other.Tensor(&done, PTO_I32, {1}).Tensor(&windows[1][2], PTO_U32, {1}).Integer(1);
  EXPECT_EQ(other.Call(*kernel, 0, 1, info).error, "scalar0: the task has no domain 1");
}

TEST_F(PtoCallTest, DomainsHaveAtMost64Ranks) {
  const std::vector<uint64_t> windows(65, 64);
  EXPECT_THAT(MakePtoCommContext(63, absl::MakeConstSpan(windows.data(), 64), 8), IsOk());
  EXPECT_THAT(MakePtoCommContext(0, windows, 8), HasReason(reason::kFieldInvalid));
  EXPECT_THAT(MakePtoCommContext(64, absl::MakeConstSpan(windows.data(), 64), 8),
              HasReason(reason::kFieldInvalid));
}

class PtoConditionsTest : public PtoCallTest {
 protected:
  // Registers `count` conditions of a type for an address, and reports a code.
  CallResult Register(int64_t count, int64_t type, const void* address, int64_t expected,
                      int64_t code = 0, bool deferral = true) {
    ObjectTask task;
    task.Tensor(words_, PTO_U64, {4})
        .Integer(count)
        .Integer(type)
        .Integer(static_cast<int64_t>(Address(address)))
        .Integer(expected)
        .Integer(code);
    return deferral ? task.Call(*kernel_) : task.CallWithoutDeferral(*kernel_);
  }

  alignas(64) uint64_t words_[4] = {};
  const std::unique_ptr<LoadedKernel> kernel_ =
      LoadPto("pto_conditions_gcc",
              "hidden nodep u64[], scalar i64, scalar i32, scalar u64, scalar i64, scalar i32");
};

TEST_F(PtoConditionsTest, NoneEndsTheTask) {
  const CallResult result = Register(0, 0, words_, 1);
  EXPECT_EQ(result.code, 0) << result.error;
  EXPECT_THAT(result.deferred, IsEmpty());
}

TEST_F(PtoConditionsTest, SatisfiedOnesEndTheTask) {
  words_[0] = 5;
  EXPECT_THAT(Register(1, 0, words_, 5).deferred, IsEmpty());
  EXPECT_THAT(Register(1, 1, words_, 5).deferred, IsEmpty());
  EXPECT_THAT(Register(1, 0, words_, 6).deferred, SizeIs(1));
}

TEST_F(PtoConditionsTest, CountersCompareWithoutSign) {
  words_[0] = 0x80000000u;
  EXPECT_THAT(Register(1, 0, words_, 1).deferred, IsEmpty()) << "2^31 is more than 1";
  words_[0] = 1;
  const CallResult waits = Register(1, 0, words_, 0x80000000);
  ASSERT_THAT(waits.deferred, SizeIs(1));
  EXPECT_EQ(waits.deferred[0].value, 0x80000000);
}

TEST_F(PtoConditionsTest, EventRecordsAreWide) {
  words_[1] = uint64_t{1} << 40;
  EXPECT_THAT(Register(1, 1, &words_[1], 1 << 30).deferred, IsEmpty());
  words_[1] = 1;
  const CallResult waits = Register(1, 1, &words_[1], 1 << 30);
  ASSERT_THAT(waits.deferred, SizeIs(1));
  EXPECT_EQ(waits.deferred[0].signal.dtype, static_cast<uint32_t>(PTO_U64));
  EXPECT_EQ(waits.deferred[0].signal.address, &words_[1]);
}

TEST_F(PtoConditionsTest, AtMost64) {
  EXPECT_THAT(Register(64, 0, words_, 1).deferred, SizeIs(64));
  const CallResult many = Register(65, 0, words_, 1);
  EXPECT_EQ(many.code, 102);
  EXPECT_EQ(many.error, "the kernel registered more than 64 conditions (code 102)");
  EXPECT_THAT(many.deferred, IsEmpty());
}

TEST_F(PtoConditionsTest, ErrorCodesFailTheTask) {
  const CallResult invalid = Register(1, 0, nullptr, 1);
  EXPECT_EQ(invalid.code, 101);
  EXPECT_EQ(invalid.error, "the kernel registered an invalid condition (code 101)");
  const CallResult other = Register(0, 0, words_, 1, -7);
  EXPECT_EQ(other.code, -7);
  EXPECT_EQ(other.error, "the kernel reported an error (code -7)");
}

TEST_F(PtoConditionsTest, OnlyWordsOfTheTask) {
  uint64_t elsewhere = 9;
  for (const void* const address :
       {static_cast<const void*>(&elsewhere), static_cast<const void*>(words_ + 4),
        static_cast<const void*>(reinterpret_cast<char*>(words_) + 2)}) {
    const CallResult result = Register(1, 0, address, 1);
    EXPECT_EQ(result.code, 101);
    EXPECT_THAT(result.error, HasSubstr("not an aligned word of the task's memory"));
  }
  EXPECT_EQ(Register(1, 1, reinterpret_cast<char*>(words_) + 4, 1).code, 101) << "8 bytes";
  EXPECT_EQ(Register(1, 1, words_ + 3, 1).code, 0);
}

TEST_F(PtoConditionsTest, UnknownTypesFail) {
  const CallResult result = Register(1, 2, words_, 1);
  EXPECT_EQ(result.code, 101);
  EXPECT_THAT(result.error, HasSubstr("condition 0 has type 2"));
}

TEST_F(PtoConditionsTest, WithoutDeferralTheKernelKnows) {
  const CallResult result = Register(1, 0, words_, 1, 0, false);
  EXPECT_EQ(result.code, 101);
}

TEST_F(PtoCallTest, ExceptionsStayInTheCall) {
  const auto kernel = LoadPto("pto_faults_gcc", "scalar i32");
  EXPECT_EQ(ObjectTask().Integer(0).Call(*kernel).error, "the kernel threw: out of ideas");
  const CallResult unknown = ObjectTask().Integer(1).Call(*kernel);
  EXPECT_EQ(unknown.error, "the kernel threw");
  EXPECT_NE(unknown.code, 0);
  EXPECT_EQ(ObjectTask().Integer(3).Call(*kernel).code, 0);
}

TEST_F(PtoCallTest, AWaitThatCouldGiveUpNeverCounts) {
  const auto kernel = LoadPto("pto_faults_gcc", "scalar i32");
  // The environment is wrong when the call begins.
  setenv("PTO_CPU_SIM_TWAIT_MAX_SPINS", "100000", 1);
  CallResult result = ObjectTask().Integer(3).Call(*kernel);
  EXPECT_EQ(result.code, PTO_INVALID);
  EXPECT_THAT(result.error, HasSubstr("waits of kernels can give up"));
  // The kernel itself makes it wrong, and its wait gives up.
  SetPtoEnvironment();
  result = ObjectTask().Integer(2).Call(*kernel);
  EXPECT_EQ(result.code, PTO_INVALID);
  EXPECT_THAT(result.error, HasSubstr("waits of kernels can give up"));
  // Also of a kernel whose user says that it does not block.
  SetPtoEnvironment();
  const auto denied = LoadPto("pto_faults_gcc", "scalar i32; blocks no");
  EXPECT_EQ(denied->info().flags, 0u);
  EXPECT_EQ(ObjectTask().Integer(2).Call(*denied).code, PTO_INVALID);
  SetPtoEnvironment();
}

TEST_F(PtoCallTest, AnOldWaitThatMayHaveGivenUpNeverCounts) {
  const auto object = LoadedObject::Load(testing::ObjectBytes("pto_old_wait_gcc"), "old.so");
  ASSERT_THAT(object, IsOk());
  EXPECT_EQ(CountLooks(**object), 1) << "nanosleep";
  int hook = 0;
  reinterpret_cast<void (*)(void*, void*)>((*object)->Find("pto_sim_register_hooks"))(&hook, &hook);
  PtoKernel::Setting setting;
  setting.name = "old";
  setting.entry = reinterpret_cast<PtoEntry>((*object)->Find("kernel_entry"));
  setting.signature = *PtoSignature::Parse("scalar i64 looks, scalar i64 pause");
  setting.waits = true;
  setting.give_up_looks = 10;
  const PtoKernel kernel(setting);
  pto_scalar scalars[2];
  scalars[1].i64 = 1;
  pto_context context = {};
  context.block_count = 1;
  context.core_kind = PTO_AIV;
  context.scalars = scalars;
  context.scalar_count = 2;
  // In every call anew.
  for (const int64_t looks : {9, 9, 10, 9, 11}) {
    scalars[0].i64 = looks;
    const uint64_t before = LooksOfThread();
    const PtoOutcome outcome = kernel.Call(context, {});
    EXPECT_EQ(LooksOfThread() - before, static_cast<uint64_t>(looks));
    EXPECT_EQ(outcome.code, looks < 10 ? 0 : PTO_INVALID) << outcome.error;
    if (looks >= 10) {
      EXPECT_THAT(outcome.error, HasSubstr(absl::StrCat("looked ", looks, " times")));
    }
  }
}

TEST_F(PtoCallTest, OnlyLooksOfOldObjectsAreCounted) {
  const uint64_t before = LooksOfThread();
  const auto kernel = LoadPto("pto_old_wait_gcc", "scalar i64 looks, scalar i64 pause");
  EXPECT_FALSE(kernel->report().waits_obey_host);
  EXPECT_EQ(ObjectTask().Integer(3).Integer(1).Call(*kernel).code, 0);
  EXPECT_EQ(LooksOfThread() - before, 3u);
  const timespec pause = {0, 1};
  nanosleep(&pause, nullptr);
  EXPECT_EQ(LooksOfThread() - before, 3u) << "nothing else in the process is counted";
}

}  // namespace
}  // namespace pto::host
