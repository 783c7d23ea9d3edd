// Buffers on a chip whose memory the host cannot dereference.

#include <memory>
#include <string>

#include "daemon/session/testing/session_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"
#include "runtime/chip/shared_file.h"
#include "runtime/chip/testing/device_only_chip.h"

namespace pto::daemon::testing {
namespace {

using ::pto::testing::HasReason;
using ::pto::testing::IsOk;
using ::testing::HasSubstr;

class DeviceOnlyTest : public SessionTest {
 protected:
  DeviceOnlyTest()
      : SessionTest({engine::testing::MakeDeviceOnlyChip(0, 1 << 20),
                     engine::SimChip::Create(1, 2, 1 << 20)}) {
    buffer_ = MakeBuffers(*session_, {{"x", 0, 64}}).value()[0];
  }

  const std::shared_ptr<Session> session_ = Create("s");
  std::shared_ptr<SessionBuffer> buffer_;
};

TEST_F(DeviceOnlyTest, BuffersAreZeroedWrittenAndRead) {
  std::string bytes;
  ASSERT_THAT(buffer_->Read(0, 64, &bytes), IsOk());
  EXPECT_EQ(bytes, std::string(64, 0));
  ASSERT_THAT(buffer_->Write(8, "abc"), IsOk());
  ASSERT_THAT(buffer_->Read(7, 5, &bytes), IsOk());
  EXPECT_EQ(bytes, std::string("\0abc\0", 5));
}

TEST_F(DeviceOnlyTest, KernelsOfTheHostAreRefused) {
  const auto run = session_->StartRun(FillRequest());
  ASSERT_THAT(run, HasReason(reason::kNotAvailable));
  EXPECT_THAT(std::string(run.status().message()),
              HasSubstr("the memory of chips/0 is not visible to the host"));
  EXPECT_EQ(buffer_->in_use.load(), 0u);
}

TEST_F(DeviceOnlyTest, DomainsAreRefusedWithAndWithoutSignals) {
  for (const uint32_t signals : {0u, 2u}) {
    DomainSpec spec;
    spec.chips = {1, 0};
    spec.buffers = {{"x", PTO_F32, 16}};
    spec.signal_count = signals;
    const auto domain = session_->domains().Create("d", spec);
    ASSERT_THAT(domain, HasReason(reason::kNotAvailable));
    EXPECT_EQ(GetErrorDetail(domain.status())->field, "chips[1]");
  }
}

TEST_F(DeviceOnlyTest, SharingIsRefused) {
  const auto budget = std::make_shared<engine::SharingBudget>(8, 1 << 20);
  const auto shared = session_->ShareSome(*buffer_, budget);
  ASSERT_THAT(shared, HasReason(reason::kNotAvailable));
  EXPECT_THAT(std::string(shared.status().message()), HasSubstr("chips/0"));
  EXPECT_EQ(budget->files(), 0u);
}

}  // namespace
}  // namespace pto::daemon::testing
