#include "runtime/chip/sim/page_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"
#include "runtime/chip/mapping_budget.h"
#include "runtime/chip/shared_file.h"
#include "runtime/chip/sim/sim_memory.h"

namespace pto::engine {
namespace {

using ::pto::testing::HasReason;
using ::pto::testing::IsOk;
using ::testing::HasSubstr;

constexpr uint64_t kPage = PagePool::kPage;
constexpr uint64_t kMiB = uint64_t{1} << 20;

// Refuses calls as the kernel does when the process has no more mappings.
class StubbornPager final : public Pager {
 public:
  std::byte* Map(std::byte* at, uint64_t bytes) override {
    if (Refuses(at == nullptr ? refuse_map : refuse_map_over)) return nullptr;
    if (at == nullptr) ++maps;
    return Pager::Map(at, bytes);
  }
  bool Unmap(std::byte* data, uint64_t bytes) override {
    return !Refuses(refuse_unmap) && Pager::Unmap(data, bytes);
  }
  bool Empty(std::byte* data, uint64_t bytes) override {
    return !Refuses(refuse_empty) && Pager::Empty(data, bytes);
  }

  std::atomic<bool> refuse_map{false};
  std::atomic<bool> refuse_map_over{false};
  std::atomic<bool> refuse_unmap{false};
  std::atomic<bool> refuse_empty{false};
  std::atomic<int> maps{0};

