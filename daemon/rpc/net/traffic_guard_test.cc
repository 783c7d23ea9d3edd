#include "daemon/rpc/net/traffic_guard.h"

#include <atomic>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "daemon/rpc/net/testing_frames.h"
#include "gtest/gtest.h"

namespace pto::daemon::rpc::testing {
namespace {

class TrafficGuardTest : public ::testing::Test {
 protected:
  TrafficGuardTest() {
    limits_.max_header_bytes = 1000;
    // Nothing comes back during a test.
    limits_.reset_burst = 100;
    limits_.resets_per_second = 1;
    limits_.frame_burst = 100;
    limits_.frames_per_second = 1;
    limits_.max_unfinished_bytes = 10'000;
    Begin();
  }
  void Begin() {
    guard_ = std::make_unique<TrafficGuard>(limits_, total_);
    EXPECT_FALSE(guard_->begun());
    EXPECT_EQ(guard_->Received(Hello()), Violation::kNone);
    EXPECT_TRUE(guard_->begun());
  }
  // How many times the bytes are taken before they are a violation, at most 1,000.
  int Repeat(const std::string& bytes, Violation expected) {
    for (int i = 0; i < 1000; ++i) {
      const Violation violation = guard_->Received(bytes);
      if (violation == Violation::kNone) continue;
      EXPECT_EQ(NameOf(violation), NameOf(expected));
      return i;
    }
    return 1000;
  }

