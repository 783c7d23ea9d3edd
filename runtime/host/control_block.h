#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "runtime/host/ring.h"

namespace pto::host {

// How many posts a host has at most at one time.
inline constexpr uint32_t kMaxPosts = 4096;
// No post.
inline constexpr uint32_t kNoSlot = 0xffffffff;
inline constexpr uint64_t kRingBytes = uint64_t{1} << 20;

// What both sides know of a post. On its own cache line, as several threads change them at once.
struct alignas(64) PostWord {
  // The id of the post, once it is cancelled. Written by the daemon.
  std::atomic<uint64_t> cancelled;
  // 1 while a thread runs it. Written by the host.
  std::atomic<uint32_t> running;
  // The block that it runs.
  std::atomic<uint32_t> block;

  // ---- calls of its kernel, one at a time
  // The number of the last call that was answered. Written by the daemon, after the answer.
  std::atomic<uint32_t> answered;
  // 1 while the thread sleeps on `answered`, or is about to. Written by the host.
  std::atomic<uint32_t> sleeps;
  // The answer.
  std::atomic<int32_t> result;
  std::atomic<uint64_t> event;
};

struct CrashFrame {
  uint64_t offset;         // of the instruction, from where its file is loaded
  uint64_t symbol_offset;  // of the instruction, from the symbol before it
  char file[48];
  char symbol[104];
};

// What a dying host says of its end: written by one thread, read by the daemon after the end.
struct CrashRecord {
  static constexpr uint32_t kMaxFrames = 24;
  enum Kind : uint32_t { kNone, kSignal, kExit, kBroken };

  std::atomic<uint32_t> claimed;  // by the thread that writes it
  // kNone until everything before the frames is there. The frames come later, and the process may
  // fail while it looks for them.
  std::atomic<uint32_t> kind;
  int32_t signal;
  int32_t code;  // si_code, or the exit code
  uint64_t address;
  uint32_t stack_overflow;
  uint32_t slot;  // of the post that the thread ran; kNoSlot
  uint32_t block;
  uint32_t reserved;
  uint64_t post;  // its id
  char text[256];
  std::atomic<uint32_t> frame_count;
  CrashFrame frames[kMaxFrames];
};

// Between the parts of the memory. A kernel that writes where it must not is noticed after its
// call, and not only when others fail.
using Guard = std::atomic<uint64_t>;

// The memory that the daemon and one host share, and that nobody else has. The daemon trusts
// nothing in it. Begins as zeros.
struct ControlBlock {
  static constexpr uint64_t kMagic = 0x70746f2d686f7374;

  Guard first;
  PostWord posts[kMaxPosts];
  Guard after_posts;
  CrashRecord crash;
  Guard after_crash;
  RingHeader to_host;
  RingHeader to_daemon;
  Guard after_headers;
  alignas(4096) std::byte to_host_data[kRingBytes];
  Guard between_rings;
  alignas(4096) std::byte to_daemon_data[kRingBytes];
  Guard last;

  void SetGuards() {
    for (Guard* const guard :
         {&first, &after_posts, &after_crash, &after_headers, &between_rings, &last}) {
      guard->store(kMagic, std::memory_order_relaxed);
    }
  }
  bool GuardsHold() const {
    for (const Guard* const guard :
         {&first, &after_posts, &after_crash, &after_headers, &between_rings, &last}) {
      if (guard->load(std::memory_order_relaxed) != kMagic) return false;
    }
    return true;
  }

  RingMemory to_host_ring() { return {&to_host, to_host_data, kRingBytes}; }
  RingMemory to_daemon_ring() { return {&to_daemon, to_daemon_data, kRingBytes}; }
};

// The descriptors that a host begins with, beside the standard ones.
inline constexpr int kLifelineDescriptor = 3;
inline constexpr int kControlDescriptor = 4;
inline constexpr int kDoorbellDescriptor = 5;
// A kernel must not close or replace these and what is below.
inline constexpr int kLastOwnDescriptor = kDoorbellDescriptor;

}  // namespace pto::host
