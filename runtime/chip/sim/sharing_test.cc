#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"
#include "runtime/chip/page_reclaimer.h"
#include "runtime/chip/shared_file.h"
#include "runtime/chip/sim/sim_memory.h"

namespace pto::engine {
namespace {

using ::pto::testing::HasReason;
using ::pto::testing::IsOk;

constexpr uint64_t kPage = 4096;
constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr std::chrono::minutes kLong(1);

std::shared_ptr<SharingBudget> Plenty() { return std::make_shared<SharingBudget>(8, 64 * kMiB); }

// Shares memory that is not in use.
absl::Status Share(HostAllocation& shared, const std::shared_ptr<SharingBudget>& budget,
                   int* steps = nullptr) {
  while (true) {
    if (absl::Status prepared = shared.PrepareShare(budget); !prepared.ok()) return prepared;
    const absl::StatusOr<bool> done = shared.ShareSome();
    if (!done.ok()) return done.status();
    if (steps != nullptr) ++*steps;
    if (*done) return absl::OkStatus();
  }
}

// The mapping of another process.
class View {
 public:
  View(int descriptor, uint64_t bytes)
      : bytes_(bytes),
        data_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0)) {
    EXPECT_NE(data_, MAP_FAILED);
  }
  ~View() { munmap(data_, bytes_); }
  View(const View&) = delete;
  View& operator=(const View&) = delete;
  std::byte& operator[](uint64_t i) { return static_cast<std::byte*>(data_)[i]; }

 private:
  const uint64_t bytes_;
  void* const data_;
};

