#include "runtime/engine/exec/fiber.h"

#include <cxxabi.h>
#include <sys/mman.h>
#include <unistd.h>

#include <boost/context/detail/fcontext.hpp>
#include <cstring>

#include "runtime/base/log.h"

#if defined(__SANITIZE_ADDRESS__)
#define PTO_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PTO_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define PTO_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define PTO_TSAN 1
#endif
#endif

#if defined(PTO_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(PTO_TSAN)
#include <sanitizer/tsan_interface.h>
#endif

namespace pto::engine {
namespace {

using boost::context::detail::jump_fcontext;
using boost::context::detail::make_fcontext;
using boost::context::detail::transfer_t;

// Sanitizers make frames several times larger.
#if defined(PTO_ASAN) || defined(PTO_TSAN)
constexpr size_t kStackBytes = size_t{1} << 20;
#else
constexpr size_t kStackBytes = size_t{256} << 10;
#endif

size_t GuardBytes() {
  static const auto bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

}  // namespace

std::unique_ptr<Fiber> Fiber::Create() {
  const size_t guard = GuardBytes();
  void* const mapping = mmap(nullptr, guard + kStackBytes, PROT_NONE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (mapping == MAP_FAILED) return nullptr;
  auto* const base = static_cast<std::byte*>(mapping);
  if (mprotect(base + guard, kStackBytes, PROT_READ | PROT_WRITE) != 0) {
    munmap(mapping, guard + kStackBytes);
    return nullptr;
  }
  return std::unique_ptr<Fiber>(new Fiber(base, base + guard));
}

Fiber::Fiber(std::byte* mapping, std::byte* stack) : mapping_(mapping), stack_(stack) {
  inside_ = make_fcontext(stack + kStackBytes, kStackBytes, [](transfer_t transfer) {
    auto* const self = static_cast<Fiber*>(transfer.data);
    self->outside_ = transfer.fctx;
    Main(self);
  });
#if defined(PTO_TSAN)
  tsan_inside_ = __tsan_create_fiber(0);
#endif
}

Fiber::~Fiber() {
  PTO_CHECK(idle_, "a fiber ends in the middle of its function");
  quit_ = true;
  SwitchIn();
#if defined(PTO_TSAN)
  __tsan_destroy_fiber(tsan_inside_);
#endif
#if defined(PTO_ASAN)
  // The next one to get these addresses knows nothing of the frames that were here.
  __asan_unpoison_memory_region(stack_, kStackBytes);
#endif
  munmap(mapping_, GuardBytes() + kStackBytes);
}

void Fiber::Start(Body body, void* argument) {
  body_ = body;
  argument_ = argument;
  idle_ = false;
  SwitchIn();
}

void Fiber::Resume() { SwitchIn(); }

void Fiber::Suspend() { SwitchOut(false); }

void Fiber::Main(void* argument) noexcept {
  auto* const self = static_cast<Fiber*>(argument);
#if defined(PTO_ASAN)
  __sanitizer_finish_switch_fiber(nullptr, &self->outside_stack_, &self->outside_bytes_);
#endif
  while (!self->quit_) {
    self->body_(self->argument_);
    self->idle_ = true;
    self->SwitchOut(false);
  }
  self->SwitchOut(true);
}

void Fiber::SwitchIn() {
  // Who waits inside of a `catch` keeps what it caught, and others do not see it.
  void* const globals = abi::__cxa_get_globals();
  Exceptions outer;
  std::memcpy(&outer, globals, sizeof outer);
  std::memcpy(globals, &exceptions_, sizeof exceptions_);
#if defined(PTO_ASAN)
  void* fake_stack = nullptr;
  __sanitizer_start_switch_fiber(&fake_stack, stack_, kStackBytes);
#endif
#if defined(PTO_TSAN)
  tsan_outside_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(tsan_inside_, 0);
#endif
  const transfer_t back = jump_fcontext(inside_, this);
#if defined(PTO_ASAN)
  __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
#endif
  inside_ = back.fctx;
  std::memcpy(&exceptions_, globals, sizeof exceptions_);
  std::memcpy(globals, &outer, sizeof outer);
}

void Fiber::SwitchOut([[maybe_unused]] bool last) {
#if defined(PTO_ASAN)
  __sanitizer_start_switch_fiber(last ? nullptr : &fake_stack_, outside_stack_, outside_bytes_);
#endif
#if defined(PTO_TSAN)
  __tsan_switch_to_fiber(tsan_outside_, 0);
#endif
  const transfer_t back = jump_fcontext(outside_, nullptr);
#if defined(PTO_ASAN)
  __sanitizer_finish_switch_fiber(fake_stack_, &outside_stack_, &outside_bytes_);
#endif
  outside_ = back.fctx;
}

}  // namespace pto::engine
