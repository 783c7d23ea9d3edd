#include "client/kernel_check/crash_record.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "client/kernel_check/block_engine.h"
#include "runtime/base/log.h"

namespace pto::kernel_check {
namespace {

constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGSYS, SIGTRAP};
constexpr size_t kStackBytes = 128 << 10;

CrashRecord* shared = nullptr;

bool IsWrite(const void* context) {
#if defined(__x86_64__)
  // Bit 1 of the page fault's error code.
  return (static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR] & 2) != 0;
#else
  static_cast<void>(context);
  return false;
#endif
}

void* CounterOf(const void* context) {
#if defined(__x86_64__)
  return reinterpret_cast<void*>(
      static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP]);
#else
  static_cast<void>(context);
  return nullptr;
#endif
}

void AddFrame(void* counter, bool is_return) {
  if (shared->frame_count == CrashRecord::kMaxFrames) return;
  CrashRecord::Frame& frame = shared->frames[shared->frame_count];
  // The call is in front of where it returns to.
  char* const at = static_cast<char*>(counter) - (is_return ? 1 : 0);
  Dl_info info = {};
  if (dladdr(at, &info) == 0 || info.dli_fname == nullptr) return;
  frame.offset = static_cast<uint64_t>(at - static_cast<char*>(info.dli_fbase));
  const char* const slash = std::strrchr(info.dli_fname, '/');
  std::snprintf(frame.object, sizeof frame.object, "%s",
                slash == nullptr ? info.dli_fname : slash + 1);
  std::snprintf(frame.symbol, sizeof frame.symbol, "%s",
                info.dli_sname == nullptr ? "" : info.dli_sname);
  ++shared->frame_count;
}

// The process ends anyway, so what is not safe in a signal handler may at worst lose a frame; the
// important things come first.
void Handle(int signal, siginfo_t* info, void* context) {
  if (shared->crashed.exchange(1) == 0) {
    shared->signal = signal;
    shared->address = reinterpret_cast<uintptr_t>(info->si_addr);
    shared->is_write = IsWrite(context) ? 1 : 0;
    shared->member = CurrentBlockOfThread().member;
    shared->block = CurrentBlockOfThread().index;
    shared->frame_count = 0;
    void* const counter = CounterOf(context);
    if (counter != nullptr) AddFrame(counter, false);
    void* frames[64];
    const int count = backtrace(frames, 64);
    bool below = false;
    for (int i = 0; i < count; ++i) {
      // First come the frames of this handler.
      if (below) AddFrame(frames[i], true);
      below = below || frames[i] == counter;
    }
    if (!below) {
      for (int i = 2; i < count; ++i) AddFrame(frames[i], true);
    }
  } else {
    // Another thread is already at it.
    for (;;) pause();
  }
  struct sigaction usual = {};
  usual.sa_handler = SIG_DFL;
  sigaction(signal, &usual, nullptr);
  raise(signal);
}

}  // namespace

std::string GuardedPlace::Outside(uint64_t at) const {
  if (!Contains(at)) return "";
  if (at < view_begin) {
    return absl::StrCat(view_begin - at, " bytes before the first element of ", name);
  }
  if (at >= view_end) {
    return absl::StrCat(at - view_end, " bytes behind the last element of ", name);
  }
  return "";
}

CrashStack::CrashStack()
    : memory_(
          mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
  PTO_CHECK(memory_ != MAP_FAILED, "mmap of a stack");
  stack_t stack = {};
  stack.ss_sp = memory_;
  stack.ss_size = kStackBytes;
  sigaltstack(&stack, nullptr);
}

CrashStack::~CrashStack() {
  stack_t none = {};
  none.ss_flags = SS_DISABLE;
  sigaltstack(&none, nullptr);
  munmap(memory_, kStackBytes);
}

void RecordCrashes(CrashRecord* record) {
  shared = record;
  // The first call loads a library, which a handler must not.
  void* frames[1];
  backtrace(frames, 1);
  struct sigaction action = {};
  action.sa_sigaction = &Handle;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  for (const int signal : kSignals) sigaction(signal, &action, nullptr);
}

}  // namespace pto::kernel_check