TEST(SharedFileTest, NobodyChangesItsSize) {
  const auto file = SharedFile::Create(4 * kPage, Plenty());
  ASSERT_THAT(file, IsOk());
  const int descriptor = (*file)->descriptor();
  EXPECT_EQ(fcntl(descriptor, F_GET_SEALS), F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  EXPECT_NE(fcntl(descriptor, F_GETFD) & FD_CLOEXEC, 0);
  for (const off_t size : {off_t{0}, off_t{kPage}, off_t{8 * kPage}}) {
    errno = 0;
    EXPECT_EQ(ftruncate(descriptor, size), -1);
    EXPECT_EQ(errno, EPERM);
  }
  // Nor can it stop the daemon from writing.
  EXPECT_EQ(fcntl(descriptor, F_ADD_SEALS, F_SEAL_WRITE), -1);
}

TEST(SharedFileTest, ReservedPagesAreThere) {
  const auto file = SharedFile::Create(4 * kPage, Plenty());
  ASSERT_THAT(file, IsOk());
  ASSERT_THAT((*file)->Reserve(0, 2 * kPage), IsOk());
  struct stat found = {};
  ASSERT_EQ(fstat((*file)->descriptor(), &found), 0);
  EXPECT_EQ(static_cast<uint64_t>(found.st_size), 4 * kPage);
  EXPECT_EQ(static_cast<uint64_t>(found.st_blocks) * 512, 2 * kPage);
}

TEST(SharedFileTest, TheBudgetIsKept) {
  const auto budget = std::make_shared<SharingBudget>(2, 8 * kPage);
  EXPECT_THAT(SharedFile::Create(9 * kPage, budget), HasReason(reason::kChipMemoryExhausted));
  EXPECT_THAT(SharedFile::Create(UINT64_MAX, budget), HasReason(reason::kChipMemoryExhausted));
  {
    const auto one = SharedFile::Create(6 * kPage, budget);
    ASSERT_THAT(one, IsOk());
    EXPECT_THAT(SharedFile::Create(3 * kPage, budget), HasReason(reason::kChipMemoryExhausted));
    const auto two = SharedFile::Create(kPage, budget);
    ASSERT_THAT(two, IsOk());
    EXPECT_THAT(SharedFile::Create(kPage, budget), HasReason(reason::kChipMemoryExhausted));
    EXPECT_EQ(budget->files(), 2u);
    EXPECT_EQ(budget->bytes(), 7 * kPage);
    EXPECT_EQ(budget->reclaiming(), 0u);
  }
  EXPECT_TRUE(budget->AwaitReclaimed(kLong));
  EXPECT_EQ(budget->files(), 0u);
  EXPECT_EQ(budget->bytes(), 0u);
  EXPECT_THAT(SharedFile::Create(8 * kPage, budget), IsOk());
}

// A client can cause this with an endless write to the file.
TEST(SharedFileTest, WhoFreesDoesNotWaitAndPagesCountUntilTheyAreFree) {
  std::promise<void> let_go;
  PageReclaimer::Options options;
  options.punch = [hanging = let_go.get_future().share()](int, uint64_t) { hanging.wait(); };
  const auto budget = std::make_shared<SharingBudget>(8, 8 * kPage, options);
  {
    const auto file = SharedFile::Create(6 * kPage, budget);
    ASSERT_THAT(file, IsOk());
  }
  EXPECT_EQ(budget->reclaiming(), 1u);
  EXPECT_EQ(budget->files(), 1u);
  EXPECT_EQ(budget->bytes(), 6 * kPage);
  EXPECT_THAT(SharedFile::Create(3 * kPage, budget), HasReason(reason::kChipMemoryExhausted));
  let_go.set_value();
  EXPECT_TRUE(budget->AwaitReclaimed(kLong));
  EXPECT_EQ(budget->files(), 0u);
  EXPECT_EQ(budget->bytes(), 0u);
  EXPECT_THAT(SharedFile::Create(3 * kPage, budget), IsOk());
}

TEST(ShareTest, MemoryKeepsItsAddressAndContents) {
  const auto memory = SimMemory::Create(0, 64 * kMiB);
  const auto shared = memory->AllocateHost(5 * kMiB + 3).value();
  std::byte* const data = shared->data();
  for (uint64_t i = 0; i < shared->bytes(); i += 1021) data[i] = std::byte(i % 251);
  EXPECT_EQ(shared->shared_descriptor(), -1);
  int steps = 0;
  ASSERT_THAT(Share(*shared, Plenty(), &steps), IsOk());
  EXPECT_GT(steps, 1);
  ASSERT_GE(shared->shared_descriptor(), 0);
  EXPECT_EQ(shared->data(), data);
  View view(shared->shared_descriptor(), shared->bytes());
  for (uint64_t i = 0; i < shared->bytes(); i += 1021) {
    ASSERT_EQ(data[i], std::byte(i % 251)) << i;
    ASSERT_EQ(view[i], std::byte(i % 251)) << i;
  }
  // Both sides see each other's writes.
  data[7] = std::byte{42};
  EXPECT_EQ(view[7], std::byte{42});
  view[shared->bytes() - 1] = std::byte{43};
  EXPECT_EQ(data[shared->bytes() - 1], std::byte{43});
  // Sharing again changes nothing.
  const int descriptor = shared->shared_descriptor();
  ASSERT_THAT(Share(*shared, Plenty()), IsOk());
  EXPECT_EQ(shared->shared_descriptor(), descriptor);
}

TEST(ShareTest, BetweenTwoStepsEverythingIsInPlace) {
  const auto memory = SimMemory::Create(0, 64 * kMiB);
  const auto shared = memory->AllocateHost(3 * kMiB).value();
  std::fill_n(shared->data(), shared->bytes(), std::byte{1});
  const auto budget = Plenty();
  uint8_t round = 1;
  for (bool done = false; !done;) {
    ASSERT_THAT(shared->PrepareShare(budget), IsOk());
    done = shared->ShareSome().value();
    EXPECT_EQ(shared->shared_descriptor() >= 0, done);
    for (uint64_t i = 0; i < shared->bytes(); i += 997)
      ASSERT_EQ(shared->data()[i], std::byte{round});
    ++round;
    std::fill_n(shared->data(), shared->bytes(), std::byte{round});
  }
  View view(shared->shared_descriptor(), shared->bytes());
  for (uint64_t i = 0; i < shared->bytes(); i += 997) ASSERT_EQ(view[i], std::byte{round});
}

TEST(ShareTest, WithoutABudgetNothingHappens) {
  const auto memory = SimMemory::Create(0, 64 * kMiB);
  const auto shared = memory->AllocateHost(kMiB).value();
  shared->data()[0] = std::byte{5};
  const auto none = std::make_shared<SharingBudget>(0, 64 * kMiB);
  EXPECT_THAT(Share(*shared, none), HasReason(reason::kChipMemoryExhausted));
  EXPECT_EQ(shared->shared_descriptor(), -1);
  EXPECT_EQ(shared->data()[0], std::byte{5});
  EXPECT_THAT(Share(*shared, Plenty()), IsOk());
  EXPECT_EQ(shared->data()[0], std::byte{5});
}

// A client that keeps its mapping keeps none of our memory, and is not harmed.
TEST(ShareTest, ItsEndTakesThePagesBack) {
  const auto memory = SimMemory::Create(0, 64 * kMiB);
  const auto budget = Plenty();
  auto shared = memory->AllocateHost(2 * kMiB).value();
  ASSERT_THAT(Share(*shared, budget), IsOk());
  shared->data()[0] = std::byte{9};
  const int kept = dup(shared->shared_descriptor());
  ASSERT_GE(kept, 0);
  View view(kept, shared->bytes());
  EXPECT_EQ(view[0], std::byte{9});
  shared.reset();
  EXPECT_EQ(memory->used_bytes(), 0u);
  EXPECT_TRUE(budget->AwaitReclaimed(kLong));
  EXPECT_EQ(budget->files(), 0u);
  struct stat found = {};
  ASSERT_EQ(fstat(kept, &found), 0);
  EXPECT_EQ(found.st_blocks, 0);
  EXPECT_EQ(view[0], std::byte{0});
  view[1] = std::byte{1};
  close(kept);
}

TEST(ShareTest, AHoleMadeByTheOtherSideIsZeros) {
  const auto memory = SimMemory::Create(0, 64 * kMiB);
  const auto shared = memory->AllocateHost(2 * kMiB).value();
  ASSERT_THAT(Share(*shared, Plenty()), IsOk());
  std::fill_n(shared->data(), shared->bytes(), std::byte{1});
  ASSERT_EQ(fallocate(shared->shared_descriptor(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                      static_cast<off_t>(kMiB)),
            0);
  EXPECT_EQ(shared->data()[0], std::byte{0});
  EXPECT_EQ(shared->data()[kMiB], std::byte{1});
  shared->data()[0] = std::byte{2};
  EXPECT_EQ(shared->data()[0], std::byte{2});
}

TEST(ShareTest, APartCannotBeShared) {
  const auto memory = SimMemory::Create(0, 64 * kMiB);
  auto shared = memory->AllocateHost(2 * kPage).value();
  EXPECT_TRUE(shared->can_share());
  EXPECT_FALSE(Allocation::Part(shared, kPage, kPage)->AsHost()->can_share());
}

}  // namespace
}  // namespace pto::engine
