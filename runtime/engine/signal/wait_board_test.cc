#include "runtime/engine/signal/wait_board.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace pto::engine {
namespace {

TEST(WaitBoardTest, ShowsWhatIsThere) {
  WaitBoard board;
  EXPECT_TRUE(board.Read().empty());
  WaitNote note;
  note.task = 7;
  note.value = -3;
  WaitBoard::Place* const first = board.Add(note);
  note.task = 8;
  board.Add(note);
  std::vector<WaitNote> notes = board.Read();
  ASSERT_EQ(notes.size(), 2u);
  EXPECT_EQ(notes[0].task, 7u);
  EXPECT_EQ(notes[0].value, -3);
  EXPECT_EQ(notes[1].task, 8u);
  EXPECT_LT(notes[0].id, notes[1].id);
  board.Remove(first);
  // Another note reuses the place.
  note.task = 9;
  EXPECT_EQ(board.Add(note), first);
  notes = board.Read();
  ASSERT_EQ(notes.size(), 2u);
  EXPECT_EQ(notes[0].task, 8u);
  EXPECT_EQ(notes[1].task, 9u);
}

TEST(WaitBoardTest, Grows) {
  WaitBoard board;
  std::vector<WaitBoard::Place*> places;
  for (uint32_t i = 0; i < 1000; ++i) {
    WaitNote note;
    note.task = i;
    places.push_back(board.Add(note));
  }
  const std::vector<WaitNote> notes = board.Read();
  ASSERT_EQ(notes.size(), 1000u);
  for (uint32_t i = 0; i < 1000; ++i) EXPECT_EQ(notes[i].task, i);
  for (WaitBoard::Place* const place : places) board.Remove(place);
  EXPECT_TRUE(board.Read().empty());
}

// All fields of a note have the same value. A reader never sees a mixture.
TEST(WaitBoardTest, AReaderSeesWholeNotesWhileOthersWrite) {
  WaitBoard board;
  std::atomic<bool> stop{false};
  std::vector<std::thread> writers;
  for (uint32_t writer = 0; writer < 2; ++writer) {
    writers.emplace_back([&board, &stop, writer] {
      for (uint32_t i = writer; !stop.load(std::memory_order_relaxed); i += 2) {
        WaitNote note;
        note.task = note.block = note.chip = i;
        note.value = note.since_ns = note.until_ns = i;
        board.Remove(board.Add(note));
      }
    });
  }
  WaitNote kept;
  kept.task = kept.block = kept.chip = 12345;
  kept.value = kept.since_ns = kept.until_ns = 12345;
  board.Add(kept);
  for (int i = 0; i < 20'000; ++i) {
    bool found = false;
    for (const WaitNote& note : board.Read()) {
      ASSERT_EQ(note.block, note.task);
      ASSERT_EQ(note.chip, note.task);
      ASSERT_EQ(note.value, note.task);
      ASSERT_EQ(note.since_ns, note.task);
      ASSERT_EQ(note.until_ns, note.task);
      found |= note.task == 12345;
    }
    ASSERT_TRUE(found);
  }
  stop.store(true);
  for (std::thread& writer : writers) writer.join();
}

}  // namespace
}  // namespace pto::engine
