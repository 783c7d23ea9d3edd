#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/base/spin_lock.h"

namespace pto::engine {

class Run;

// One wait of a task, as readers see it.
struct WaitNote {
  enum class Kind : uint32_t {
    kBlock,     // a block waits inside its kernel and keeps its core
    kDeferred,  // all blocks have returned, or there are none; the task ends when this holds
  };
  uint64_t id = 0;  // unique for the life of the board
  Kind kind = Kind::kBlock;
  // The run may be gone: compare it, do not dereference it.
  const Run* run = nullptr;
  uint32_t task = 0;
  uint32_t block = 0;
  uint32_t chip = 0;
  int32_t core = -1;  // the core that it keeps; -1: none
  // The word. Only a reader that keeps its memory alive may read it.
  const void* address = nullptr;
  uint32_t dtype = 0;
  uint32_t compare = 0;  // pto_compare
  int64_t value = 0;
  // For a wait for a copy: its size in bytes. Otherwise -1.
  int64_t copy_bytes = -1;
  // Times of the engine's clock.
  int64_t since_ns = 0;
  int64_t until_ns = 0;  // its deadline; 0: none
  // The word's value. Not stored on the board: a reader that keeps the memory alive fills it in.
  bool has_have = false;
  int64_t have = 0;
};

// All waits of an engine, to explain why a run does not continue. Reading takes no lock and never
// waits for a writer: a note that changes meanwhile is left out.
//
// Notes consist of atomics. A writer clears the id first and sets it last; a reader that finds the
// same id before and after has read a consistent note. Memory for notes is not released before the
// board is destroyed, so readers may read at any time. Thread-safe.
class WaitBoard {
 public:
  // The storage of one note.
  class Place;

  WaitBoard() = default;
  ~WaitBoard();
  WaitBoard(const WaitBoard&) = delete;
  WaitBoard& operator=(const WaitBoard&) = delete;

  // Assigns the id of the note.
  Place* Add(const WaitNote& note);
  void Remove(Place* place);

  // Ordered by id. Contains every note that exists during the whole call.
  std::vector<WaitNote> Read() const;

 private:
  // The number of places in the first chunk. Each later chunk has twice as many.
  static constexpr size_t kFirstChunk = 64;
  static constexpr size_t kMaxChunks = 24;

  void Grow();

  std::array<std::atomic<Place*>, kMaxChunks> chunks_{};

  SpinLock lock_;  // for writers; guards all below
  size_t used_chunks_ = 0;
  uint64_t next_id_ = 1;
  Place* free_ = nullptr;
};

}  // namespace pto::engine
