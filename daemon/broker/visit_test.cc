#include "daemon/broker/visit.h"

#include <memory>
#include <string>
#include <utility>

#include "daemon/session/testing/session_testing.h"
#include "gtest/gtest.h"

namespace pto::daemon::testing {
namespace {

using broker::Op;
using broker::Outcome;
using broker::Request;

class VisitTest : public SessionTest {
 protected:
  VisitTest() {
    SessionManager::Request request;
    request.id = "s";
    request.attach_key = std::string(broker::kKeyBytes, 'k');
    session_ = sessions_->Create(auth::Principal(auth::UidName(1000), {}), request).value();
    MakeBuffers(*session_, {{"x", 0, 4096}}).value();
  }

  static Request Attach(const std::string& session, char key) {
    Request request;
    request.op = Op::kAttach;
    request.name = session;
    request.key.fill(key);
    return request;
  }
  static Request Map(const std::string& buffer) {
    Request request;
    request.op = Op::kMap;
    request.name = buffer;
    return request;
  }
  // A visit with `x` as region 7.
  Visit Mapped() {
    Visit visit(*sessions_, 1000);
    EXPECT_EQ(visit.Attach(Attach("s", 'k')), Outcome::kOk);
    MappedBuffer found;
    EXPECT_EQ(visit.Find(Map("x"), &found), Outcome::kOk);
    visit.Add(7, found);
    return visit;
  }

  std::shared_ptr<Session> session_;
};

TEST_F(VisitTest, OnlyTheOwnerAttaches) {
  MappedBuffer found;
  Visit other(*sessions_, 1000);
  EXPECT_EQ(other.Find(Map("x"), &found), Outcome::kDenied);
  EXPECT_EQ(other.Attach(Attach("s", 'l')), Outcome::kDenied);
  EXPECT_EQ(other.Attach(Attach("t", 'k')), Outcome::kDenied);
  EXPECT_FALSE(other.attached());
  Visit owner(*sessions_, 1000);
  EXPECT_EQ(owner.Attach(Attach("s", 'k')), Outcome::kOk);
  EXPECT_TRUE(owner.attached());
  EXPECT_EQ(owner.Attach(Attach("s", 'k')), Outcome::kDenied);
  Visit another_user(*sessions_, 1001);
  EXPECT_EQ(another_user.Attach(Attach("s", 'k')), Outcome::kDenied);
  // Nor root, who can look at its memory anyway, but not by mistake.
  Visit root(*sessions_, 0);
  EXPECT_EQ(root.Attach(Attach("s", 'k')), Outcome::kDenied);
  Visit again(*sessions_, 1000);
  EXPECT_EQ(again.Attach(Attach("s", 'k')), Outcome::kOk);
}

TEST_F(VisitTest, FindsBuffersOfItsSession) {
  SessionManager::Request request;
  request.id = "t";
  const auto second = sessions_->Create(auth::Principal(auth::UidName(1000), {}), request).value();
  MakeBuffers(*second, {{"y", 0, 4096}}).value();
  Visit visit(*sessions_, 1000);
  ASSERT_EQ(visit.Attach(Attach("s", 'k')), Outcome::kOk);
  MappedBuffer found;
  EXPECT_EQ(visit.Find(Map("y"), &found), Outcome::kBufferGone);
  EXPECT_EQ(visit.Find(Map("x"), &found), Outcome::kOk);
  EXPECT_EQ(found.buffer.lock(), session_->FindBuffer("x").value());
}

TEST_F(VisitTest, ChecksAsATransferDoes) {
  Visit visit = Mapped();
  EXPECT_EQ(visit.Check(8), Outcome::kRegionUnknown);
  EXPECT_EQ(visit.Check(7), Outcome::kOk);
  ASSERT_TRUE(session_->StartRun(FillRequest()).ok());
  EXPECT_EQ(visit.Check(7), Outcome::kBufferInUse);
  RunAll();
  EXPECT_EQ(visit.Check(7), Outcome::kOk);
  session_->RemoveBuffer("x");
  EXPECT_EQ(visit.Check(7), Outcome::kBufferGone);
  EXPECT_FALSE(visit.over());
  session_->End("the test wants it");
  EXPECT_EQ(visit.Check(7), Outcome::kSessionGone);
  EXPECT_TRUE(visit.over());
}

TEST_F(VisitTest, KeepsNothingOfWhatIsMapped) {
  Visit visit = Mapped();
  EXPECT_GT(engine_->chips()[0]->memory().used_bytes(), 0u);
  session_->RemoveBuffer("x");
  EXPECT_EQ(engine_->chips()[0]->memory().used_bytes(), 0u);
}

TEST_F(VisitTest, ReleasesOnce) {
  Visit visit = Mapped();
  EXPECT_EQ(visit.Release(7), Outcome::kOk);
  EXPECT_EQ(visit.Release(7), Outcome::kRegionUnknown);
  EXPECT_EQ(visit.Check(7), Outcome::kRegionUnknown);
}

TEST_F(VisitTest, ACheckExtendsTheLease) {
  Visit visit = Mapped();
  const int64_t before = session_->expire_ns();
  clock_.Advance(absl::Seconds(3));
  EXPECT_EQ(visit.Check(7), Outcome::kOk);
  EXPECT_EQ(session_->expire_ns() - before, absl::ToInt64Nanoseconds(absl::Seconds(3)));
}

}  // namespace
}  // namespace pto::daemon::testing
