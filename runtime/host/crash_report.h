#pragma once

#include <cstdint>
#include <string>

#include "runtime/host/control_block.h"

namespace pto::host {

// What a host has said of its end, checked and made printable.
struct CrashReport {
  CrashRecord::Kind kind = CrashRecord::kNone;
  int signal = 0;
  int code = 0;
  uint64_t address = 0;
  bool stack_overflow = false;
  uint32_t slot = kNoSlot;  // of the post that it ran; kNoSlot if none, or one out of range
  uint32_t block = 0;
  uint64_t post = 0;
  std::string text;
  std::string backtrace;  // "f+0x12 (libx.so) < g+0x40 (libx.so)", innermost first
};

// Reads what a host has left behind when it has ended.
CrashReport ReadCrash(const CrashRecord& record);

// "SIGSEGV"; "signal 70" for one without a name.
std::string SignalName(int signal);
// "SIGSEGV at address 0x10", "stack overflow (SIGSEGV)", "called exit(3)" and so on. Empty if there
// is no record.
std::string DescribeCrash(const CrashReport& report);

}  // namespace pto::host
