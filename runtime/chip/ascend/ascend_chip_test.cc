// Chips of the fake, each in a host of its own, as the daemon uses them.
#include "runtime/chip/ascend/ascend_chip.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"
#include "runtime/chip/ascend/ascend_memory.h"
#include "runtime/chip/sim/sim_chip.h"
#include "tests/fake_cann/testing/trace_check.h"

namespace pto::ascend {
namespace {

using ::pto::testing::HasReason;
using ::pto::testing::IsOk;
using ::testing::HasSubstr;

class AscendChipTest : public ::testing::Test {
 protected:
  void SetUp() override {
    static int number = 0;
    const std::string folder = absl::StrCat(std::getenv("TEST_TMPDIR"), "/cann-", ++number);
    mkdir(folder.c_str(), 0700);
    setenv("FAKE_CANN_DIR", folder.c_str(), 1);
    setenv("FAKE_CANN_PLAN", "", 1);
    trace_ = folder + "/trace";
    setenv("FAKE_CANN_TRACE", trace_.c_str(), 1);
  }

  // Hosts of chips that have ended by now kept the rules, and gave everything back.
  void ExpectOrderly() {
    const std::vector<std::string> trace = testing::ReadTrace(trace_);
    EXPECT_THAT(testing::FindBreaches(trace, /*lost=*/false), ::testing::IsEmpty());
    EXPECT_THAT(trace, ::testing::Contains(HasSubstr("aclFinalize() = 0")));
  }

  static AscendChips Find(const std::string& layout = "9", uint32_t first = 0) {
    AscendOptions options;
    options.program = "runtime/chip/ascend/host/ptod_chip_host";
    options.cann_path = absl::StrCat("tests/fake_cann/cann-", layout);
    options.start_timeout = absl::Seconds(20);
    return FindAscendChips(first, options);
  }

  std::string trace_;

  static ChipHost& HostOf(engine::Chip& chip) { return *static_cast<AscendChip&>(chip).host(); }

  // Until the chip has recovered from something that has happened already.
  static bool AwaitEpoch(ChipHost& host, uint64_t epoch) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(15);
    while (host.epoch() <= epoch || !host.AwaitReady(absl::Milliseconds(5)).ok()) {
      if (std::chrono::steady_clock::now() > until) return false;
      std::this_thread::yield();
    }
    return true;
  }
};

std::vector<uint32_t> Numbers(size_t count) {
  std::vector<uint32_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 3);
  return numbers;
}

TEST_F(AscendChipTest, FindsTheChipsOfAllLayouts) {
  for (const char* const layout : {"8.1", "8.5", "9"}) {
    const AscendChips found = Find(layout, 2);
    ASSERT_THAT(found.trouble, IsOk()) << layout;
    ASSERT_EQ(found.chips.size(), 2u);
    EXPECT_EQ(found.chips[1]->index(), 3u);
    EXPECT_EQ(found.chips[1]->spec().backend, "ascend");
    if (std::string(layout) != "8.1") {
      EXPECT_EQ(found.chips[1]->spec().clusters, 4u);
    }
    EXPECT_GT(found.chips[1]->spec().memory_bytes, uint64_t{200} << 20);
    EXPECT_EQ(found.chips[1]->Probe(), "");
  }
}

TEST_F(AscendChipTest, TheDaemonNeverOpensCann) {
  const AscendChips found = Find();
  ASSERT_EQ(found.chips.size(), 2u);
  const auto maps = [](const std::string& process) {
    std::ifstream file(absl::StrCat("/proc/", process, "/maps"));
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  };
  EXPECT_THAT(maps("self"), ::testing::Not(HasSubstr("libacl_rt.so")));
  const std::string host = maps(absl::StrCat(HostOf(*found.chips[0]).pid()));
  EXPECT_THAT(host, HasSubstr("libacl_rt.so"));
  // Found by name only: the library path of the host is sufficient.
  EXPECT_THAT(host, HasSubstr("libhcomm.so"));
}

TEST_F(AscendChipTest, WithoutCannItSaysWhy) {
  AscendOptions options;
  options.program = "runtime/chip/ascend/host/ptod_chip_host";
  options.cann_path = "/nowhere";
  const AscendChips found = FindAscendChips(0, options);
  EXPECT_TRUE(found.chips.empty());
  EXPECT_THAT(found.trouble, HasReason(reason::kCannUnusable));
  EXPECT_THAT(std::string(found.trouble.message()), HasSubstr("/nowhere is not there"));
}

