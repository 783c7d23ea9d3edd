#include "daemon/domain/session_memory.h"

#include <sys/mman.h>

#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"
#include "runtime/chip/sim/sim_memory.h"

namespace pto::daemon {
namespace {

using ::pto::testing::HasReason;
using ::pto::testing::IsOk;

constexpr uint64_t kBytes = 3 << 20;

// Counts what it is shown.
class TestView final : public MemoryView {
 public:
  absl::Status Show(std::shared_ptr<engine::HostAllocation> memory) override {
    EXPECT_GE(memory->shared_descriptor(), 0);
    shown[memory->data()] = std::move(memory);
    return absl::OkStatus();
  }
  void Hide(const engine::HostAllocation& memory) override { shown.erase(memory.data()); }
  void ShowDomain(const SharedDomain& domain) override { domains.insert(domain.number); }
  void HideDomain(uint64_t number) override { domains.erase(number); }

  std::map<const std::byte*, std::shared_ptr<engine::HostAllocation>> shown;
  std::set<uint64_t> domains;
};

class SessionMemoryTest : public ::testing::Test {
 protected:
  std::shared_ptr<engine::Allocation> Allocate() {
    absl::StatusOr<std::shared_ptr<engine::Allocation>> made = chip_->Allocate(kBytes);
    EXPECT_THAT(made, IsOk());
    return *std::move(made);
  }

  std::shared_ptr<engine::SimMemory> chip_ = engine::SimMemory::Create(0, 64 << 20);
  std::shared_ptr<engine::SharingBudget> budget_ =
      std::make_shared<engine::SharingBudget>(2, uint64_t{1} << 30);
  std::shared_ptr<TestView> view_ = std::make_shared<TestView>();
  std::shared_ptr<SessionMemory> memory_ = std::make_shared<SessionMemory>();
};

TEST_F(SessionMemoryTest, NewMemoryIsShownUntilNobodyHasIt) {
  memory_->ShowTo(view_, budget_);
  auto buffer = memory_->Add(Allocate());
  ASSERT_THAT(buffer, IsOk());
  engine::HostAllocation& host = *(*buffer)->AsHost();
  ASSERT_EQ(view_->shown.count(host.data()), 1u);
  // Both sides see the same zeroed bytes.
  void* const other =
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, host.shared_descriptor(), 0);
  ASSERT_NE(other, MAP_FAILED);
  auto* const bytes = static_cast<char*>(other);
  EXPECT_EQ(bytes[kBytes - 1], 0);
  bytes[kBytes - 1] = 'x';
  EXPECT_EQ(std::to_integer<char>(host.data()[kBytes - 1]), 'x');
  munmap(other, kBytes);
  // A part keeps the whole.
  std::shared_ptr<engine::Allocation> part = engine::Allocation::Part(*buffer, 64, 64);
  buffer->reset();
  EXPECT_EQ(view_->shown.size(), 1u);
  part.reset();
  EXPECT_TRUE(view_->shown.empty());
  EXPECT_EQ(chip_->used_bytes(), 0u);
}

TEST_F(SessionMemoryTest, MemoryOfBeforeIsShownWhenItHasBeenMoved) {
  auto buffer = memory_->Add(Allocate());
  ASSERT_THAT(buffer, IsOk());
  engine::HostAllocation& host = *(*buffer)->AsHost();
  std::memset(host.data(), 'a', kBytes);
  memory_->ShowTo(view_, budget_);
  EXPECT_TRUE(view_->shown.empty());
  while (host.shared_descriptor() < 0) {
    ASSERT_THAT(host.PrepareShare(budget_), IsOk());
    ASSERT_THAT(host.ShareSome(), IsOk());
  }
  ASSERT_THAT(memory_->Show(*buffer), IsOk());
  EXPECT_EQ(view_->shown.size(), 1u);
  EXPECT_EQ(std::to_integer<char>(host.data()[kBytes - 1]), 'a');
  buffer->reset();
  EXPECT_TRUE(view_->shown.empty());
}

TEST_F(SessionMemoryTest, ShowsDomainsAsLongAsTheyAreThere) {
  std::shared_ptr<void> before = memory_->AddDomain({.number = 7, .windows = {}});
  memory_->ShowTo(view_, budget_);
  const std::shared_ptr<void> after = memory_->AddDomain({.number = 8, .windows = {}});
  EXPECT_EQ(view_->domains, std::set<uint64_t>({8}));
  memory_->ShowDomains();
  EXPECT_EQ(view_->domains, std::set<uint64_t>({7, 8}));
  before.reset();
  EXPECT_EQ(view_->domains, std::set<uint64_t>({8}));
}

TEST_F(SessionMemoryTest, WithoutRoomForAnotherFileThereIsNoMemory) {
  memory_->ShowTo(view_, budget_);
  const auto first = memory_->Add(Allocate());
  const auto second = memory_->Add(Allocate());
  EXPECT_THAT(memory_->Add(Allocate()), HasReason(reason::kChipMemoryExhausted));
  EXPECT_EQ(view_->shown.size(), 2u);
  EXPECT_EQ(chip_->used_bytes(), 2 * kBytes);
}

TEST_F(SessionMemoryTest, AsksForEachFileAndGivesItBack) {
  int left = 2;
  const SessionMemory::TakeFile take = [&left]() -> absl::StatusOr<std::shared_ptr<const void>> {
    if (left == 0) return Error(reason::kChipMemoryExhausted, "a test");
    --left;
    return std::shared_ptr<const void>(&left, [&left](const void*) { ++left; });
  };
  auto before = memory_->Add(Allocate());
  memory_->ShowTo(view_, budget_, take);
  ASSERT_THAT(memory_->PrepareMove(*before), IsOk());
  ASSERT_THAT(memory_->PrepareMove(*before), IsOk());
  EXPECT_EQ(left, 1);
  auto after = memory_->Add(Allocate());
  ASSERT_THAT(after, IsOk());
  EXPECT_EQ(left, 0);
  EXPECT_THAT(memory_->Add(Allocate()), HasReason(reason::kChipMemoryExhausted));
  // The move does not take place.
  memory_->ShowTo(nullptr, nullptr);
  EXPECT_EQ(left, 1);
  after->reset();
  EXPECT_EQ(left, 2);
  before->reset();
  EXPECT_EQ(left, 2);
}

TEST_F(SessionMemoryTest, ANewViewGetsWhatItIsShownAndOnlyThatIsHidden) {
  memory_->ShowTo(view_, budget_);
  auto buffer = memory_->Add(Allocate());
  ASSERT_THAT(buffer, IsOk());
  const auto next = std::make_shared<TestView>();
  memory_->ShowTo(next, budget_);
  ASSERT_THAT(memory_->Show(*buffer), IsOk());
  EXPECT_EQ(next->shown.size(), 1u);
  // The view of before is not used any more; here it still has the memory.
  view_->shown.clear();
  buffer->reset();
  EXPECT_TRUE(next->shown.empty());
  EXPECT_EQ(chip_->used_bytes(), 0u);
}

}  // namespace
}  // namespace pto::daemon
