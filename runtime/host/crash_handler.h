#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "runtime/host/control_block.h"

namespace pto::host {

// In the host: writes down why the process ends, before it ends.
//
// Install it once, before other threads start. Each thread that runs kernels has a CrashStack while
// it lives, so that the overflow of its own stack can be handled, and says what it runs.
class CrashHandler {
 public:
  // For signals that end the process, and for exit(). `record` must live as long as the process.
  static void Install(CrashRecord* record);

  // What the calling thread runs from now on.
  static void BeginPost(uint32_t slot, uint64_t post);
  static void SetBlock(uint32_t block);
  static void EndPost();

  // Ends the process because something of the host itself does not work any more. The calling
  // thread's post counts as the cause.
  [[noreturn]] static void GiveUp(const char* why);
};

// The stack on which the calling thread handles signals.
class CrashStack {
 public:
  CrashStack();
  ~CrashStack();
  CrashStack(const CrashStack&) = delete;
  CrashStack& operator=(const CrashStack&) = delete;

 private:
  static constexpr size_t kBytes = size_t{64} << 10;
  const std::unique_ptr<std::byte[]> memory_;
};

}  // namespace pto::host
