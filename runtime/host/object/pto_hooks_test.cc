#include "runtime/host/object/pto_hooks.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "runtime/base/status_matchers.h"

namespace pto::host {
namespace {

using ::pto::testing::HasReason;
using ::pto::testing::IsOk;

PtoPlace Place(uint64_t run, uint32_t chip, uint32_t cluster, uint32_t sub_block = 0) {
  return {.run = run, .chip = chip, .cluster = cluster, .sub_block = sub_block};
}

void* Pipe(const PtoPlace& place, uint64_t key, size_t bytes = 100) {
  const PtoPlaceScope scope(place);
  return pto_sim_get_pipe_shared_state(key, bytes);
}

TEST(PtoHooksTest, KernelsFindThemByName) {
  EXPECT_EQ(dlsym(RTLD_DEFAULT, "pto_sim_get_subblock_id"),
            reinterpret_cast<void*>(&pto_sim_get_subblock_id));
  EXPECT_EQ(dlsym(RTLD_DEFAULT, "pto_sim_get_pipe_shared_state"),
            reinterpret_cast<void*>(&pto_sim_get_pipe_shared_state));
  // Kernels that find these would use another protocol.
  for (const char* name : {"pto_cpu_sim_set_execution_context", "pto_cpu_sim_get_execution_context",
                           "pto_cpu_sim_get_shared_storage", "pto_cpu_sim_get_task_cookie"}) {
    EXPECT_EQ(dlsym(RTLD_DEFAULT, name), nullptr) << name;
  }
}

TEST(PtoHooksTest, SubBlockIsThatOfTheThread) {
  EXPECT_EQ(pto_sim_get_subblock_id(), 0u);
  {
    const PtoPlaceScope second(Place(1, 0, 0, 1));
    EXPECT_EQ(pto_sim_get_subblock_id(), 1u);
    std::thread([] { EXPECT_EQ(pto_sim_get_subblock_id(), 0u); }).join();
    {
      const PtoPlaceScope first(Place(1, 0, 0, 0));
      EXPECT_EQ(pto_sim_get_subblock_id(), 0u);
    }
    EXPECT_EQ(pto_sim_get_subblock_id(), 1u);
  }
  EXPECT_EQ(pto_sim_get_subblock_id(), 0u);
}

TEST(PtoHooksTest, PipesAreSharedInOneClusterOfOneRun) {
  void* const pipe = Pipe(Place(1, 2, 3), 4);
  ASSERT_NE(pipe, nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(pipe) % 64, 0u);
  EXPECT_EQ(Pipe(Place(1, 2, 3, 1), 4), pipe) << "from another core of the cluster";
  std::thread([&] { EXPECT_EQ(Pipe(Place(1, 2, 3), 4), pipe); }).join();
  EXPECT_NE(Pipe(Place(1, 2, 3), 5), pipe);
  EXPECT_NE(Pipe(Place(1, 2, 4), 4), pipe);
  EXPECT_NE(Pipe(Place(1, 1, 3), 4), pipe);
  EXPECT_NE(Pipe(Place(2, 2, 3), 4), pipe);
  EXPECT_EQ(Pipe(Place(1, 2, 3), 4, 101), nullptr) << "another size";
  EndPtoRun(1);
  EndPtoRun(2);
}

TEST(PtoHooksTest, PipesStartZeroedInEachRun) {
  const size_t before = PtoPipeBytes();
  for (int round = 0; round < 3; ++round) {
    auto* const bytes = static_cast<char*>(Pipe(Place(7, 0, 0), 1, 4096));
    ASSERT_NE(bytes, nullptr);
    for (int i = 0; i < 4096; ++i) ASSERT_EQ(bytes[i], 0);
    std::memset(bytes, 0xa5, 4096);
    Pipe(Place(8, 0, 0), 1, 64);
    EXPECT_EQ(PtoPipeBytes(), before + 4096 + 64);
    EndPtoRun(7);
    EXPECT_EQ(PtoPipeBytes(), before + 64) << "those of other runs stay";
    EndPtoRun(8);
    EXPECT_EQ(PtoPipeBytes(), before);
  }
  EndPtoRun(9);  // has none
}

TEST(PtoHooksTest, ThreadsThatAskTogetherGetTheSame) {
  std::vector<void*> found(8);
  std::vector<std::thread> threads;
  for (void*& pipe : found) threads.emplace_back([&] { pipe = Pipe(Place(5, 0, 0), 1); });
  for (std::thread& thread : threads) thread.join();
  for (void* const pipe : found) EXPECT_EQ(pipe, found[0]);
  EndPtoRun(5);
}

TEST(PtoHooksTest, ChecksTheEnvironment) {
  unsetenv("PTO_CPU_SIM_TWAIT_MAX_SPINS");
  EXPECT_FALSE(PtoWaitsAreEndless());
  EXPECT_THAT(CheckPtoEnvironment(), HasReason(reason::kFieldInvalid));
  SetPtoEnvironment();
  EXPECT_TRUE(PtoWaitsAreEndless());
  EXPECT_THAT(CheckPtoEnvironment(), IsOk());
  EXPECT_STREQ(getenv("PTO_CPU_SIM_L0C_BYTES"), "262144");
  setenv("PTO_CPU_SIM_TWAIT_MAX_SPINS", "100000", 1);
  EXPECT_FALSE(PtoWaitsAreEndless());
  SetPtoEnvironment();
}

}  // namespace
}  // namespace pto::host
