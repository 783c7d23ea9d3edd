#include "comm/collectives.h"

#include <gmock/gmock.h>

#include <cstring>
#include <vector>

#include "comm/conformance/conformance.h"

namespace pto::comm {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class CollectivesTest : public Conformance {};
PTO_FOR_ALL_BACKENDS(CollectivesTest);

int64_t Soon() { return pto_comm_deadline_after(kLong); }

// Sizes that go along with the call, in pieces, and in several rounds of pieces.
constexpr uint64_t kSizes[] = {1, 8, 250, 4096, 16384, 16392, 70'000, 300'008};
constexpr uint64_t kMost = 300'008;

// Element i of the data that `from` sends to `to` in a round.
uint8_t Byte(uint64_t round, uint32_t from, uint32_t to, uint64_t i) {
  return static_cast<uint8_t>(round * 13 + from * 101 + to * 57 + i * 7 + i / 251);
}

// A rank's buffers: alternately in its window and private.
struct Buffers {
  Buffers(pto_comm_window* window, uint64_t bytes) : bytes(bytes), memory(2 * bytes + 64) {
    void* base = nullptr;
    pto_comm_window_local(window, &base);
    shared = static_cast<uint8_t*>(base);
  }
  uint8_t* Input(bool in_window) { return in_window ? shared : memory.data(); }
  uint8_t* Output(bool in_window) { return (in_window ? shared : memory.data()) + bytes; }

