// Kernels of the PTO ABI in the process of a host, as the engine calls them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"
#include "runtime/host/testing/host_world.h"

namespace pto::host {
namespace {

using ::pto::host::testing::HostTask;
using ::pto::host::testing::HostWorld;
using ::pto::host::testing::TestView;
using ::pto::testing::HasReason;
using ::pto::testing::IsOk;
using ::testing::HasSubstr;

// Every test runs with the objects of both compilers.
class PtoHostTest : public ::testing::TestWithParam<const char*> {
 protected:
  PtoHostTest() : host_(world_.AddHost()) {}

  void Add(const std::string& object, const std::string& name, const std::string& signature) {
    ASSERT_THAT(world_.AddPto(host_, absl::StrCat(object, "_", GetParam()), name, signature),
                IsOk());
  }

  HostWorld world_;
  HostWorld::Host host_;
};

INSTANTIATE_TEST_SUITE_P(Compilers, PtoHostTest, ::testing::Values("gcc", "clang"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(PtoHostTest, AddsViewsInTheMiddleOfTheirBuffers) {
  Add("pto_vector_add", "vadd", "in f32[] x, in f32[] y, out f32[] z");
  float* const memory = world_.memory<float>(1);
  for (int i = 0; i < 100; ++i) memory[i] = static_cast<float>(i);
  EXPECT_THAT(world_.Run({{.kernel = "vadd",
                           .args = {{10, 20, PTO_F32}, {50, 20, PTO_F32}, {200, 20, PTO_F32}},
                           .chip = 1}}),
              IsOk());
  for (int i = 0; i < 20; ++i) EXPECT_EQ(memory[200 + i], static_cast<float>(10 + i + 50 + i));
  EXPECT_EQ(memory[199], 0);
  EXPECT_EQ(memory[220], 0);
}

TEST_P(PtoHostTest, ABadSignatureIsRefusedWithItsPlace) {
  const absl::Status refused =
      world_.AddPto(host_, absl::StrCat("pto_scale_", GetParam()), "scale", "in f32[], out what");
  EXPECT_THAT(refused, HasReason(reason::kFieldInvalid));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("element type"));
}

TEST_P(PtoHostTest, ThreeLanesOfAllClustersExchangeThroughPipes) {
  Add("pto_mix_cube", "cube", "in i32[] x, out i32[] y; core mix");
  Add("pto_mix_vector", "vector", "in i32[] x, out i32[] y; core mix");
  constexpr int kSize = 21;
  constexpr int kTasks = 8;
  // Two runs: the second one finds nothing that the first one left.
  for (int run = 0; run < 2; ++run) {
    std::vector<HostTask> tasks;
    for (int i = 0; i < kTasks; ++i) {
      const uint32_t chip = i % 2;
      int32_t* const x = world_.memory<int32_t>(chip) + 100 * i;
      for (int k = 0; k < kSize; ++k) x[k] = run + i + k;
      std::fill_n(x + 50, kSize, -1);
      tasks.push_back({.kernel = "cube",
                       .args = {{100 * i, kSize, PTO_I32}, {100 * i + 50, kSize, PTO_I32}},
                       .chip = chip,
                       .vector_kernels = {"vector", "vector"}});
    }
    EXPECT_THAT(world_.Run(tasks), IsOk());
    for (int i = 0; i < kTasks; ++i) {
      const int32_t* const y = world_.memory<int32_t>(i % 2) + 100 * i + 50;
      for (int k = 0; k < kSize; ++k) EXPECT_EQ(y[k], (run + i + k) * (run + i + k) + 1) << i;
    }
  }
}

// Windows: the second half of the memory of each chip.
class PtoDomainTest : public PtoHostTest {
 protected:
  static constexpr uint64_t kWindow = HostWorld::kBytes / 2;
  static constexpr int64_t kNumber = 4711;

  PtoDomainTest() { world_.AddDomain(host_, kNumber, kWindow, kWindow); }

  void SetInputs(float value) {
    for (uint32_t chip = 0; chip < HostWorld::kChips; ++chip) {
      float* const x = world_.memory<float>(chip);
      for (int i = 0; i < kSize; ++i) x[i] = value + static_cast<float>(100 * chip + i);
      std::fill_n(world_.memory<char>(chip) + kWindow, 4096, 0);
    }
  }
  HostTask Rank(uint32_t chip) const {
    return {.kernel = "allreduce",
            .args = {{0, kSize, PTO_F32}, {100, kSize, PTO_F32}},
            .scalars = {kNumber},
            .chip = chip};
  }
  void ExpectSums(float value) {
    for (uint32_t chip = 0; chip < HostWorld::kChips; ++chip) {
      const float* const y = world_.memory<float>(chip) + 100;
      for (int i = 0; i < kSize; ++i) EXPECT_EQ(y[i], 2 * value + static_cast<float>(100 + 2 * i));
    }
  }

  static constexpr int kSize = 16;
};

INSTANTIATE_TEST_SUITE_P(Compilers, PtoDomainTest, ::testing::Values("gcc", "clang"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(PtoDomainTest, TasksOfSingleChipsAreRanksOfADomain) {
  Add("pto_allreduce", "allreduce", "in f32[] x, out f32[] y, domain d");
  for (int round = 0; round < 5; ++round) {
    SetInputs(static_cast<float>(round));
    EXPECT_THAT(world_.Run({Rank(0), Rank(1)}), IsOk());
    ExpectSums(static_cast<float>(round));
  }
}

TEST_P(PtoDomainTest, AnotherHostKnowsTheDomainToo) {
  Add("pto_allreduce", "allreduce", "in f32[] x, out f32[] y, domain d");
  SetInputs(0);
  // The second rank does not come: the first one waits until its host is killed.
  const std::shared_ptr<engine::Run> alone = world_.Start({Rank(0)});
  world_.Cancel(*alone);
  EXPECT_THAT(world_.Await(*alone), HasReason(reason::kRunCancelled));
  SetInputs(3);
  EXPECT_THAT(world_.Run({Rank(0), Rank(1)}), IsOk());
  ExpectSums(3);
}

TEST_P(PtoDomainTest, AnUnknownDomainFailsItsTask) {
  Add("pto_allreduce", "allreduce", "in f32[] x, out f32[] y, domain d");
  host_.keeper->RemoveDomain(kNumber);
  const absl::Status failed = world_.Run({Rank(0)});
  EXPECT_THAT(failed, HasReason(reason::kKernelFailed));
  EXPECT_THAT(std::string(failed.message()), HasSubstr("d: the kernel host does not see"));
}

TEST_P(PtoDomainTest, MembersFindTheWholeWindowAroundTheirTensors) {
  // The tensor that stands for the window begins somewhere in its middle.
  Add("pto_allreduce", "allreduce",
      "in f32[] x, out f32[] y, hidden inout u8[] window, domain(2) d");
  SetInputs(7);
  EXPECT_THAT(world_.Run({{.kernel = "allreduce",
                           .args = {{0, kSize, PTO_F32},
                                    {100, kSize, PTO_F32},
                                    {static_cast<int64_t>(kWindow) + 1000, 10, PTO_U8}},
                           .members = {0, 1}}}),
              IsOk());
  ExpectSums(7);
  // The first slots are at the beginning of the window.
  EXPECT_EQ(world_.memory<float>(0)[kWindow / 4], 7);
}

}  // namespace
}  // namespace pto::host