 private:
  static bool Refuses(const std::atomic<bool>& refuse) {
    if (refuse) errno = ENOMEM;
    return refuse;
  }
};

std::shared_ptr<MappingBudget> Mappings(uint64_t limit = 1000) {
  return std::make_shared<MappingBudget>(limit);
}

// The resident pages of a range.
uint64_t Resident(std::byte* data, uint64_t bytes) {
  std::vector<unsigned char> pages(bytes / kPage);
  EXPECT_EQ(mincore(data, bytes, pages.data()), 0);
  return static_cast<uint64_t>(std::count_if(pages.begin(), pages.end(),
                                             [](unsigned char page) { return (page & 1) != 0; }));
}

uint64_t MappingsOfThisProcess() {
  std::ifstream file("/proc/self/maps");
  uint64_t count = 0;
  for (std::string line; std::getline(file, line);) ++count;
  return count;
}

bool IsZero(const std::byte* data, uint64_t bytes) {
  return std::all_of(data, data + bytes, [](std::byte b) { return b == std::byte{0}; });
}

TEST(PagePoolTest, SmallRangesShareAMappingAndNoPage) {
  const auto mappings = Mappings();
  PagePool pool(mappings);
  std::vector<std::byte*> ranges;
  for (int i = 0; i < 200; ++i) {
    ranges.push_back(pool.Take(kPage).value());
    EXPECT_EQ(reinterpret_cast<uintptr_t>(ranges.back()) % kPage, 0u);
  }
  EXPECT_EQ(mappings->used(), 1u);
  std::sort(ranges.begin(), ranges.end());
  EXPECT_EQ(std::adjacent_find(ranges.begin(), ranges.end()), ranges.end());
  for (std::byte* const range : ranges) pool.Give(range, kPage);
  // One arena stays for the next one.
  EXPECT_EQ(pool.stats().mappings, 1u);
  EXPECT_EQ(pool.stats().free_ranges, 1u);
}

// The finding: with a mapping for each buffer, to delete every second one makes as many mappings as
// there are buffers, until the kernel refuses to unmap more and their pages stay.
TEST(PagePoolTest, DeletingEverySecondRangeMakesNoMappingsAndFreesItsPages) {
  const auto memory = SimMemory::Create(0, 64 * kMiB, Mappings());
  constexpr int kCount = 4096;
  const uint64_t before = MappingsOfThisProcess();
  std::vector<std::shared_ptr<HostAllocation>> buffers;
  for (int i = 0; i < kCount; ++i) {
    buffers.push_back(memory->AllocateHost(1).value());
    buffers.back()->data()[0] = std::byte{1};
  }
  std::vector<std::byte*> freed;
  for (int i = 0; i < kCount; i += 2) {
    freed.push_back(buffers[static_cast<size_t>(i)]->data());
    buffers[static_cast<size_t>(i)].reset();
  }
  EXPECT_LT(MappingsOfThisProcess(), before + 100);
  EXPECT_EQ(memory->used_bytes(), kCount / 2 * kPage);
  for (std::byte* const data : freed) ASSERT_EQ(Resident(data, kPage), 0u);
  for (int i = 1; i < kCount; i += 2) {
    ASSERT_EQ(buffers[static_cast<size_t>(i)]->data()[0], std::byte{1}) << i;
  }
}

TEST(PagePoolTest, ALargeRangeHasItsOwnMappingAndItsPagesGoWithIt) {
  const auto mappings = Mappings();
  StubbornPager pager;
  PagePool pool(mappings, pager);
  std::byte* const large = pool.Take(8 * kMiB).value();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(large) % PagePool::kLargePage, 0u);
  std::byte* const small = pool.Take(kPage).value();
  EXPECT_EQ(mappings->used(), 2u);
  pool.Give(large, 8 * kMiB);
  EXPECT_EQ(mappings->used(), 1u);
  pool.Give(small, kPage);
  EXPECT_EQ(pager.maps, 2);
  EXPECT_EQ(pool.stats().refused, 0u);
}

TEST(PagePoolTest, WhatCannotBeUnmappedHasNoPagesAndIsUsedAgain) {
  const auto mappings = Mappings();
  StubbornPager pager;
  PagePool pool(mappings, pager);
  std::byte* const large = pool.Take(2 * kMiB).value();
  std::fill(large, large + 2 * kMiB, std::byte{0xa5});
  pager.refuse_unmap = true;
  pool.Give(large, 2 * kMiB);
  EXPECT_EQ(pool.stats().refused, 1u);
  EXPECT_EQ(Resident(large, 2 * kMiB), 0u);
  EXPECT_EQ(mappings->used(), 1u);
  // A small range comes from there, and it is zero.
  std::byte* const small = pool.Take(16 * kPage).value();
  EXPECT_GE(small, large);
  EXPECT_LT(small, large + 2 * kMiB);
  EXPECT_TRUE(IsZero(small, 16 * kPage));
  EXPECT_EQ(mappings->used(), 1u);
  pool.Give(small, 16 * kPage);
  // When the host allows it again, it goes.
  std::byte* const other = pool.Take(2 * kMiB).value();
  pager.refuse_unmap = false;
  pool.Give(other, 2 * kMiB);
  EXPECT_EQ(mappings->used(), 0u);
}

TEST(PagePoolTest, NobodySeesWhatCouldNotBeFreed) {
  StubbornPager pager;
  PagePool pool(Mappings(), pager);
  for (const bool refuse_both : {false, true}) {
    std::byte* const range = pool.Take(4 * kPage).value();
    std::fill(range, range + 4 * kPage, std::byte{0xa5});
    pager.refuse_empty = true;
    pager.refuse_map_over = refuse_both;
    pool.Give(range, 4 * kPage);
    pager.refuse_empty = false;
    pager.refuse_map_over = false;
    std::byte* const again = pool.Take(4 * kPage).value();
    EXPECT_EQ(again, range);
    EXPECT_TRUE(IsZero(again, 4 * kPage));
    pool.Give(again, 4 * kPage);
  }
  EXPECT_EQ(pool.stats().refused, 2u);
}

TEST(PagePoolTest, BeforeTheLastMappingItRefuses) {
  const auto mappings = Mappings(4);
  const auto memory = SimMemory::Create(2, 1024 * kMiB, mappings);
  std::vector<std::shared_ptr<HostAllocation>> held;
  absl::Status refused;
  for (int i = 0; i < 100 && refused.ok(); ++i) {
    absl::StatusOr<std::shared_ptr<HostAllocation>> one = memory->AllocateHost(kMiB);
    refused = one.status();
    if (one.ok()) held.push_back(*std::move(one));
  }
  // More than four: from half of them on, ranges share.
  EXPECT_GT(held.size(), 4u);
  ASSERT_THAT(refused, HasReason(reason::kChipMemoryExhausted));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("chips/2 cannot allocate 1048576 bytes"));
  const ErrorDetail detail = *GetErrorDetail(refused);
  ASSERT_TRUE(detail.quota.has_value());
  EXPECT_EQ(detail.quota->name, "mappings");
  EXPECT_EQ(detail.quota->limit, 4u);
  EXPECT_THAT(detail.hint, HasSubstr("vm.max_map_count"));
  EXPECT_LE(mappings->used(), 4u);
  EXPECT_EQ(memory->used_bytes(), held.size() * kMiB);
  held.pop_back();
  EXPECT_THAT(memory->AllocateHost(kMiB), IsOk());
  held.clear();
  EXPECT_THAT(memory->AllocateHost(64 * kMiB), IsOk());
}

