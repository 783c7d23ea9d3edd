#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "comm/barrier_cell.h"
#include "comm/bell.h"
#include "comm/pto_comm.h"
#include "comm/segment_store.h"
#include "comm/shared_error.h"

namespace pto::comm {

// What a member says of the collective that it has entered.
struct CollectiveCall {
  static constexpr uint64_t kPrivate = ~uint64_t{0};

  uint32_t kind;
  uint32_t dtype;
  uint32_t op;
  uint32_t root;
  uint64_t count;   // elements, or bytes where there is no type
  uint64_t input;   // offset of the input in this member's bytes; kPrivate when not there
  uint64_t output;  // the same for the output
  // What all calls of this member before it come to. A root of a short broadcast waits for nobody,
  // and so may not see that another member takes itself for the root; the next call does.
  uint64_t history;

  bool Matches(const CollectiveCall& other) const {
    return kind == other.kind && dtype == other.dtype && op == other.op && root == other.root &&
           count == other.count;
  }
  // That of the call after this one.
  uint64_t NextHistory() const {
    uint64_t next = history;
    for (const uint64_t word : {uint64_t{kind} << 32 | dtype, uint64_t{op} << 32 | root, count}) {
      next = (next ^ word) * 0x9e3779b97f4a7c15;
      next ^= next >> 29;
    }
    return next;
  }
};

// A call of a member, with the short message that goes along. A line that has to come from another
// CPU is what a short collective costs, so peers poll the one that tells them what is called, and
// the message follows it.
struct alignas(64) CallSlot {
  static constexpr size_t kMessageBytes = 16384;

  // The step with which the call began, once all else is here.
  std::atomic<uint64_t> entry;
  CollectiveCall call;
  alignas(64) std::byte message[kMessageBytes];
};
static_assert(offsetof(CallSlot, message) == 64);

// One member's words in a window. What peers poll has a cache line of its own.
struct alignas(64) MemberWords {
  enum State : uint32_t { kAbsent = 0, kAttached = 1, kLeft = 2 };
  // Slots for calls: a power of two. In collectives that do not make it wait, a member can be kLead
  // ahead of another at any time, and up to kCalls - 1 as long as it has not looked at the other's
  // step again. The more of them, the more seldom it has to look; and members that take turns on a
  // CPU had better get far before they have to wait.
  static constexpr uint32_t kCalls = 16;
  static constexpr uint32_t kLead = kCalls / 2;

  std::atomic<uint32_t> state;
  alignas(64) Bell signal_bell;
  // Steps of collectives that this member has done; grows for ever.
  alignas(64) std::atomic<uint64_t> step;
  Bell step_bell;  // also of the slots of its calls
};

// What a window's segment begins with: how it was made, which never changes.
struct WindowFacts {
  SegmentPrefix prefix;
  uint64_t id;
  uint64_t bytes;
  uint32_t signal_count;
  uint32_t scratch_bytes;
  uint32_t rank_count;
  uint32_t ranks[PTO_COMM_MAX_RANKS];
};

// The words of a window that all members share.
struct WindowHeader {
  static constexpr uint32_t kClosed = 0x80000000;
  static constexpr uint64_t kRefused = 1;
  static constexpr uint64_t kBroken = 1;

  WindowFacts facts;

  alignas(64) std::atomic<uint32_t> attached;  // members that have mapped it; or kClosed
  Bell bell;
  // The first member that cannot have the window says why, and all others fail with that.
  std::atomic<uint32_t> refused;
  SharedError refused_by;  // about kRefused
  // The first member that fails in a collective says why, and all others fail with that.
  alignas(64) std::atomic<uint32_t> broken;
  SharedError broken_by;  // about kBroken
  BarrierCell barrier;
  MemberWords members[PTO_COMM_MAX_RANKS];
};

static_assert(offsetof(WindowHeader, facts) == 0);

// Where things are in a window's segment: the header, all signals, all scratch, all bytes.
struct WindowLayout {
  static constexpr size_t kPage = 4096;
  static constexpr uint32_t kDefaultScratch = 1024 * 1024;
  static constexpr uint32_t kLeastScratch = 64 * 1024;
  // The scratch begins with the slots of calls; what follows is for staging long messages. Their
  // distance is no multiple of a page, so that they do not all compete for the same few places of
  // the nearest cache.
  static constexpr size_t kSlotStride = CallSlot::kMessageBytes + 256;
  static_assert(kSlotStride >= sizeof(CallSlot) && kSlotStride % alignof(CallSlot) == 0);
  static constexpr size_t kSlotsTotal =
      (kSlotStride * MemberWords::kCalls + kPage - 1) / kPage * kPage;

  size_t signals, signal_stride;
  size_t scratch, scratch_stride;
  size_t data, data_stride;
  size_t total;

  static WindowLayout For(const WindowFacts& facts) {
    return For(facts.rank_count, facts.bytes, facts.signal_count, facts.scratch_bytes);
  }
  static WindowLayout For(uint32_t ranks, uint64_t bytes, uint32_t signal_count,
                          uint32_t scratch_bytes) {
    WindowLayout layout;
    const auto pages = [](size_t n) { return (n + kPage - 1) / kPage * kPage; };
    layout.signals = pages(sizeof(WindowHeader));
    layout.signal_stride = (signal_count * sizeof(int64_t) + 63) / 64 * 64;
    layout.scratch = pages(layout.signals + ranks * layout.signal_stride);
    layout.scratch_stride = kSlotsTotal + pages(scratch_bytes);
    layout.data = layout.scratch + ranks * layout.scratch_stride;
    layout.data_stride = pages(bytes);
    layout.total = layout.data + ranks * layout.data_stride;
    return layout;
  }
};

}  // namespace pto::comm
