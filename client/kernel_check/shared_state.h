#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "client/kernel_check/crash_record.h"
#include "client/kernel_check/finding.h"

namespace pto::kernel_check {

// A text of limited length in shared memory.
template <size_t kBytes>
struct SharedText {
  char text[kBytes];

  void operator=(const std::string& from) {
    const size_t count = from.size() < kBytes - 1 ? from.size() : kBytes - 1;
    from.copy(text, count);
    text[count] = '\0';
  }
  std::string Get() const { return text; }
};

// What the process that runs one case tells its parent, in memory that both map. It may be killed
// at any time, or overwrite it: the parent only copies texts out of it.
struct SharedState {
  static constexpr uint32_t kMaxFindings = 16;

  CrashRecord crash;
  // The run's cancel flag. Either side sets it.
  std::atomic<uint32_t> cancelled;
  // Counts the steps that have begun, each of which has a time limit.
  std::atomic<uint32_t> steps;
  std::atomic<uint32_t> cancel_step;  // 1: the step that looks whether the flag is obeyed
  std::atomic<uint32_t> finished;

  SharedText<64> kernel;
  SharedText<1024> input;
  uint64_t calls;
  uint32_t refused;
  SharedText<256> refusal;
  // Why the case could not be run; then nothing below counts.
  uint32_t failed;
  uint32_t failed_by_usage;
  SharedText<768> failure;
  uint32_t finding_count;
  struct {
    Problem problem;
    SharedText<64> subject;
    SharedText<512> text;
  } findings[kMaxFindings];
};

}  // namespace pto::kernel_check