TEST(PagePoolTest, TheHostsRefusalIsAnError) {
  StubbornPager pager;
  const auto memory = SimMemory::Create(1, 64 * kMiB, Mappings(), pager);
  pager.refuse_map = true;
  for (const uint64_t bytes : {uint64_t{1}, 8 * kMiB}) {
    const auto refused = memory->AllocateHost(bytes);
    ASSERT_THAT(refused, HasReason(reason::kChipMemoryExhausted));
    EXPECT_THAT(std::string(refused.status().message()), HasSubstr("Cannot allocate memory"));
  }
  EXPECT_EQ(memory->used_bytes(), 0u);
  pager.refuse_map = false;
  EXPECT_THAT(memory->AllocateHost(1), IsOk());
}

absl::Status Share(HostAllocation& memory, const std::shared_ptr<SharingBudget>& budget) {
  while (true) {
    if (absl::Status prepared = memory.PrepareShare(budget); !prepared.ok()) return prepared;
    const absl::StatusOr<bool> done = memory.ShareSome();
    if (!done.ok()) return done.status();
    if (*done) return absl::OkStatus();
  }
}

// A buffer that a client maps is in a file of its own: what is beside it in the arena is not, and
// whoever gets its place later does not share it.
TEST(PagePoolTest, SharedRangesShowNobodyElsesBytes) {
  const auto mappings = Mappings();
  const auto memory = SimMemory::Create(0, 64 * kMiB, mappings);
  const auto budget = std::make_shared<SharingBudget>(8, 64 * kMiB);
  const auto before = memory->AllocateHost(1).value();
  auto shared = memory->AllocateHost(1).value();
  const auto after = memory->AllocateHost(1).value();
  before->data()[0] = after->data()[0] = std::byte{7};
  ASSERT_THAT(Share(*shared, budget), IsOk());
  EXPECT_EQ(mappings->used(), 1 + PagePool::kSharedMappings);
  void* const view =
      mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, shared->shared_descriptor(), 0);
  ASSERT_NE(view, MAP_FAILED);
  auto* const bytes = static_cast<std::byte*>(view);
  EXPECT_TRUE(IsZero(bytes, kPage));
  std::fill(bytes, bytes + kPage, std::byte{9});
  EXPECT_EQ(shared->data()[0], std::byte{9});
  EXPECT_EQ(before->data()[0], std::byte{7});
  EXPECT_EQ(after->data()[0], std::byte{7});
  std::byte* const place = shared->data();
  shared.reset();
  EXPECT_EQ(mappings->used(), 1u);
  const auto next = memory->AllocateHost(1).value();
  EXPECT_EQ(next->data(), place);
  EXPECT_TRUE(IsZero(next->data(), kPage));
  std::fill(bytes, bytes + kPage, std::byte{9});
  EXPECT_TRUE(IsZero(next->data(), kPage));
  munmap(view, kPage);
  EXPECT_TRUE(budget->AwaitReclaimed(std::chrono::minutes(1)));
}

