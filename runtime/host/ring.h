#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace pto::host {

// A ring of messages in memory that two processes share. One side writes, the other reads.
//
// Each side believes only what it has written itself. It keeps its own position privately, and
// checks the position of the other side each time. A message is copied out before anybody looks
// at it, and its size is read once.
struct RingHeader {
  // Written by the writer: bytes and messages ever written.
  alignas(64) std::atomic<uint64_t> tail;
  std::atomic<uint32_t> sent;
  // Written by the reader: bytes and messages ever read.
  alignas(64) std::atomic<uint64_t> head;
  std::atomic<uint32_t> taken;
  // Reading threads that look at the ring without sleeping.
  alignas(64) std::atomic<uint32_t> spinners;
  // Reading threads that sleep, or more: the writer subtracts those that it is going to wake.
  std::atomic<uint32_t> sleepers;
  // Where they sleep, if they do it with a futex. Changes with each wake-up.
  std::atomic<uint32_t> word;
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);
static_assert(std::atomic<uint32_t>::is_always_lock_free);

// Both sides of a ring: where it is. `bytes` is a power of two.
struct RingMemory {
  RingHeader* header = nullptr;
  std::byte* data = nullptr;
  uint64_t bytes = 0;

  // The largest message.
  uint64_t max_message() const { return bytes / 2; }
};

// The side that writes. For one thread at a time. Never waits.
class RingWriter {
 public:
  explicit RingWriter(const RingMemory& memory) : memory_(memory) {}

  // Adds a message, which the reader sees after Publish. Returns false if there is no room now. The
  // message must not be larger than max_message(). HOST_LOST if the other side has broken the ring.
  absl::StatusOr<bool> Write(absl::Span<const std::byte> message);
  // Shows the messages to the reader. Returns how many of its threads the caller must wake.
  uint32_t Publish();

 private:
  const RingMemory memory_;
  uint64_t tail_ = 0;
  uint64_t head_ = 0;  // as it was seen last
  uint32_t sent_ = 0;
};

// The side that reads. Read is for one thread at a time; all other functions are thread-safe.
class RingReader {
 public:
  explicit RingReader(const RingMemory& memory) : memory_(memory) {}

  // Copies the next message to `message`. Returns false if there is none. HOST_LOST if the other
  // side has broken the ring.
  absl::StatusOr<bool> Read(std::vector<std::byte>* message);

  // Whether the other side says that there is more. Only a hint.
  bool has_more() const {
    return memory_.header->tail.load(std::memory_order_seq_cst) !=
           head_.load(std::memory_order_relaxed);
  }

  // While a thread looks at the ring without sleeping. The writer then wakes nobody for `weight`
  // messages.
  void BeginSpin(uint32_t weight = 1) {
    memory_.header->spinners.fetch_add(weight, std::memory_order_seq_cst);
  }
  void EndSpin(uint32_t weight = 1) {
    memory_.header->spinners.fetch_sub(weight, std::memory_order_seq_cst);
  }

  // Before one of several reading threads sleeps. Returns false if it must not, because there is
  // more. A thread that does not sleep after this, or wakes by itself, still counts as one that
  // sleeps: the writer may then wake nobody once, but never forgets a thread.
  bool BeginSleep();
  // The same for the only reading thread, which says when it is awake again.
  bool BeginOnlySleep();
  void EndOnlySleep() { memory_.header->sleepers.store(0, std::memory_order_seq_cst); }
  // Whether another reading thread should be woken for what is left. If so, the caller wakes it.
  bool PassOn();

  std::atomic<uint32_t>& word() { return memory_.header->word; }

 private:
  const RingMemory memory_;
  std::atomic<uint64_t> head_{0};
  uint32_t taken_ = 0;
};

// How many of the sleeping threads to wake for what has been written. Subtracts them.
uint32_t ClaimSleepers(RingHeader& header, uint32_t most);

}  // namespace pto::host
