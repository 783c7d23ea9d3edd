#include "client/buffer.h"

#include <cstdint>
#include <numeric>
#include <vector>

#include "client/testing/client_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"

namespace pto {
namespace {

using ::pto::testing::HasReason;
using ::pto::testing::IsOk;
using ::pto::testing::kSlack;
using ::pto::testing::Stopwatch;
using ::testing::ElementsAre;

class BufferTest : public testing::ClientFixture {
 protected:
  Buffer Create(Session& session, uint64_t bytes) {
    absl::StatusOr<Buffer> buffer = session.CreateBuffer("b", 0, bytes);
    EXPECT_THAT(buffer, IsOk());
    return *buffer;
  }
};

std::vector<uint32_t> Numbers(size_t count) {
  std::vector<uint32_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 1);
  return numbers;
}

TEST_F(BufferTest, KnowsItsNames) {
  StartDaemon();
  Session session = CreateSession({.id = "s"});
  const Buffer buffer = Create(session, 8);
  EXPECT_EQ(buffer.name(), "sessions/s/buffers/b");
  EXPECT_EQ(buffer.id(), "b");
}

TEST_F(BufferTest, TravelsInChunksThatTheDaemonAllows) {
  StartDaemon({.max_chunk_bytes = 1000});
  Session session = CreateSession();
  const Buffer buffer = Create(session, 3000);
  const std::vector<uint32_t> numbers = Numbers(600);
  ASSERT_THAT(buffer.Write(numbers, 100), IsOk());
  EXPECT_THAT(daemon_->chunk_sizes(), ElementsAre(1000, 1000, 400));
  const absl::StatusOr<std::vector<uint32_t>> read = buffer.Read<uint32_t>(600, 100);
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(*read, numbers);
  // Unwritten bytes are still zero.
  EXPECT_EQ(*buffer.Read<uint32_t>(25), std::vector<uint32_t>(25));
}

TEST_F(BufferTest, TravelsInChunksOfOneMebibyteAtMost) {
  StartDaemon({.max_chunk_bytes = 3 << 20});
  Session session = CreateSession();
  const Buffer buffer = Create(session, 10 << 20);
  std::vector<uint32_t> numbers = Numbers((5 << 20) / 8);
  ASSERT_THAT(buffer.Write(numbers), IsOk());
  EXPECT_THAT(daemon_->chunk_sizes(), ElementsAre(1 << 20, 1 << 20, 1 << 19));
  std::vector<uint32_t> read(numbers.size());
  ASSERT_THAT(buffer.Read(std::span<uint32_t>(read)), IsOk());
  EXPECT_EQ(read, numbers);
}

TEST_F(BufferTest, StaysInItsBounds) {
  StartDaemon();
  Session session = CreateSession();
  const Buffer buffer = Create(session, 16);
  const std::vector<uint32_t> five = Numbers(5);
  EXPECT_THAT(buffer.Write(five), HasReason(reason::kRangeOutOfBounds));
  EXPECT_THAT(buffer.Write(Numbers(4), 1), HasReason(reason::kRangeOutOfBounds));
  EXPECT_THAT(buffer.Write(Numbers(1), ~uint64_t{0}), HasReason(reason::kRangeOutOfBounds));
  EXPECT_THAT(buffer.Read<uint64_t>(~uint64_t{0} / 4), HasReason(reason::kRangeOutOfBounds));
  EXPECT_THAT(buffer.Write(Numbers(4)), IsOk());
  EXPECT_THAT(buffer.Write(Numbers(0), 16), IsOk());
  EXPECT_EQ(gate().calls("WriteBuffer"), 1);
}

TEST_F(BufferTest, IsDeleted) {
  StartDaemon();
  Session session = CreateSession();
  EXPECT_THAT(Create(session, 16).Delete(), IsOk());
  EXPECT_EQ(gate().calls("DeleteBuffers"), 1);
}

TEST_F(BufferTest, EndsAtItsDeadlineWhenTheDaemonTakesNothing) {
  StartDaemon();
  Session session = CreateSession();
  const Buffer buffer = Create(session, 8 << 20);
  gate().Hang("WriteBuffer");
  gate().Hang("ReadBuffer");
  // Far more than the connection buffers.
  std::vector<uint32_t> numbers(2 << 20);
  Stopwatch stopwatch;
  EXPECT_THAT(buffer.Write(numbers, 0, absl::Milliseconds(200)), HasReason(reason::kClientTimeout));
  EXPECT_THAT(buffer.Read<uint32_t>(4, 0, absl::Milliseconds(200)),
              HasReason(reason::kClientTimeout));
  EXPECT_LT(stopwatch.Elapsed(), kSlack);
}

}  // namespace
}  // namespace pto
