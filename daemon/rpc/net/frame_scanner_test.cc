#include "daemon/rpc/net/frame_scanner.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/rpc/net/testing_frames.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pto::daemon::rpc::testing {
namespace {

using ::testing::ElementsAre;

struct Recorder {
  bool OnFrame(const Frame& frame) {
    frames.push_back(
        absl::StrCat(frame.type, "/", frame.flags, "/", frame.stream, ":", frame.length));
    return frames.size() != stop_after;
  }
  bool OnData(const Frame& frame, absl::string_view piece) {
    data += absl::StrCat(frame.stream, piece.empty() ? "?" : "", "=", piece, " ");
    bytes += std::string(piece);
    return true;
  }
  std::vector<std::string> frames;
  std::string data;
  std::string bytes;
  size_t stop_after = 0;
};

std::string Conversation() {
  return absl::StrCat(Hello(), OpenCall(1, "/a.B/C"), MakeFrame(Frame::kData, 0, 1, "hello"),
                      MakeFrame(Frame::kPing, 0, 0, "12345678"),
                      MakeFrame(Frame::kData, Frame::kEndStream, 1), ResetCall(3));
}

TEST(FrameScannerTest, FindsFrames) {
  FrameScanner scanner(FrameScanner::Start::kPreface);
  Recorder recorder;
  EXPECT_FALSE(scanner.begun());
  EXPECT_TRUE(scanner.Scan(Conversation(), recorder));
  EXPECT_TRUE(scanner.begun());
  EXPECT_THAT(recorder.frames,
              ElementsAre("4/0/0:0", absl::StrCat("1/4/1:", CallHeaders("/a.B/C").size()),
                          "0/0/1:5", "6/0/0:8", "0/1/1:0", "3/0/3:4"));
  EXPECT_EQ(recorder.bytes, "hello");
}

TEST(FrameScannerTest, PiecesDoNotMatter) {
  const std::string all = Conversation();
  Recorder whole;
  FrameScanner(FrameScanner::Start::kPreface).Scan(all, whole);
  for (size_t piece = 1; piece < all.size(); ++piece) {
    FrameScanner scanner(FrameScanner::Start::kPreface);
    Recorder recorder;
    for (size_t at = 0; at < all.size(); at += piece) {
      ASSERT_TRUE(scanner.Scan(absl::string_view(all).substr(at, piece), recorder));
    }
    ASSERT_EQ(recorder.frames, whole.frames) << piece;
    ASSERT_EQ(recorder.bytes, whole.bytes) << piece;
  }
}

TEST(FrameScannerTest, RefusesWhatIsNotHttp2) {
  Recorder recorder;
  EXPECT_FALSE(FrameScanner(FrameScanner::Start::kPreface).Scan("GET / HTTP/1.1\r\n", recorder));
  EXPECT_FALSE(FrameScanner(FrameScanner::Start::kPreface).Scan("PRI * HTTP/1.1\r\n", recorder));
  EXPECT_TRUE(recorder.frames.empty());
}

TEST(FrameScannerTest, AServerBeginsWithoutThePreface) {
  FrameScanner scanner(FrameScanner::Start::kFrames);
  Recorder recorder;
  EXPECT_TRUE(scanner.Scan(MakeFrame(Frame::kSettings, 0, 0), recorder));
  EXPECT_THAT(recorder.frames, ElementsAre("4/0/0:0"));
}

TEST(FrameScannerTest, StopsWhenTold) {
  FrameScanner scanner(FrameScanner::Start::kPreface);
  Recorder recorder;
  recorder.stop_after = 2;
  EXPECT_FALSE(scanner.Scan(Conversation(), recorder));
  EXPECT_EQ(recorder.frames.size(), 2u);
}

}  // namespace
}  // namespace pto::daemon::rpc::testing
