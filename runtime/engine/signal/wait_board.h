#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/base/spin_lock.h"

namespace pto {

class Run;

// One wait of a task, as others can see it.
struct WaitNote {
  enum class Kind : uint32_t {
    kBlock,     // a block waits in the middle of its kernel, and keeps its core
    kDeferred,  // the task's blocks have returned, or it has none; it ends when this holds
  };
  uint64_t id = 0;  // no other wait of the board has it, ever
  Kind kind = Kind::kBlock;
  // Only to be compared: it may be gone.
  const Run* run = nullptr;
  uint32_t task = 0;
  uint32_t block = 0;
  uint32_t chip = 0;
  int32_t core = -1;  // that it keeps; -1: none
  // The word, which only whoever keeps its memory may read.
  const void* address = nullptr;
  uint32_t dtype = 0;
  uint32_t compare = 0;  // pto_compare
  int64_t value = 0;
  // Of a wait for a copy: its bytes. -1: it is none.
  int64_t copy_bytes = -1;
  // Times of the engine's clock.
  int64_t since_ns = 0;
  int64_t until_ns = 0;  // when it ends in any case; 0: never
  // The word's value, for whoever keeps its memory to fill in. No part of what is on the board.
  bool has_have = false;
  int64_t have = 0;
};

// All waits of an engine, for those who ask why nothing happens. Reading takes no lock and never
// waits for a writer, whatever that is doing: a note that is changed meanwhile is left out.
//
// Notes are made of atomics. A writer clears the id first and sets it last; a reader that finds the
// same id before and after has read what belongs to it. Memory for notes is never given back, so
// that readers may look at any time. Thread-safe.
class WaitBoard {
 public:
  // Where a note stands.
  class Place;

  WaitBoard() = default;
  ~WaitBoard();
  WaitBoard(const WaitBoard&) = delete;
  WaitBoard& operator=(const WaitBoard&) = delete;

  // The note's id is chosen here.
  Place* Add(const WaitNote& note);
  void Remove(Place* place);

  // In order of id. Notes that were there from before to after this call are all in it.
  std::vector<WaitNote> Read() const;

 private:
  // The first chunk has so many places, each later one twice as many.
  static constexpr size_t kFirstChunk = 64;
  static constexpr size_t kMaxChunks = 24;

  void Grow();

  std::array<std::atomic<Place*>, kMaxChunks> chunks_{};

  SpinLock lock_;  // for writers; guards all below
  size_t used_chunks_ = 0;
  uint64_t next_id_ = 1;
  Place* free_ = nullptr;
};

}  // namespace pto