  TrafficLimits limits_;
  std::atomic<int64_t> total_{0};
  std::unique_ptr<TrafficGuard> guard_;
};

TEST_F(TrafficGuardTest, LetsCallsPass) {
  for (uint32_t stream = 1; stream < 20'000; stream += 2) {
    ASSERT_EQ(guard_->Received(absl::StrCat(OpenCall(stream, "/a.B/C"),
                                            MakeFrame(Frame::kData, Frame::kEndStream, stream,
                                                      absl::StrCat(MessagePrefix(3), "abc")))),
              Violation::kNone);
    ASSERT_EQ(guard_->unfinished_bytes(), 0);
    ASSERT_EQ(guard_->Sent(absl::StrCat(
                  MakeFrame(Frame::kHeaders, Frame::kEndHeaders, stream, "x"),
                  MakeFrame(Frame::kData, 0, stream, absl::StrCat(MessagePrefix(3), "abc")),
                  MakeFrame(Frame::kHeaders, Frame::kEndHeaders | Frame::kEndStream, stream, "x"))),
              Violation::kNone);
  }
}

TEST_F(TrafficGuardTest, RefusesWhatIsNotHttp2) {
  guard_ = std::make_unique<TrafficGuard>(limits_, total_);
  EXPECT_EQ(guard_->Received("GET / HTTP/1.1\r\n\r\n"), Violation::kNotHttp2);
}

TEST_F(TrafficGuardTest, RefusesALongHeaderBlockWithItsFirstFrameThatIsTooMuch) {
  EXPECT_EQ(guard_->Received(MakeFrame(Frame::kHeaders, 0, 1, std::string(600, 'x'))),
            Violation::kNone);
  // Before the payload arrives.
  EXPECT_EQ(
      guard_->Received(MakeFrame(Frame::kContinuation, 0, 1, std::string(600, 'x')).substr(0, 9)),
      Violation::kHeaders);
}

TEST_F(TrafficGuardTest, ABlockEndsWithItsFlag) {
  for (uint32_t stream = 1; stream < 180; stream += 2) {
    EXPECT_EQ(
        guard_->Received(absl::StrCat(
            MakeFrame(Frame::kHeaders, 0, stream, std::string(500, 'x')),
            MakeFrame(Frame::kContinuation, Frame::kEndHeaders, stream, std::string(500, 'x')))),
        Violation::kNone);
  }
}

TEST_F(TrafficGuardTest, RefusesManyResets) {
  int resets = 0;
  Violation violation = Violation::kNone;
  for (uint32_t stream = 1; violation == Violation::kNone; stream += 2, ++resets) {
    violation = guard_->Received(absl::StrCat(OpenCall(stream, "/a.B/C"), ResetCall(stream)));
  }
  EXPECT_EQ(NameOf(violation), "resets");
  EXPECT_EQ(resets, 101);
}

TEST_F(TrafficGuardTest, RefusesManyResetsThatTheClientProvokes) {
  int resets = 0;
  while (guard_->Sent(ResetCall(1)) == Violation::kNone) ++resets;
  EXPECT_EQ(resets, 100);
}

TEST_F(TrafficGuardTest, RefusesFramesThatAreNoWork) {
  for (const uint8_t type : {Frame::kPriority, Frame::kSettings, Frame::kPing, Frame::kWindowUpdate,
                             Frame::kContinuation, static_cast<Frame::Type>(0x40)}) {
    Begin();
    // One is left out: the first settings.
    EXPECT_EQ(Repeat(MakeFrame(type, 0, 1, "1234"), Violation::kFrames), 99) << int{type};
  }
  Begin();
  EXPECT_EQ(Repeat(MakeFrame(Frame::kData, 0, 1), Violation::kFrames), 99);
  // More headers on a stream that has begun.
  Begin();
  EXPECT_EQ(Repeat(OpenCall(1, "/a.B/C"), Violation::kFrames), 100);
  Begin();
  EXPECT_EQ(Repeat(MakeFrame(Frame::kData, Frame::kPadded, 1, "x"), Violation::kFrames), 0);
}

TEST_F(TrafficGuardTest, MayAnswerWhatTheServerSends) {
  const std::string update = MakeFrame(Frame::kWindowUpdate, 0, 1, "1234");
  // A client that gets many small messages tells of each twice.
  for (int i = 0; i < 10'000; ++i) {
    ASSERT_EQ(guard_->Sent(MakeFrame(Frame::kData, 0, 1, std::string(12, 'x'))), Violation::kNone);
    ASSERT_EQ(guard_->Received(update + update), Violation::kNone) << i;
  }
  // Or several in one frame.
  ASSERT_EQ(guard_->Sent(MakeFrame(Frame::kData, 0, 1, std::string(1600, 'x'))), Violation::kNone);
  EXPECT_EQ(Repeat(update, Violation::kFrames), 100) << "not more than the burst";
  // Answers to what a client may provoke for nothing do not count.
  for (const Frame::Type type : {Frame::kSettings, Frame::kPing, Frame::kWindowUpdate}) {
    Begin();
    for (int i = 0; i < 200; ++i) guard_->Sent(MakeFrame(type, 0, 0, "12345678"));
    EXPECT_EQ(Repeat(update, Violation::kFrames), 99);
  }
}

TEST_F(TrafficGuardTest, CountsUnfinishedMessages) {
  guard_->Received(OpenCall(1, "/a.B/C"));
  guard_->Received(MakeFrame(Frame::kData, 0, 1, absl::StrCat(MessagePrefix(1000), "abc")));
  EXPECT_EQ(guard_->unfinished_bytes(), 8);
  guard_->Received(MakeFrame(Frame::kData, 0, 1, std::string(900, 'x')));
  EXPECT_EQ(guard_->unfinished_bytes(), 908);
  EXPECT_EQ(total_, 908);
  // The end, and a piece of the prefix of the next.
  guard_->Received(MakeFrame(Frame::kData, 0, 1, absl::StrCat(std::string(97, 'x'), "\0\0")));
  guard_->Received(MakeFrame(Frame::kData, 0, 1, std::string(2, '\0')));
  EXPECT_EQ(guard_->unfinished_bytes(), 2);
  // A reset by either side ends it.
  guard_->Received(ResetCall(1));
  EXPECT_EQ(guard_->unfinished_bytes(), 0);
  guard_->Received(
      absl::StrCat(OpenCall(3, "/a.B/C"), MakeFrame(Frame::kData, 0, 3, MessagePrefix(9))));
  EXPECT_EQ(guard_->unfinished_bytes(), 5);
  guard_->Sent(ResetCall(3));
  EXPECT_EQ(guard_->unfinished_bytes(), 0);
  // What was under way then is nobody's message.
  guard_->Received(MakeFrame(Frame::kData, 0, 3, "\xff\xff\xff\xff\xff\xff\xff"));
  EXPECT_EQ(guard_->unfinished_bytes(), 0);
  EXPECT_EQ(total_, 0);
}

TEST_F(TrafficGuardTest, RefusesTooManyUnfinishedBytes) {
  Violation violation = Violation::kNone;
  int64_t bytes = 0;
  for (uint32_t stream = 1; violation == Violation::kNone; stream += 2) {
    bytes = guard_->unfinished_bytes();
    violation = guard_->Received(
        absl::StrCat(OpenCall(stream, "/a.B/C"),
                     MakeFrame(Frame::kData, 0, stream,
                               absl::StrCat(MessagePrefix(1 << 20), std::string(995, 'x')))));
  }
  EXPECT_EQ(NameOf(violation), "unfinished");
  EXPECT_EQ(bytes, 10'000);
  guard_ = nullptr;
  EXPECT_EQ(total_, 0);
}

}  // namespace
}  // namespace pto::daemon::rpc::testing