  uint64_t bytes;
  std::vector<uint8_t> memory;
  uint8_t* shared;
};

void RunSizes(
    Rank& rank, uint64_t most,
    const std::function<void(pto_comm_window*, Buffers&, bool, bool, uint64_t, uint64_t)>& each) {
  rank.Join();
  const uint64_t bytes = (most + 63) / 64 * 64;
  pto_comm_window* window = rank.MakeWindow(1, 2 * bytes, 0);
  Buffers buffers(window, bytes);
  uint64_t round = 0;
  for (const uint64_t size : kSizes) {
    if (size > most) break;
    // All in the window, none, and different for each rank.
    for (int mode = 0; mode < 4; ++mode) {
      const bool input = mode == 0 || (mode == 2 && rank.rank() % 2 == 0);
      const bool output = mode == 0 || (mode == 3 && rank.rank() % 2 == 1);
      each(window, buffers, input, output, size, ++round);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST_P(CollectivesTest, Broadcast) {
  for (const uint32_t size : {1u, 2u, 3u, 5u}) {
    Run(size, [](Rank& rank) {
      RunSizes(rank, kMost,
               [&](pto_comm_window* window, Buffers& buffers, bool input, bool, uint64_t bytes,
                   uint64_t round) {
                 const uint32_t root = round % rank.size();
                 uint8_t* buffer = buffers.Input(input);
                 const bool mine = root == rank.rank();
                 for (uint64_t i = 0; i < bytes; ++i) {
                   buffer[i] = mine ? Byte(round, root, 0, i) : 0xee;
                 }
                 ASSERT_EQ(pto_comm_broadcast(window, buffer, bytes, root, Soon()), PTO_COMM_OK)
                     << rank.Error();
                 for (uint64_t i = 0; i < bytes; ++i) {
                   if (buffer[i] != Byte(round, root, 0, i)) FAIL() << bytes << " at " << i;
                 }
                 // The root may change it immediately.
                 if (mine) std::memset(buffer, 0xdd, bytes);
               });
    });
  }
}

TEST_P(CollectivesTest, AllReduce) {
  for (const uint32_t size : {1u, 2u, 3u, 5u}) {
    Run(size, [](Rank& rank) {
      RunSizes(rank, kMost,
               [&](pto_comm_window* window, Buffers& buffers, bool in_window, bool out_window,
                   uint64_t bytes, uint64_t round) {
                 const uint64_t count = (bytes + 3) / 4;
                 auto* input = reinterpret_cast<int32_t*>(buffers.Input(in_window));
                 auto* output = reinterpret_cast<int32_t*>(buffers.Output(out_window));
                 if (round % 5 == 0) output = input;  // in place
                 for (uint64_t i = 0; i < count; ++i) {
                   input[i] = static_cast<int32_t>(i * (rank.rank() + 1) + round);
                 }
                 ASSERT_EQ(pto_comm_all_reduce(window, input, output, count, PTO_I32, PTO_COMM_SUM,
                                               Soon()),
                           PTO_COMM_OK)
                     << rank.Error();
                 const uint64_t ranks = rank.size();
                 for (uint64_t i = 0; i < count; ++i) {
                   ASSERT_EQ(output[i],
                             static_cast<int32_t>(i * (ranks * (ranks + 1) / 2) + round * ranks))
                       << bytes << " at " << i;
                 }
                 std::memset(input, 0xdd, count * 4);
               });
    });
  }
}

TEST_P(CollectivesTest, AllGather) {
  for (const uint32_t size : {1u, 2u, 3u, 5u}) {
    Run(size, [](Rank& rank) {
      rank.Join();
      const uint64_t bytes = (kMost + 63) / 64 * 64;
      pto_comm_window* window = rank.MakeWindow(1, bytes * (rank.size() + 1), 0);
      void* base = nullptr;
      pto_comm_window_local(window, &base);
      std::vector<uint8_t> own(bytes * (rank.size() + 1));
      uint64_t round = 0;
      for (const uint64_t size : kSizes) {
        for (int mode = 0; mode < 4; ++mode) {
          ++round;
          uint8_t* memory = mode % 2 == 0 ? static_cast<uint8_t*>(base) : own.data();
          uint8_t* output = memory + bytes;
          uint8_t* input = mode < 2 ? memory : output + rank.rank() * size;
          for (uint64_t i = 0; i < size; ++i) input[i] = Byte(round, rank.rank(), 0, i);
          ASSERT_EQ(pto_comm_all_gather(window, input, output, size, Soon()), PTO_COMM_OK)
              << rank.Error();
          for (uint32_t from = 0; from < rank.size(); ++from) {
            for (uint64_t i = 0; i < size; ++i) {
              if (output[from * size + i] != Byte(round, from, 0, i)) FAIL() << size << " at " << i;
            }
          }
          std::memset(input, 0xdd, size);
        }
      }
    });
  }
}

TEST_P(CollectivesTest, AllToAll) {
  for (const uint32_t size : {1u, 2u, 3u, 5u}) {
    Run(size, [](Rank& rank) {
      RunSizes(rank, kMost,
               [&](pto_comm_window* window, Buffers& buffers, bool in_window, bool out_window,
                   uint64_t bytes, uint64_t round) {
                 const uint64_t each = bytes / rank.size();
                 uint8_t* input = buffers.Input(in_window);
                 uint8_t* output = buffers.Output(out_window);
                 for (uint32_t to = 0; to < rank.size(); ++to) {
                   for (uint64_t i = 0; i < each; ++i) {
                     input[to * each + i] = Byte(round, rank.rank(), to, i);
                   }
                 }
                 ASSERT_EQ(pto_comm_all_to_all(window, input, output, each, Soon()), PTO_COMM_OK)
                     << rank.Error();
                 for (uint32_t from = 0; from < rank.size(); ++from) {
                   for (uint64_t i = 0; i < each; ++i) {
                     if (output[from * each + i] != Byte(round, from, rank.rank(), i))
                       FAIL() << bytes << " at " << i;
                   }
                 }
                 std::memset(input, 0xdd, bytes);
               });
    });
  }
}

TEST_P(CollectivesTest, ReduceScatter) {
  for (const uint32_t size : {1u, 2u, 3u, 5u}) {
    Run(size, [](Rank& rank) {
      RunSizes(
          rank, kMost,
          [&](pto_comm_window* window, Buffers& buffers, bool in_window, bool out_window,
              uint64_t bytes, uint64_t round) {
            const uint64_t count = bytes / 8 / rank.size();
            auto* input = reinterpret_cast<double*>(buffers.Input(in_window));
            auto* output = reinterpret_cast<double*>(buffers.Output(out_window));
            for (uint64_t i = 0; i < count * rank.size(); ++i) {
              input[i] = static_cast<double>(i + round * (rank.rank() + 1));
            }
            ASSERT_EQ(pto_comm_reduce_scatter(window, input, output, count, PTO_F64, PTO_COMM_MAX,
                                              Soon()),
                      PTO_COMM_OK)
                << rank.Error();
            for (uint64_t i = 0; i < count; ++i) {
              if (output[i] != static_cast<double>(rank.rank() * count + i + round * rank.size()))
                FAIL() << bytes << " at " << i;
            }
            std::memset(input, 0xdd, bytes);
          });
    });
  }
}

// Alternates kinds and sizes, so that leftovers of one collective would disturb another.
TEST_P(CollectivesTest, OneAfterTheOther) {
  Run(4, [](Rank& rank) {
    rank.Join();
    pto_comm_window* window = rank.MakeWindow(1, 0, 0);
    std::vector<int64_t> input(40'000), output(40'000);
    for (int64_t round = 0; round < 300; ++round) {
      const uint64_t count = round % 7 == 0 ? 10'000 : round % 3 == 0 ? 3'000 : 10;
      std::fill(input.begin(), input.end(), round * 4 + rank.rank());
      const auto expect = [&](uint64_t i, int64_t value) {
        ASSERT_EQ(output[i], value) << "round " << round;
        output[i] = -1;
      };
      switch (round * 5 % 8) {
        case 0:
        case 1:
        case 2:
          output = input;
          ASSERT_EQ(pto_comm_broadcast(window, output.data(), count * 8, round % 4, Soon()),
                    PTO_COMM_OK);
          expect(count - 1, round * 4 + round % 4);
          break;
        case 3:
          ASSERT_EQ(pto_comm_all_reduce(window, input.data(), output.data(), count, PTO_I64,
                                        PTO_COMM_SUM, Soon()),
                    PTO_COMM_OK);
          expect(count - 1, round * 16 + 6);
          break;
        case 4:
          ASSERT_EQ(pto_comm_all_gather(window, input.data(), output.data(), count * 8, Soon()),
                    PTO_COMM_OK);
          for (int64_t i = 0; i < 4; ++i) expect((i + 1) * count - 1, round * 4 + i);
          break;
        case 5:
          ASSERT_EQ(pto_comm_reduce_scatter(window, input.data(), output.data(), count, PTO_I64,
                                            PTO_COMM_MIN, Soon()),
                    PTO_COMM_OK);
          expect(count - 1, round * 4);
          break;
        case 6:
          ASSERT_EQ(pto_comm_all_to_all(window, input.data(), output.data(), count * 8, Soon()),
                    PTO_COMM_OK);
          for (int64_t i = 0; i < 4; ++i) expect(i * count, round * 4 + i);
          break;
        default:
          ASSERT_EQ(pto_comm_window_barrier(window, Soon()), PTO_COMM_OK);
      }
    }
  });
}

TEST_P(CollectivesTest, TimesOutWithTheNameOfWhoIsLate) {
  Run(3, [](Rank& rank) {
    const auto late = AllOf(HasSubstr("rank 2 is at step 0 of"),
                            HasSubstr("has not called the one that begins with step 1"),
                            HasSubstr("waited for it in all_reduce of 4 F64 SUM"));
    rank.Join();
    pto_comm_window* window = rank.MakeWindow(1, 0, 0);
    double values[4] = {};
    if (rank.rank() != 2) {
      EXPECT_EQ(pto_comm_all_reduce(window, values, values, 4, PTO_F64, PTO_COMM_SUM,
                                    pto_comm_deadline_after(kSecond / 20)),
                PTO_COMM_TIMED_OUT);
      EXPECT_THAT(rank.Error(), late);
    }
    EXPECT_EQ(pto_comm_window_barrier(window, Soon()), PTO_COMM_OK);
    // The late rank gets an error instead of waiting for ranks that have left.
    EXPECT_EQ(pto_comm_all_reduce(window, values, values, 4, PTO_F64, PTO_COMM_SUM, Soon()),
              rank.rank() == 2 ? PTO_COMM_TIMED_OUT : PTO_COMM_BROKEN);
    EXPECT_THAT(rank.Error(), late);
  });
}

TEST_P(CollectivesTest, ChecksItsArguments) {
  Run(1, [](Rank& rank) {
    rank.Join();
    pto_comm_window* window = rank.MakeWindow(1, 0, 0);
    float values[4] = {1, 2, 3, 4};
    EXPECT_EQ(pto_comm_broadcast(window, values, 4, 1, Soon()), PTO_COMM_INVALID);
    EXPECT_EQ(pto_comm_all_reduce(window, values, values, 4, PTO_BOOL, PTO_COMM_SUM, Soon()),
              PTO_COMM_INVALID);
    EXPECT_EQ(pto_comm_all_reduce(window, values, values, 4, PTO_F32,
                                  static_cast<pto_comm_reduce>(5), Soon()),
              PTO_COMM_INVALID);
    EXPECT_EQ(pto_comm_all_reduce(window, reinterpret_cast<char*>(values) + 1, values, 2, PTO_F32,
                                  PTO_COMM_SUM, Soon()),
              PTO_COMM_INVALID);
    EXPECT_EQ(pto_comm_all_gather(window, nullptr, values, 4, Soon()), PTO_COMM_INVALID);
    EXPECT_EQ(pto_comm_all_gather(window, nullptr, nullptr, 0, Soon()), PTO_COMM_OK);
    EXPECT_EQ(pto_comm_all_gather(window, values, values, ~uint64_t{0}, Soon()), PTO_COMM_INVALID);
  });
}

}  // namespace
}  // namespace pto::comm
