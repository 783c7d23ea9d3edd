#include "runtime/host/ring.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/base/error.h"
#include "runtime/base/sanitized.h"
#include "runtime/base/status_matchers.h"
#include "runtime/host/futex.h"

namespace pto::host {
namespace {

using ::pto::testing::HasReason;
using ::pto::testing::IsOk;
using ::testing::HasSubstr;

constexpr uint64_t kBytes = 256;

class RingTest : public ::testing::Test {
 protected:
  bool Write(const std::string& text) {
    const auto* const bytes = reinterpret_cast<const std::byte*>(text.data());
    const absl::StatusOr<bool> written = writer_.Write(absl::MakeConstSpan(bytes, text.size()));
    EXPECT_THAT(written, IsOk());
    return *written;
  }
  // "-" if there is none.
  std::string Read() {
    std::vector<std::byte> bytes;
    const absl::StatusOr<bool> read = reader_.Read(&bytes);
    EXPECT_THAT(read, IsOk());
    if (!*read) return "-";
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  absl::Status ReadStatus() {
    std::vector<std::byte> bytes;
    return reader_.Read(&bytes).status();
  }

  const std::unique_ptr<RingHeader> header_ = std::make_unique<RingHeader>();
  alignas(8) std::byte data_[kBytes] = {};
  const RingMemory memory_{header_.get(), data_, kBytes};
  RingWriter writer_{memory_};
  RingReader reader_{memory_};
};

TEST_F(RingTest, MessagesComeInOrderOncePublished) {
  EXPECT_EQ(Read(), "-");
  EXPECT_TRUE(Write("one"));
  EXPECT_TRUE(Write(""));
  EXPECT_EQ(Read(), "-");
  EXPECT_EQ(writer_.Publish(), 0u);
  EXPECT_EQ(Read(), "one");
  EXPECT_EQ(Read(), "");
  EXPECT_EQ(Read(), "-");
}

TEST_F(RingTest, GoesRound) {
  for (int i = 0; i < 1000; ++i) {
    const std::string text(i % 120, static_cast<char>('a' + i % 26));
    ASSERT_TRUE(Write(text)) << i;
    writer_.Publish();
    ASSERT_EQ(Read(), text) << i;
  }
}

TEST_F(RingTest, AFullRingTakesNoMore) {
  int written = 0;
  while (Write("12345678")) ++written;
  EXPECT_EQ(written, static_cast<int>(kBytes / 16));
  writer_.Publish();
  EXPECT_EQ(Read(), "12345678");
  EXPECT_TRUE(Write("next"));
  EXPECT_FALSE(Write("no room"));
}

TEST_F(RingTest, WakesOnlyThoseWhoSleep) {
  Write("a");
  EXPECT_EQ(writer_.Publish(), 0u);
  Read();
  ASSERT_TRUE(reader_.BeginSleep());
  ASSERT_TRUE(reader_.BeginSleep());
  Write("a");
  EXPECT_EQ(writer_.Publish(), 1u);
  // The same wake-up serves nobody twice: two messages wait, one thread was woken for each.
  Write("b");
  EXPECT_EQ(writer_.Publish(), 1u);
  EXPECT_EQ(writer_.Publish(), 0u);
}

TEST_F(RingTest, WakesNobodyForAMessageThatASpinnerTakes) {
  ASSERT_TRUE(reader_.BeginSleep());
  reader_.BeginSpin();
  Write("a");
  EXPECT_EQ(writer_.Publish(), 0u);
  Write("b");
  EXPECT_EQ(writer_.Publish(), 1u);
  reader_.EndSpin();
}

TEST_F(RingTest, WhoTakesAMessagePassesTheRestOn) {
  ASSERT_TRUE(reader_.BeginSleep());
  reader_.BeginSpin();
  Write("a");
  EXPECT_EQ(writer_.Publish(), 0u);
  EXPECT_EQ(Read(), "a");
  // It was counted as one that will take this, but has something to do now.
  Write("b");
  EXPECT_EQ(writer_.Publish(), 0u);
  reader_.EndSpin();
  EXPECT_TRUE(reader_.PassOn());
  EXPECT_FALSE(reader_.PassOn());
}

TEST_F(RingTest, NobodySleepsOverAMessage) {
  Write("a");
  writer_.Publish();
  EXPECT_FALSE(reader_.BeginSleep());
  EXPECT_FALSE(reader_.BeginOnlySleep());
  EXPECT_EQ(Read(), "a");
  EXPECT_TRUE(reader_.BeginOnlySleep());
}

// ---- the other side does not keep to the rules

TEST_F(RingTest, AReaderBelievesNoPosition) {
  for (const uint64_t tail : {uint64_t{kBytes + 8}, uint64_t{3}, UINT64_MAX - 7}) {
    header_->tail = tail;
    EXPECT_THAT(ReadStatus(), HasReason(reason::kHostLost)) << tail;
  }
  Write("a");
  writer_.Publish();
  EXPECT_EQ(Read(), "a");
  header_->tail = 0;
  EXPECT_THAT(ReadStatus(), HasReason(reason::kHostLost));
}

TEST_F(RingTest, AReaderBelievesNoSize) {
  Write("0123456789");
  writer_.Publish();
  for (const uint32_t size : {17u, 128u, 129u, 0x80000000u, 0xffffffffu}) {
    std::memcpy(data_, &size, sizeof size);
    EXPECT_THAT(ReadStatus(), HasReason(reason::kHostLost)) << size;
  }
  const uint32_t right = 10;
  std::memcpy(data_, &right, sizeof right);
  EXPECT_EQ(Read(), "0123456789");
}

TEST_F(RingTest, AReaderDoesNotBelieveItsOwnPositionInTheRing) {
  for (int i = 0; i < 3; ++i) Write(absl::StrCat("message ", i));
  writer_.Publish();
  EXPECT_EQ(Read(), "message 0");
  header_->head = 12345;
  header_->taken = 77;
  EXPECT_EQ(Read(), "message 1");
}

TEST_F(RingTest, AWriterBelievesNoPosition) {
  while (Write("12345678")) {
  }
  writer_.Publish();
  const std::string text(8, 'x');
  const auto message =
      absl::MakeConstSpan(reinterpret_cast<const std::byte*>(text.data()), text.size());
  for (const uint64_t head : {uint64_t{kBytes + 16}, uint64_t{5}, UINT64_MAX}) {
    header_->head = head;
    const absl::StatusOr<bool> written = writer_.Write(message);
    EXPECT_THAT(written, HasReason(reason::kHostLost)) << head;
    EXPECT_THAT(std::string(written.status().message()), HasSubstr("the ring is broken"));
  }
  header_->head = 16;
  EXPECT_TRUE(Write(text));
  // Backwards.
  header_->head = 0;
  EXPECT_THAT(writer_.Write(message), HasReason(reason::kHostLost));
}

TEST_F(RingTest, WrongCountersOnlyCostWakeUps) {
  header_->sleepers = 0xffffffff;
  header_->spinners = 0xffffffff;
  header_->taken = 0x80000000;
  Write("a");
  writer_.Publish();
  header_->spinners = 0;
  Write("b");
  writer_.Publish();
  EXPECT_EQ(Read(), "a");
  EXPECT_EQ(Read(), "b");
}

// Several threads read, all sleep now and then, and nothing is lost or read twice.
TEST(RingThreadsTest, ManyReadersAndNoLostWakeUp) {
  constexpr uint64_t kSize = 4096;
  constexpr int kReaders = 3;
  const uint32_t messages = kSanitized ? 20'000 : 200'000;
  const auto header = std::make_unique<RingHeader>();
  std::vector<uint64_t> data(kSize / 8);
  const RingMemory memory{header.get(), reinterpret_cast<std::byte*>(data.data()), kSize};
  RingWriter writer(memory);
  RingReader reader(memory);
  std::vector<std::atomic<int>> seen(messages);
  std::atomic<uint32_t> total{0};
  std::atomic<bool> stop{false};
  std::mutex mutex;
  const auto take = [&] {
    std::vector<std::byte> bytes;
    std::lock_guard<std::mutex> lock(mutex);
    if (!reader.Read(&bytes).value()) return false;
    uint32_t number = 0;
    std::memcpy(&number, bytes.data(), sizeof number);
    ++seen[number];
    ++total;
    return true;
  };
  std::vector<std::thread> readers;
  for (int i = 0; i < kReaders; ++i) {
    readers.emplace_back([&, i] {
      while (!stop) {
        if (take()) {
          if (reader.PassOn()) FutexWake(reader.word(), 1);
          continue;
        }
        if (i == 0) {
          reader.BeginSpin();
          const bool taken = take();
          reader.EndSpin();
          if (taken) {
            if (reader.PassOn()) FutexWake(reader.word(), 1);
            continue;
          }
        }
        const uint32_t ticket = reader.word().load();
        if (reader.BeginSleep() && !stop) FutexWait(reader.word(), ticket);
      }
    });
  }
  for (uint32_t i = 0; i < messages;) {
    const auto bytes = absl::MakeConstSpan(reinterpret_cast<const std::byte*>(&i), sizeof i);
    if (writer.Write(bytes).value()) {
      ++i;
      if (i % 7 != 0 && i != messages) continue;
    }
    if (const uint32_t count = writer.Publish(); count > 0) FutexWake(header->word, count);
    if (i % 1000 == 0) std::this_thread::yield();
  }
  // Without another message, so a lost wake-up would be seen as a test that never ends.
  while (total < messages) std::this_thread::yield();
  stop = true;
  FutexWake(header->word, kReaders);
  for (std::thread& thread : readers) {
    // A reader that was about to sleep when it was woken sleeps now.
    while (header->sleepers > 100) break;
    FutexWake(header->word, kReaders);
    thread.join();
  }
  for (uint32_t i = 0; i < messages; ++i) ASSERT_EQ(seen[i], 1) << i;
}

}  // namespace
}  // namespace pto::host
