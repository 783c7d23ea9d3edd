#include "daemon/kernels/kernel_store.h"

#include <openssl/sha.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"

namespace pto::daemon {
namespace {

using ::pto::testing::HasReason;
using ::pto::testing::IsOk;

std::string Sha256(const std::string& data) {
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(data.data()), data.size(),
         reinterpret_cast<unsigned char*>(digest.data()));
  return digest;
}

class KernelStoreTest : public ::testing::Test {
 protected:
  static std::shared_ptr<MemoryAccount> Account(uint64_t limit = 1 << 20) {
    return std::make_shared<MemoryAccount>("client c", "max_client_memory_bytes", limit);
  }
  absl::StatusOr<std::shared_ptr<const KernelFile>> Put(const std::string& client,
                                                        const std::string& data) {
    absl::StatusOr<std::unique_ptr<KernelStore::Upload>> upload =
        store_->Begin(client, account_, data.size(), Sha256(data));
    if (!upload.ok()) return upload.status();
    const absl::Status first = (*upload)->Append(absl::string_view(data).substr(0, 3));
    if (!first.ok()) return first;
    const absl::Status rest = (*upload)->Append(absl::string_view(data).substr(3));
    if (!rest.ok()) return rest;
    return (*upload)->Finish();
  }

  std::shared_ptr<KernelStore> store_ = std::make_shared<KernelStore>(1000, 1500);
  std::shared_ptr<MemoryAccount> account_ = Account();
};

TEST_F(KernelStoreTest, KeepsTheBytesAndNobodyCanChangeThem) {
  const auto file = Put("a", "0123456789");
  ASSERT_THAT(file, IsOk());
  char bytes[16] = {};
  EXPECT_EQ(pread((*file)->descriptor.get(), bytes, sizeof bytes, 0), 10);
  EXPECT_STREQ(bytes, "0123456789");
  EXPECT_LT(pwrite((*file)->descriptor.get(), "x", 1, 0), 0);
  EXPECT_LT(ftruncate((*file)->descriptor.get(), 0), 0);
}

TEST_F(KernelStoreTest, StoresIdenticalFilesOnceAndChargesEachClientOnce) {
  const std::string data(1000, 'd');
  auto first = Put("a", data);
  ASSERT_THAT(first, IsOk());
  // This client has no room for another one, but the same file needs none.
  EXPECT_THAT(Put("a", std::string(1000, 'e')), HasReason(reason::kQuotaKernels));
  EXPECT_THAT(Put("a", data), IsOk());
  const auto other = Put("b", data);
  ASSERT_THAT(other, IsOk());
  EXPECT_EQ(first->get(), other->get());
  EXPECT_EQ(store_->stored().files, 1u);
  EXPECT_EQ(store_->stored().bytes, 1000u);
  EXPECT_EQ(account_->used(), 2000u);
  first->reset();
  EXPECT_EQ(store_->stored().files, 1u);
  EXPECT_EQ(account_->used(), 1000u);
  EXPECT_THAT(Put("a", data), IsOk());
}

TEST_F(KernelStoreTest, ChargesAFileOnceToAClientThatHasItTwice) {
  const auto first = Put("a", std::string(700, 'd'));
  auto second = Put("a", std::string(700, 'd'));
  ASSERT_THAT(second, IsOk());
  EXPECT_EQ(account_->used(), 700u);
  EXPECT_EQ(first->get(), second->get());
  EXPECT_THAT(Put("a", std::string(800, 'e')), IsOk());
  second->reset();
  EXPECT_EQ(account_->used(), 700u);
}

TEST_F(KernelStoreTest, ForgetsAFileWithItsLastUser) {
  auto file = Put("a", std::string(900, 'd'));
  ASSERT_THAT(file, IsOk());
  file->reset();
  EXPECT_EQ(store_->stored().files, 0u);
  EXPECT_EQ(account_->used(), 0u);
  EXPECT_THAT(Put("a", std::string(900, 'd')), IsOk());
}

TEST_F(KernelStoreTest, AnUploadThatIsNotFinishedLeavesNothing) {
  {
    auto upload = store_->Begin("a", account_, 1000, Sha256("x"));
    ASSERT_THAT(upload, IsOk());
    ASSERT_THAT((*upload)->Append("some"), IsOk());
    EXPECT_EQ(account_->used(), 1000u);
    EXPECT_THAT(store_->Begin("a", account_, 1000, Sha256("y")), HasReason(reason::kQuotaKernels));
  }
  EXPECT_EQ(account_->used(), 0u);
  EXPECT_EQ(store_->stored().files, 0u);
  EXPECT_THAT(store_->Begin("a", account_, 1000, Sha256("y")), IsOk());
}

TEST_F(KernelStoreTest, RefusesWhatWasNotAnnounced) {
  EXPECT_THAT(store_->Begin("a", account_, 0, Sha256("x")), HasReason(reason::kFieldInvalid));
  EXPECT_THAT(store_->Begin("a", account_, 1001, Sha256("x")), HasReason(reason::kFieldInvalid));
  EXPECT_THAT(store_->Begin("a", account_, 10, "short"), HasReason(reason::kFieldInvalid));
  auto upload = store_->Begin("a", account_, 4, Sha256("abcd"));
  ASSERT_THAT(upload, IsOk());
  ASSERT_THAT((*upload)->Append("ab"), IsOk());
  EXPECT_THAT((*upload)->Append("cde"), HasReason(reason::kFieldInvalid));
  EXPECT_THAT((*upload)->Finish(), HasReason(reason::kFieldInvalid));
  auto other = store_->Begin("a", account_, 4, Sha256("abcd"));
  ASSERT_THAT(other, IsOk());
  ASSERT_THAT((*other)->Append("abce"), IsOk());
  EXPECT_THAT((*other)->Finish(), HasReason(reason::kFieldInvalid));
}

TEST_F(KernelStoreTest, CountsInTheClientsMemory) {
  account_ = Account(500);
  EXPECT_THAT(Put("a", std::string(501, 'd')), HasReason(reason::kMemoryBudget));
  EXPECT_THAT(Put("a", std::string(500, 'd')), IsOk());
}

TEST_F(KernelStoreTest, ARepeatedUploadIsComparedAndNotStored) {
  account_ = Account(1000);
  const std::string data(1000, 'd');
  const auto first = Put("a", data);
  ASSERT_THAT(first, IsOk());
  const auto again = Put("a", data);
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(first->get(), again->get());
  auto other = store_->Begin("a", account_, 1000, Sha256(data));
  ASSERT_THAT(other, IsOk());
  ASSERT_THAT((*other)->Append(std::string(1000, 'e')), IsOk());
  EXPECT_THAT((*other)->Finish(), HasReason(reason::kFieldInvalid));
  EXPECT_EQ(account_->used(), 1000u);
}

TEST_F(KernelStoreTest, LoadedKernelsCountWithTheCopyOfTheirFile) {
  account_ = Account(3 * KernelStore::kLoadedBytes);
  const auto file = Put("a", std::string(1000, 'd'));
  ASSERT_THAT(file, IsOk());
  std::vector<std::shared_ptr<const void>> loaded;
  for (int i = 0; i < 2; ++i) {
    auto charge = store_->ChargeLoaded("a", account_, **file);
    ASSERT_THAT(charge, IsOk());
    loaded.push_back(*std::move(charge));
  }
  EXPECT_EQ(account_->used(), 1000 + 2 * (1000 + KernelStore::kLoadedBytes));
  EXPECT_THAT(store_->ChargeLoaded("a", account_, **file), HasReason(reason::kMemoryBudget));
  loaded.clear();
  EXPECT_EQ(account_->used(), 1000u);
}

TEST_F(KernelStoreTest, AClientCannotTakeAllDescriptors) {
  store_ = std::make_shared<KernelStore>(1000, 1 << 20, [] { return uint64_t{8}; });
  account_ = Account(1 << 30);
  auto file = Put("a", "one");
  ASSERT_THAT(file, IsOk());
  auto charge = store_->ChargeLoaded("a", account_, **file);
  ASSERT_THAT(charge, IsOk());
  const uint64_t used = account_->used();
  EXPECT_THAT(store_->ChargeLoaded("a", account_, **file), HasReason(reason::kQuotaKernels));
  EXPECT_THAT(Put("a", "two"), HasReason(reason::kQuotaKernels));
  EXPECT_EQ(account_->used(), used);
  EXPECT_THAT(Put("b", "two"), IsOk());
  charge->reset();
  EXPECT_THAT(Put("a", "two"), IsOk());
}

TEST_F(KernelStoreTest, UsersThatLetGoAtTheSameTimeLeaveNothing) {
  for (int i = 0; i < 1000; ++i) {
    auto a = Put("a", "data");
    auto b = Put("b", "data");
    ASSERT_THAT(a, IsOk());
    ASSERT_THAT(b, IsOk());
    std::thread other([&] { b->reset(); });
    a->reset();
    other.join();
    ASSERT_EQ(store_->known_files(), 0u);
  }
}

}  // namespace
}  // namespace pto::daemon
