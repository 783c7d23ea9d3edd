#include <sys/mman.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "daemon/session/testing/session_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"

namespace pto::daemon::testing {
namespace {

using ::pto::testing::HasReason;
using ::pto::testing::IsOk;

class SharingTest : public SessionTest {
 protected:
  SharingTest() : session_(Create("s")) {
    // More than one step.
    buffer_ = MakeBuffers(*session_, {{"x", 0, 1 << 20}}).value()[0];
  }

  absl::StatusOr<bool> Step() { return session_->ShareSome(*buffer_, budget_); }
  absl::Status ShareAll() {
    while (true) {
      const absl::StatusOr<bool> all = Step();
      if (!all.ok()) return all.status();
      if (*all) return absl::OkStatus();
    }
  }

  const std::shared_ptr<engine::SharingBudget> budget_ =
      std::make_shared<engine::SharingBudget>(4, 64 << 20);
  std::shared_ptr<Session> session_;
  std::shared_ptr<SessionBuffer> buffer_;
};

TEST_F(SharingTest, ARunAfterwardsSeesAndChangesWhatIsShared) {
  // The graph has found its buffer before that moves.
  ASSERT_THAT(session_->StartRun(FillRequest()), IsOk());
  RunAll();
  ASSERT_THAT(ShareAll(), IsOk());
  const int descriptor = buffer_->memory->AsHost()->shared_descriptor();
  ASSERT_GE(descriptor, 0);
  void* const mapped = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  auto* const values = static_cast<float*>(mapped);
  EXPECT_EQ(values[3], 2.5f);
  values[3] = 0;
  ASSERT_THAT(session_->StartRun(FillRequest()), IsOk());
  RunAll();
  EXPECT_EQ(values[3], 2.5f);
  munmap(mapped, 4096);
}

TEST_F(SharingTest, NotWhileARunUsesIt) {
  ASSERT_THAT(Step(), IsOk());
  ASSERT_THAT(session_->StartRun(FillRequest()), IsOk());
  EXPECT_THAT(Step(), HasReason(reason::kBufferInUse));
  EXPECT_THAT(session_->CheckTransfer(*buffer_), HasReason(reason::kBufferInUse));
  RunAll();
  EXPECT_THAT(session_->CheckTransfer(*buffer_), IsOk());
  EXPECT_THAT(ShareAll(), IsOk());
}

TEST_F(SharingTest, NotWhatIsGone) {
  ASSERT_THAT(Step(), IsOk());
  session_->RemoveBuffer("x");
  EXPECT_THAT(Step(), HasReason(reason::kBufferUnknown));
  EXPECT_THAT(session_->CheckTransfer(*buffer_), HasReason(reason::kBufferUnknown));
  session_->End("the test wants it");
  EXPECT_THAT(Step(), HasReason(reason::kSessionEnded));
  EXPECT_THAT(session_->CheckTransfer(*buffer_), HasReason(reason::kSessionEnded));
  // Nobody but the test holds it any more.
  buffer_.reset();
  EXPECT_TRUE(budget_->AwaitReclaimed(std::chrono::minutes(1)));
  EXPECT_EQ(budget_->files(), 0u);
  EXPECT_EQ(engine_->chips()[0]->memory().used_bytes(), 0u);
}

TEST_F(SharingTest, OnlyTheKeyAttaches) {
  SessionManager::Request request;
  request.id = "keyed";
  request.attach_key = std::string(32, 'k');
  const std::shared_ptr<Session> keyed = sessions_->Create(auth::Daemon(), request).value();
  EXPECT_FALSE(keyed->Attach(""));
  EXPECT_FALSE(keyed->Attach(std::string(32, 'l')));
  EXPECT_FALSE(keyed->Attach(std::string(31, 'k')));
  EXPECT_TRUE(keyed->Attach(std::string(32, 'k')));
  EXPECT_TRUE(keyed->Attach(std::string(32, 'k')));
  // Without a key nobody does.
  EXPECT_FALSE(session_->Attach(""));
}

}  // namespace
}  // namespace pto::daemon::testing
