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

// A member's description of the collective that it has entered.
struct CollectiveCall {
  static constexpr uint64_t kPrivate = ~uint64_t{0};

  uint32_t kind;
  uint32_t dtype;
  uint32_t op;
  uint32_t root;
  uint64_t count;   // elements, or bytes if there is no type
  uint64_t input;   // offset of the input in this member's bytes; kPrivate if it is outside
  uint64_t output;  // the same for the output
  // A hash of all earlier calls of this member. The root of a short broadcast waits for nobody, so
  // it may not notice that another member also acts as root; the next call does.
  uint64_t history;

  bool Matches(const CollectiveCall& other) const {
    return kind == other.kind && dtype == other.dtype && op == other.op && root == other.root &&
           count == other.count;
  }
  // The history of the next call.
  uint64_t NextHistory() const {
    uint64_t next = history;
    for (const uint64_t word : {uint64_t{kind} << 32 | dtype, uint64_t{op} << 32 | root, count}) {
      next = (next ^ word) * 0x9e3779b97f4a7c15;
      next ^= next >> 29;
    }
    return next;
  }
};

// A member's call, with a short message. A short collective costs little more than fetching a cache
// line from another CPU, so peers poll the line that describes the call, and the message follows
// it.
struct alignas(64) CallSlot {
  static constexpr size_t kMessageBytes = 16384;

  // The step with which the call began; set last.
  std::atomic<uint64_t> entry;
  CollectiveCall call;
  alignas(64) std::byte message[kMessageBytes];
};
static_assert(offsetof(CallSlot, message) == 64);

// One member's words in a window. Words that peers poll have their own cache lines.
struct alignas(64) MemberWords {
  enum State : uint32_t { kAbsent = 0, kAttached = 1, kLeft = 2 };
  // Slots for calls: a power of two. In collectives that do not wait, a member can always be kLead
  // ahead of another, and up to kCalls - 1 ahead until it reads the other's step again. More slots
  // mean fewer reads; and members that share a CPU should get far before they have to wait.
  static constexpr uint32_t kCalls = 16;
  static constexpr uint32_t kLead = kCalls / 2;

  std::atomic<uint32_t> state;
  alignas(64) Bell signal_bell;
  // Collective steps that this member has completed; never resets.
  alignas(64) std::atomic<uint64_t> step;
  Bell step_bell;  // also rung for its call slots
};

// The start of a window's segment: its parameters, which never change.
struct WindowFacts {
  SegmentPrefix prefix;
  uint64_t id;
  uint64_t bytes;
  uint32_t signal_count;
  uint32_t scratch_bytes;
  uint32_t rank_count;
  uint32_t ranks[PTO_COMM_MAX_RANKS];
};

// The words that all members of a window share.
struct WindowHeader {
  static constexpr uint32_t kClosed = 0x80000000;
  static constexpr uint64_t kRefused = 1;
  static constexpr uint64_t kBroken = 1;

  WindowFacts facts;

  alignas(64) std::atomic<uint32_t> attached;  // members that have mapped it; or kClosed
  Bell bell;
  // The first member that cannot create the window stores its error here, and all others fail with
  // it.
  std::atomic<uint32_t> refused;
  SharedError refused_by;  // tag: kRefused
  // The first member that fails in a collective stores its error here, and all others fail with it.
  alignas(64) std::atomic<uint32_t> broken;
  SharedError broken_by;  // tag: kBroken
  BarrierCell barrier;
  MemberWords members[PTO_COMM_MAX_RANKS];
};

static_assert(offsetof(WindowHeader, facts) == 0);

// The layout of a window's segment: the header, all signals, all scratch, all bytes.
struct WindowLayout {
  static constexpr size_t kPage = 4096;
  static constexpr uint32_t kDefaultScratch = 1024 * 1024;
  static constexpr uint32_t kLeastScratch = 64 * 1024;
  // The scratch begins with the call slots; the rest stages long messages. The distance of slots is
  // not a multiple of a page, so that they do not compete for the same lines of the first-level
  // cache.
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
