#include "daemon/kernels/session_kernels.h"

#include <openssl/sha.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/memory_account.h"
#include "runtime/base/status_matchers.h"
#include "runtime/engine/lane/lane_port.h"
#include "runtime/host/testing/host_world.h"

namespace pto::daemon {
namespace {

using ::pto::testing::HasReason;
using ::pto::testing::IsOk;

std::string ReadAll(const FileDescriptor& file) {
  std::string bytes(size_t{16} << 20, '\0');
  const ssize_t count = pread(file.get(), bytes.data(), bytes.size(), 0);
  bytes.resize(count < 0 ? 0 : static_cast<size_t>(count));
  return bytes;
}

KernelHosts::Options HostsOptions() {
  const host::HostOptions test = host::testing::TestHostOptions();
  KernelHosts::Options options;
  options.command = test.command;
  options.sandbox = test.sandbox;
  return options;
}

class SessionKernelsTest : public ::testing::Test {
 protected:
  SessionKernelsTest() {
    SessionKernels::Options options;
    options.session = "s";
    options.name = "sessions/s";
    options.client = "client";
    options.hosts = &hosts_;
    options.engine = &world_.engine();
    options.clock = &Clock::Real();
    options.built_in = &world_.kernels;
    options.charge = [this](const KernelFile& file) {
      return hosts_.store().ChargeLoaded("client", account_, file);
    };
    options.memory = std::make_shared<SessionMemory>();
    options.move_memory = [](const std::function<bool()>&) { return absl::OkStatus(); };
    kernels_ = std::make_unique<SessionKernels>(std::move(options));
    const std::string bytes = ReadAll(host::testing::TestObject());
    std::string digest(SHA256_DIGEST_LENGTH, '\0');
    SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
           reinterpret_cast<unsigned char*>(digest.data()));
    auto upload = hosts_.store().Begin("client", account_, bytes.size(), digest).value();
    EXPECT_THAT(upload->Append(bytes), IsOk());
    file_ = upload->Finish().value();
  }
  ~SessionKernelsTest() override {
    kernels_->Close();
    kernels_->EndHost();
  }

  absl::StatusOr<std::shared_ptr<const SessionKernel>> Register(const std::string& id) {
    return kernels_->Register({id, "test_kernels.so", "vector_add", "", file_, nullptr});
  }
  bool Runs(const std::string& id) const {
    const std::shared_ptr<const Kernel> kernel = kernels_->Find(id);
    return kernel != nullptr && !kernel->lane()->lost();
  }

  host::testing::HostWorld world_;
  KernelHosts hosts_{HostsOptions()};
  std::shared_ptr<MemoryAccount> account_ =
      std::make_shared<MemoryAccount>("client c", "max_client_memory_bytes", uint64_t{1} << 30);
  std::unique_ptr<SessionKernels> kernels_;
  std::shared_ptr<const KernelFile> file_;
};

TEST_F(SessionKernelsTest, TheSameUploadIsTheSameKernelUntilTheEngineGivesUpItsHost) {
  const auto first = Register("a");
  ASSERT_THAT(first, IsOk());
  ASSERT_THAT(Register("b"), IsOk());
  EXPECT_EQ(*Register("a"), *first);
  (*first)->kernel->lane()->Lose("a test", 0);
  EXPECT_FALSE(Runs("a"));
  const auto again = Register("a");
  ASSERT_THAT(again, IsOk());
  EXPECT_NE(*again, *first);
  EXPECT_TRUE(Runs("a"));
  EXPECT_TRUE(Runs("b"));
  EXPECT_EQ(*Register("a"), *again);
  EXPECT_EQ(kernels_->size(), 2u);
}

TEST_F(SessionKernelsTest, EachKernelCountsUntilNobodyUsesIt) {
  const uint64_t each = file_->bytes + KernelStore::kLoadedBytes;
  const uint64_t before = account_->used();
  auto first = Register("a");
  ASSERT_THAT(first, IsOk());
  ASSERT_THAT(Register("b"), IsOk());
  ASSERT_THAT(Register("b"), IsOk());
  EXPECT_EQ(account_->used(), before + 2 * each);
  account_->SetLimit(account_->used() + each - 1);
  EXPECT_THAT(Register("c"), HasReason(reason::kMemoryBudget));
  std::shared_ptr<const Kernel> of_a_graph = (*first)->kernel;
  *first = nullptr;
  ASSERT_THAT(kernels_->Remove("a"), IsOk());
  EXPECT_EQ(account_->used(), before + 2 * each);
  of_a_graph.reset();
  EXPECT_EQ(account_->used(), before + each);
}

TEST_F(SessionKernelsTest, RunsShareTheIdentitiesOfTheirKernels) {
  const auto kernel = Register("a");
  ASSERT_THAT(kernel, IsOk());
  const std::vector<std::shared_ptr<const Kernel>> used = {(*kernel)->kernel};
  const std::shared_ptr<const UsedKernels> one = kernels_->UsedBy(used);
  const std::shared_ptr<const UsedKernels> two = kernels_->UsedBy(used);
  ASSERT_NE(one, nullptr);
  EXPECT_EQ((*one)[0], (*two)[0]);
  EXPECT_EQ((*one)[0]->hash.size(), size_t{SHA256_DIGEST_LENGTH});
  EXPECT_EQ(kernels_->FindChanged(*one), "");
}

}  // namespace
}  // namespace pto::daemon