// The place of a shared buffer is used again only when the file is not there any more.
TEST(PagePoolTest, APlaceThatStillShowsAFileIsNotUsed) {
  StubbornPager pager;
  const auto mappings = Mappings();
  const auto memory = SimMemory::Create(0, 64 * kMiB, mappings, pager);
  const auto budget = std::make_shared<SharingBudget>(8, 64 * kMiB);
  const auto stays = memory->AllocateHost(1).value();
  auto shared = memory->AllocateHost(1).value();
  ASSERT_THAT(Share(*shared, budget), IsOk());
  std::byte* const place = shared->data();
  pager.refuse_map_over = true;
  shared.reset();
  EXPECT_EQ(memory->used_bytes(), kPage);
  EXPECT_EQ(mappings->used(), 1 + PagePool::kSharedMappings);
  EXPECT_NE(memory->AllocateHost(1).value()->data(), place);
  pager.refuse_map_over = false;
  // Tried again with the next request.
  EXPECT_THAT(memory->AllocateHost(1), IsOk());
  EXPECT_EQ(mappings->used(), 1u);
  EXPECT_TRUE(budget->AwaitReclaimed(std::chrono::minutes(1)));
}

TEST(PagePoolTest, WithoutMappingsNothingIsShared) {
  const auto memory = SimMemory::Create(0, 64 * kMiB, Mappings(2));
  const auto budget = std::make_shared<SharingBudget>(8, 64 * kMiB);
  const auto buffer = memory->AllocateHost(1).value();
  const absl::Status refused = Share(*buffer, budget);
  ASSERT_THAT(refused, HasReason(reason::kChipMemoryExhausted));
  EXPECT_EQ(GetErrorDetail(refused)->quota->name, "mappings");
  buffer->data()[0] = std::byte{1};
  EXPECT_TRUE(budget->AwaitReclaimed(std::chrono::minutes(1)));
  EXPECT_EQ(budget->files(), 0u);
}

// Threads take and give ranges of random sizes, some of which are shared meanwhile, while the host
// refuses calls now and then. Each range keeps what was written to it, and new ones are zero.
TEST(PagePoolTest, ThreadsNeverSeeEachOthersBytes) {
  StubbornPager pager;
  const auto mappings = Mappings(200);
  auto memory = SimMemory::Create(0, 256 * kMiB, mappings, pager);
  const auto budget = std::make_shared<SharingBudget>(64, 64 * kMiB);
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      struct Held {
        std::shared_ptr<HostAllocation> memory;
        std::byte mark;
      };
      std::vector<Held> held;
      const auto check = [](const Held& one) {
        const std::byte* const data = one.memory->data();
        for (uint64_t i = 0; i < one.memory->bytes(); i += 509) {
          ASSERT_EQ(data[i], one.mark);
        }
      };
      for (int i = 0; i < 600; ++i) {
        if (t == 0) {
          pager.refuse_unmap = random() % 3 == 0;
          pager.refuse_map_over = random() % 3 == 0;
          pager.refuse_empty = random() % 3 == 0;
        }
        // Mostly small, sometimes with a mapping of its own.
        const uint64_t most = random() % 50 == 0 ? 5 * kMiB : 8 * kPage;
        const auto made = memory->AllocateHost(1 + random() % most);
        if (made.ok()) {
          Held one{*made, static_cast<std::byte>(1 + random() % 255)};
          for (uint64_t b = 0; b < one.memory->bytes(); b += 509) {
            ASSERT_EQ(one.memory->data()[b], std::byte{0});
          }
          std::fill(one.memory->data(), one.memory->data() + one.memory->bytes(), one.mark);
          if (random() % 8 == 0) (void)Share(*one.memory, budget);
          held.push_back(std::move(one));
        }
        if (held.size() > 20 || (!made.ok() && !held.empty())) {
          std::swap(held[random() % held.size()], held.back());
          check(held.back());
          held.pop_back();
        }
      }
      for (const Held& one : held) check(one);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(memory->used_bytes(), 0u);
  EXPECT_LE(mappings->used(), mappings->limit());
  EXPECT_TRUE(budget->AwaitReclaimed(std::chrono::minutes(1)));
  pager.refuse_unmap = pager.refuse_map_over = pager.refuse_empty = false;
  memory.reset();
  EXPECT_EQ(mappings->used(), 0u);
}

}  // namespace
}  // namespace pto::engine
