#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

namespace pto::host {

// Sleeps until FutexWake, unless the word has another value than `expected`. May return early.
inline void FutexWait(std::atomic<uint32_t>& word, uint32_t expected) {
  syscall(SYS_futex, &word, FUTEX_WAIT, expected, nullptr, nullptr, 0);
}

// Wakes up to `count` threads of any process that sleep on the word, whose value the caller has
// changed.
inline void FutexWakeChanged(std::atomic<uint32_t>& word, uint32_t count) {
  syscall(SYS_futex, &word, FUTEX_WAKE, count, nullptr, nullptr, 0);
}

// Wakes up to `count` threads of any process that sleep on the word, and lets others that are about
// to sleep look again.
inline void FutexWake(std::atomic<uint32_t>& word, uint32_t count) {
  word.fetch_add(1, std::memory_order_seq_cst);
  FutexWakeChanged(word, count);
}

}  // namespace pto::host