TEST_F(AscendChipTest, ADriverThatFailsIsNamed) {
  setenv("FAKE_CANN_PLAN", "aclInit:1=500004", 1);
  const AscendChips found = Find();
  EXPECT_TRUE(found.chips.empty());
  EXPECT_THAT(found.trouble, HasReason(reason::kCannUnusable));
  EXPECT_THAT(std::string(found.trouble.message()), HasSubstr("DRV_FAILURE 500004"));
}

TEST_F(AscendChipTest, AHostThatDoesNotStartIsNamed) {
  AscendOptions options;
  options.program = "/no/such/program";
  options.cann_path = "tests/fake_cann/cann-9";
  options.start_timeout = absl::Seconds(5);
  const AscendChips found = FindAscendChips(0, options);
  EXPECT_TRUE(found.chips.empty());
  EXPECT_THAT(found.trouble, HasReason(reason::kHostLost));
}

TEST_F(AscendChipTest, HostsEndInOrder) {
  {
    const AscendChips found = Find();
    ASSERT_EQ(found.chips.size(), 2u);
    for (const auto& chip : found.chips) {
      auto memory = chip->memory().Allocate(100'000);
      ASSERT_THAT(memory, IsOk());
      EXPECT_THAT((*memory)->Fill(0, 100'000, std::byte{5}), IsOk());
    }
  }
  ExpectOrderly();
}

TEST_F(AscendChipTest, BytesGoThereAndBack) {
  const AscendChips found = Find();
  ASSERT_EQ(found.chips.size(), 2u);
  const std::vector<uint32_t> numbers = Numbers(1'000'003);
  const uint64_t bytes = numbers.size() * 4;
  auto memory = found.chips[0]->memory().Allocate(bytes);
  ASSERT_THAT(memory, IsOk());
  // The type has no address for the host.
  EXPECT_EQ((*memory)->AsHost(), nullptr);
  std::vector<uint32_t> back(numbers.size(), 7);
  EXPECT_THAT((*memory)->Read(0, back.data(), bytes), IsOk());
  EXPECT_EQ(back, std::vector<uint32_t>(numbers.size(), 0)) << "memory begins as zeros";
  EXPECT_THAT((*memory)->Write(0, numbers.data(), bytes), IsOk());
  EXPECT_THAT((*memory)->Read(0, back.data(), bytes), IsOk());
  EXPECT_EQ(back, numbers);
  EXPECT_THAT((*memory)->Fill(4, 8, std::byte{1}), IsOk());
  EXPECT_THAT((*memory)->Read(0, back.data(), 12), IsOk());
  EXPECT_EQ(back[0], 3u);
  EXPECT_EQ(back[1], 0x01010101u);
}

TEST_F(AscendChipTest, CopiesBetweenAllKindsOfChips) {
  const AscendChips found = Find();
  ASSERT_EQ(found.chips.size(), 2u);
  const std::shared_ptr<engine::Chip> sim = engine::SimChip::Create(2, 4, uint64_t{64} << 20);
  const std::vector<uint32_t> numbers = Numbers(600'000);
  const uint64_t bytes = numbers.size() * 4;
  std::vector<std::shared_ptr<engine::Allocation>> memories;
  for (engine::Chip* const chip : {found.chips[0].get(), found.chips[0].get(), found.chips[1].get(),
                                   sim.get(), found.chips[1].get()}) {
    auto memory = chip->memory().Allocate(bytes);
    ASSERT_THAT(memory, IsOk());
    memories.push_back(*std::move(memory));
  }
  ASSERT_THAT(memories[0]->Write(0, numbers.data(), bytes), IsOk());
  for (size_t i = 1; i < memories.size(); ++i) {
    ASSERT_THAT(memories[i]->CopyFrom(0, *memories[i - 1], 0, bytes), IsOk()) << i;
  }
  std::vector<uint32_t> back(numbers.size());
  ASSERT_THAT(memories.back()->Read(0, back.data(), bytes), IsOk());
  EXPECT_EQ(back, numbers);
}

TEST_F(AscendChipTest, MemoryIsCountedAndLimited) {
  const AscendChips found = Find();
  ASSERT_EQ(found.chips.size(), 2u);
  engine::DeviceMemory& memory = found.chips[0]->memory();
  EXPECT_THAT(memory.Allocate(memory.total_bytes() + 1), HasReason(reason::kChipMemoryExhausted));
  {
    const auto all = memory.Allocate(memory.total_bytes() - (uint64_t{40} << 20));
    EXPECT_THAT(all, IsOk());
    EXPECT_GT(memory.used_bytes(), 0u);
  }
  EXPECT_EQ(memory.used_bytes(), 0u);
  EXPECT_THAT(memory.Allocate(memory.total_bytes() - (uint64_t{40} << 20)), IsOk());
}

TEST_F(AscendChipTest, ManyThreadsCopyAtOnce) {
  const AscendChips found = Find();
  ASSERT_EQ(found.chips.size(), 2u);
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      const std::vector<uint32_t> numbers(700'000, static_cast<uint32_t>(t));
      auto memory = found.chips[t % 2]->memory().Allocate(numbers.size() * 4);
      ASSERT_THAT(memory, IsOk());
      ASSERT_THAT((*memory)->Write(0, numbers.data(), numbers.size() * 4), IsOk());
      std::vector<uint32_t> back(numbers.size());
      ASSERT_THAT((*memory)->Read(0, back.data(), numbers.size() * 4), IsOk());
      EXPECT_EQ(back, numbers);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(AscendChipTest, AFaultedChipIsResetAndOthersGoOn) {
  setenv("FAKE_CANN_PLAN", "aclrtMemsetAsync@0:2=poison,507899", 1);
  const AscendChips found = Find();
  ASSERT_EQ(found.chips.size(), 2u);
  auto before = found.chips[0]->memory().Allocate(64);
  ASSERT_THAT(before, IsOk());
  const uint64_t epoch = HostOf(*found.chips[0]).epoch();
  auto other = found.chips[1]->memory().Allocate(64);
  ASSERT_THAT(other, IsOk());
  EXPECT_THAT(found.chips[0]->memory().Allocate(64), HasReason(reason::kDeviceFailed));
  EXPECT_EQ(found.chips[1]->Probe(), "");
  EXPECT_THAT((*other)->Fill(0, 64, std::byte{1}), IsOk());
  ASSERT_TRUE(AwaitEpoch(HostOf(*found.chips[0]), epoch));
  // A fault that is over is told once.
  EXPECT_THAT(found.chips[0]->Probe(), HasSubstr("507899"));
  EXPECT_EQ(found.chips[0]->Probe(), "");
  // What was there is gone, and says so.
  int word = 0;
  EXPECT_THAT((*before)->Read(0, &word, 4), HasReason(reason::kDeviceFailed));
  EXPECT_THAT(found.chips[0]->memory().Allocate(64), IsOk());
  EXPECT_EQ(HostOf(*found.chips[0]).starts(), 1u) << "a reset is enough";
}

TEST_F(AscendChipTest, AHostThatIsKilledComesBack) {
  const AscendChips found = Find();
  ASSERT_EQ(found.chips.size(), 2u);
  ChipHost& host = HostOf(*found.chips[0]);
  const absl::Time begin = absl::Now();
  for (int i = 0; i < 3; ++i) {
    auto memory = found.chips[0]->memory().Allocate(1 << 20);
    ASSERT_THAT(memory, IsOk());
    const uint64_t epoch = host.epoch();
    ASSERT_EQ(kill(host.pid(), SIGKILL), 0);
    ASSERT_TRUE(AwaitEpoch(host, epoch));
    EXPECT_THAT((*memory)->Fill(0, 64, std::byte{1}), HasReason(reason::kDeviceFailed));
    EXPECT_EQ(found.chips[1]->Probe(), "");
  }
  EXPECT_EQ(host.starts(), 4u);
  // 100, 200 and 400 ms: hosts that become ready and die are not started ever again at once.
  EXPECT_GE(absl::Now() - begin, absl::Milliseconds(700));
}

TEST_F(AscendChipTest, ACallThatHangsEndsWithTheHost) {
  setenv("FAKE_CANN_PLAN", "aclrtMalloc@0:3=hang", 1);
  const AscendChips found = Find();
  ASSERT_EQ(found.chips.size(), 2u);
  ChipHost& host = HostOf(*found.chips[0]);
  const uint64_t epoch = host.epoch();
  absl::Status status;
  std::thread caller([&] { status = found.chips[0]->memory().Allocate(64).status(); });
  // Nobody else waits for it.
  EXPECT_THAT(found.chips[1]->memory().Allocate(64), IsOk());
  host.Insist(1, absl::Milliseconds(50));
  while (host.epoch() == epoch) {
    host.Insist(1, absl::Milliseconds(1));
    std::this_thread::yield();
  }
  caller.join();
  EXPECT_THAT(status, HasReason(reason::kHostLost));
  EXPECT_THAT(std::string(status.message()), HasSubstr("did not answer in time"));
}

TEST_F(AscendChipTest, MoreLargeCopiesThanSlotsEnd) {
  const AscendChips found = Find();
  ASSERT_EQ(found.chips.size(), 2u);
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 2 * kSlots; ++t) {
    threads.emplace_back([&, t] {
      const std::vector<uint32_t> numbers(700'000, t);
      auto memory = found.chips[0]->memory().Allocate(numbers.size() * 4);
      ASSERT_THAT(memory, IsOk());
      std::vector<uint32_t> back(numbers.size());
      for (int i = 0; i < 3; ++i) {
        ASSERT_THAT((*memory)->Write(0, numbers.data(), numbers.size() * 4), IsOk());
        ASSERT_THAT((*memory)->Read(0, back.data(), numbers.size() * 4), IsOk());
        ASSERT_EQ(back, numbers);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(AscendChipTest, WhatCrossesAResetDoesNotReachTheNewEpoch) {
  setenv("FAKE_CANN_PLAN",
         "aclrtMemsetAsync@0:2=poison,507899;aclrtResetDeviceForce@0:1=delay,1000", 1);
  {
    const AscendChips found = Find();
    ASSERT_EQ(found.chips.size(), 2u);
    ChipHost& host = HostOf(*found.chips[0]);
    engine::DeviceMemory& memory = found.chips[0]->memory();
    auto before = memory.Allocate(64);
    ASSERT_THAT(before, IsOk());
    const uint64_t epoch = host.epoch();
    EXPECT_THAT(memory.Allocate(64), HasReason(reason::kDeviceFailed));
    // The reset has been asked for, and takes a second.
    const absl::Time until = absl::Now() + absl::Milliseconds(500);
    while (host.epoch() == epoch && absl::Now() < until) std::this_thread::yield();
    EXPECT_NE(host.epoch(), epoch);
    EXPECT_NE(found.chips[0]->Probe(), "");
    EXPECT_THAT(memory.Allocate(64), HasReason(reason::kDeviceFailed));
    before->reset();
    ASSERT_TRUE(AwaitEpoch(host, epoch));
    EXPECT_THAT(memory.Allocate(64), IsOk());
  }
  // Nothing was freed that is not there, and nothing was left.
  EXPECT_THAT(testing::FindBreaches(testing::ReadTrace(trace_), /*lost=*/true),
              ::testing::IsEmpty());
}

TEST_F(AscendChipTest, MemoryThatCannotBeFilledIsGivenBack) {
  setenv("FAKE_CANN_PLAN", "aclrtMemsetAsync@0:1=207005", 1);
  {
    const AscendChips found = Find();
    ASSERT_EQ(found.chips.size(), 2u);
    EXPECT_THAT(found.chips[0]->memory().Allocate(64), HasReason(reason::kChipMemoryExhausted));
    EXPECT_THAT(found.chips[0]->memory().Allocate(64), IsOk());
  }
  ExpectOrderly();
}

TEST_F(AscendChipTest, RecoveringAChipThatIsWellKeepsItsMemory) {
  const AscendChips found = Find();
  ASSERT_EQ(found.chips.size(), 2u);
  auto memory = found.chips[0]->memory().Allocate(64);
  ASSERT_THAT(memory, IsOk());
  EXPECT_THAT(found.chips[0]->Recover(), IsOk());
  EXPECT_EQ(found.chips[0]->Probe(), "");
  EXPECT_THAT((*memory)->Fill(0, 64, std::byte{1}), IsOk());
}

TEST_F(AscendChipTest, AFaultyFirstDeviceDoesNotHideTheOthers) {
  for (const char* const plan : {"aclrtSetDevice@0:*=507899", "aclrtSetDevice@0:*=kill"}) {
    setenv("FAKE_CANN_PLAN", plan, 1);
    const AscendChips found = Find("9", 4);
    ASSERT_EQ(found.chips.size(), 2u) << plan;
    EXPECT_FALSE(found.trouble.ok());
    EXPECT_EQ(found.chips[0]->index(), 4u);
    EXPECT_NE(found.chips[0]->Probe(), "");
    EXPECT_EQ(found.chips[0]->spec().clusters, found.chips[1]->spec().clusters);
    EXPECT_EQ(found.chips[1]->index(), 5u);
    EXPECT_EQ(found.chips[1]->Probe(), "");
    EXPECT_THAT(found.chips[1]->memory().Allocate(64), IsOk());
  }
}

}  // namespace
}  // namespace pto::ascend
