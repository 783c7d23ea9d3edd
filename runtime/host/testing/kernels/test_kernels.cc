// Kernels as users write them, good ones and bad ones. Only the ABI's header is used.

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <stdexcept>
#include <thread>
#include <vector>

#include "kernels/pto_kernel.h"

namespace {

constexpr pto_argument_info kFloats[] = {{"x", PTO_INPUT, PTO_DTYPE_BIT(PTO_F32)},
                                         {"y", PTO_INPUT, PTO_DTYPE_BIT(PTO_F32)},
                                         {"z", PTO_OUTPUT, PTO_DTYPE_BIT(PTO_F32)}};
constexpr pto_argument_info kWords[] = {{"words", PTO_INOUT, PTO_DTYPE_BIT(PTO_I64)}};
constexpr pto_scalar_info kNumber[] = {{"number", PTO_INTEGER}};

// Each block has its share of the elements.
int32_t Add(const pto_context* context) {
  const pto_tensor* const t = context->tensors;
  const int64_t count = t[2].shape[0];
  const int64_t begin = count * context->block_index / context->block_count;
  const int64_t end = count * (context->block_index + 1) / context->block_count;
  const auto* x = static_cast<const float*>(t[0].data);
  const auto* y = static_cast<const float*>(t[1].data);
  auto* z = static_cast<float*>(t[2].data);
  for (int64_t i = begin; i < end; ++i) {
    z[i * t[2].strides[0]] = x[i * t[0].strides[0]] + y[i * t[1].strides[0]];
  }
  return 0;
}

int32_t DoNothing(const pto_context*) { return 0; }

// Adds the number to the first word of each member.
int32_t AddNumber(const pto_context* context) {
  for (uint32_t m = 0; m < context->member_count; ++m) {
    auto* word = static_cast<int64_t*>(context->members[m][0].data);
    __atomic_fetch_add(word, context->scalars[0].i64, __ATOMIC_RELAXED);
  }
  return 0;
}

// Writes its place to the words.
int32_t WritePlace(const pto_context* context) {
  auto* words = static_cast<int64_t*>(context->tensors[0].data) + context->block_index * 4;
  words[0] = context->chip;
  words[1] = context->block_count;
  words[2] = context->member_index;
  words[3] = context->core_kind;
  return 0;
}

int32_t Fail(const pto_context* context) {
  context->api->set_error(context, "this is what went wrong");
  return static_cast<int32_t>(context->scalars[0].i64);
}

int32_t Talk(const pto_context* context) {
  context->api->log(context, PTO_LOG_INFO, "a line of the log");
  puts("a printed line");
  return 0;
}

// Runs until it is cancelled. The word says that it runs.
int32_t Spin(const pto_context* context) {
  auto* word = static_cast<int64_t*>(context->tensors[0].data);
  __atomic_store_n(word, 1, __ATOMIC_RELEASE);
  while (context->api->cancelled(context) == 0) {
  }
  return PTO_CANCELLED;
}

int32_t SpinForEver(const pto_context* context) {
  auto* word = static_cast<int64_t*>(context->tensors[0].data);
  __atomic_store_n(word, 1, __ATOMIC_RELEASE);
  while (true) {
    __atomic_load_n(word, __ATOMIC_RELAXED);
  }
}

pto_signal Word(const pto_context* context, int64_t index) {
  return {static_cast<int64_t*>(context->tensors[0].data) + index, PTO_I64};
}

pto_tensor Words(const pto_tensor& from, int64_t first, int64_t count) {
  pto_tensor view = from;
  view.data = static_cast<int64_t*>(from.data) + first;
  view.shape[0] = count;
  return view;
}

// Makes calls of the engine, as the number says, and passes on their results. Uses the words
//   0: that it has begun   1: notified   2: waited for   8-15: data   16-23: its copies
int32_t Call(const pto_context* context) {
  const pto_kernel_api& api = *context->api;
  const pto_signal begun = Word(context, 0), out = Word(context, 1), in = Word(context, 2);
  const pto_tensor& words = context->tensors[0];
  const pto_tensor from = Words(words, 8, 4);
  const pto_tensor to = Words(words, 16, 4);
  __atomic_fetch_add(static_cast<int64_t*>(begun.address), 1, __ATOMIC_RELEASE);
  switch (context->scalars[0].i64) {
    case 0:
      return api.wait(context, &in, PTO_GE, 1, 0);
    case 1: {
      const int32_t told = api.notify(context, &out, PTO_ADD, 5);
      // The change is made when the call returns.
      if (told == PTO_OK && *static_cast<int64_t*>(out.address) != 5) return 1;
      return told;
    }
    case 2:
      return api.wait(context, &in, PTO_GE, 1, 1000000);
    case 3:
      api.wait(context, &in, PTO_GE, 1, 1000000);
      return 0;
    case 4: {
      pto_event event = 0;
      int32_t result = api.copy(context, &to, &from, &out, PTO_SET, 3, &event);
      if (result == PTO_OK) result = api.wait_copy(context, event, 0);
      return result != PTO_OK || static_cast<int64_t*>(to.data)[3] != 11 ? 1 : 0;
    }
    case 5: {
      pto_event event = 0;
      const int32_t result = api.copy(context, &to, &from, nullptr, PTO_SET, 0, &event);
      return result != PTO_OK ? result : api.defer_copy(context, event, 0);
    }
    case 6:
      return api.defer(context, &in, PTO_GE, 1, 0);
    case 7: {
      const pto_signal foreign = {in.address, PTO_U64};
      return api.defer(context, &foreign, PTO_GE, 1, 0);
    }
    case 8: {
      // Of its own memory, which nobody else has.
      int64_t own = 0;
      const pto_signal wrong = {&own, PTO_I64};
      return api.notify(context, &wrong, PTO_SET, 1) == PTO_INVALID ? 0 : 1;
    }
    case 9: {
      // In the task's memory, but not in its tensors.
      const pto_signal wrong = Word(context, words.shape[0]);
      return api.wait(context, &wrong, PTO_EQ, 5, 0);
    }
    case 10: {
      const pto_tensor wrong = Words(words, 0, int64_t{1} << 60);
      return api.copy(context, &wrong, &wrong, nullptr, PTO_SET, 0, nullptr);
    }
    case 11: {
      for (int i = 0; i < 65; ++i) {
        const int32_t result = api.defer(context, &in, PTO_GE, 1, 0);
        if (result != PTO_OK) return i == 64 ? 64 : 1;
      }
      return 0;
    }
    default:
      return 1;
  }
}

// Blocks of all members meet, and copy to the next member between two meetings.
int32_t CallTogether(const pto_context* context) {
  const pto_kernel_api& api = *context->api;
  const uint32_t next = (context->member_index + 1) % context->member_count;
  if (const int32_t met = api.barrier(context, PTO_SCOPE_TASK)) return met;
  if (context->scalars[0].i64 == 1 && context->block_index == 0 && context->member_index == 0) {
    return 17;
  }
  if (context->block_index == 0) {
    const pto_tensor from = Words(context->members[context->member_index][0], 8, 4);
    const pto_tensor to = Words(context->members[next][0], 16, 4);
    pto_event event = 0;
    int32_t result = api.copy(context, &to, &from, nullptr, PTO_SET, 0, &event);
    if (result == PTO_OK) result = api.wait_copy(context, event, 0);
    if (result != PTO_OK) return result;
  }
  if (const int32_t met = api.barrier(context, PTO_SCOPE_TASK)) return met;
  // Each block sees what the member before has copied.
  const auto* own = static_cast<const int64_t*>(context->tensors[0].data);
  const auto* theirs = static_cast<const int64_t*>(
      context
          ->members[(context->member_index + context->member_count - 1) % context->member_count][0]
          .data);
  for (int i = 0; i < 4; ++i) {
    if (own[16 + i] != theirs[8 + i]) return 1;
  }
  return api.barrier(context, PTO_SCOPE_CHIP);
}

int64_t MonotonicNanos() {
  timespec time = {};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

// Computes for so many nanoseconds.
int32_t Compute(const pto_context* context) {
  const int64_t until_ns = MonotonicNanos() + context->scalars[0].i64;
  while (MonotonicNanos() < until_ns) {
  }
  return 0;
}

// Writes when it has started.
int32_t WriteTime(const pto_context* context) {
  *static_cast<int64_t*>(context->tensors[0].data) = MonotonicNanos();
  return 0;
}

volatile int g_zero = 0;
volatile int g_number = 1000;

__attribute__((noinline)) int Overflow(int depth) {
  volatile char frame[4096];
  frame[0] = static_cast<char>(depth);
  return depth == -1 ? 0 : Overflow(depth + 1) + frame[0];
}

}  // namespace

// Exported, so that backtraces name it.
extern "C" __attribute__((noinline, visibility("default"))) void test_store(volatile int* address) {
  *address = 1;
}

namespace {

[[noreturn]] __attribute__((noinline)) void Throw() {
  throw std::runtime_error("thrown by a test");
}
void ThrowWhereNobodyCatches() noexcept { Throw(); }

int32_t Fault(const pto_context* context) {
  switch (context->scalars[0].i64) {
    case 0:
      test_store(reinterpret_cast<volatile int*>(16));
      break;
    case 1: {
      // A page behind the end of its file.
      const int file = memfd_create("empty", 0);
      auto* page = static_cast<volatile int*>(
          mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
      test_store(page);
      break;
    }
    case 2:
      return g_number / g_zero;
    case 3:
      __builtin_trap();
    case 4:
      abort();
    case 5:
      exit(3);
    case 6:
      _exit(4);
    case 7:
      Throw();
    case 8:
      ThrowWhereNobodyCatches();
      break;
    case 9:
      return Overflow(0);
    case 10: {
      // Without end: the limit ends it.
      std::vector<char*> all;
      while (true) {
        all.push_back(new char[1 << 20]);
        memset(all.back(), 1, 1 << 20);
      }
    }
    case 11: {
      auto* bytes = static_cast<char*>(malloc(64));
      volatile size_t too_much = 4096;
      memset(bytes, 0x41, too_much);
      free(bytes);
      // More of the heap, until the library notices.
      for (int i = 0; i < 1000; ++i) free(malloc(static_cast<size_t>(i) * 16));
      abort();
    }
    case 12: {
      // What it shares with the daemon, found by way of the engine's pointer.
      char* shared = nullptr;
      memcpy(&shared, static_cast<char*>(context->engine) + 16, sizeof shared);
      memset(shared, 0xff, 2 << 20);
      return 0;
    }
    case 13:
      raise(SIGKILL);
      kill(getpid(), SIGKILL);
      // Forbidden: it goes on, and fails.
      return 13;
    case 14: {
      std::thread([] { test_store(nullptr); }).join();
      return 0;
    }
    default:
      break;
  }
  return 0;
}

// Each action must be refused. Returns 0 if it was.
int32_t Escape(const pto_context* context) {
  const auto refused = [&](const char* what, bool failed) {
    if (failed) return 0;
    context->api->set_error(context, what);
    return 1;
  };
  switch (context->scalars[0].i64) {
    case 0: {
      // A fork bomb, if nobody stops it.
      const pid_t child = fork();
      if (child == 0) _exit(0);
      return refused("fork", child < 0);
    }
    case 1:
      for (int i = 0; i <= 5; ++i) close(i);
      for (int i = 0; i <= 5; ++i) dup2(0, i);
      return refused("close", fcntl(3, F_GETFD) == 0 && fcntl(5, F_GETFD) == 0);
    case 2:
      return refused("socket", socket(AF_INET, SOCK_STREAM, 0) < 0);
    case 3:
      return refused("open", open("/etc/passwd", O_RDONLY) < 0);
    case 4:
      return refused("create", open("/tmp/ptod-escape", O_CREAT | O_WRONLY, 0600) < 0);
    case 5:
      return refused("exec", execl("/bin/true", "true", nullptr) < 0);
    case 6:
      return refused("kill", kill(getppid(), 0) < 0);
    case 7: {
      rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
      return refused("setrlimit", setrlimit(RLIMIT_DATA, &limit) < 0);
    }
    default:
      return 1;
  }
}

constexpr pto_kernel_info Make(const char* name, pto_kernel_function function,
                               const pto_argument_info* arguments, uint32_t argument_count,
                               uint32_t scalar_count, uint32_t flags = 0) {
  return {sizeof(pto_kernel_info), name,    "For tests.", function, nullptr, PTO_AIV, arguments,
          argument_count,          kNumber, scalar_count, 0,        flags,   0};
}

constexpr pto_kernel_info Together(pto_kernel_info info) {
  info.requires_sync_start = 1;
  return info;
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default"))) const

EXPORT pto_kernel_info vector_add = Make("vector_add", &Add, kFloats, 3, 0);
EXPORT pto_kernel_info noop = Make("noop", &DoNothing, nullptr, 0, 0);
EXPORT pto_kernel_info add_number = Make("add_number", &AddNumber, kWords, 1, 1);
EXPORT pto_kernel_info compute = Make("compute", &Compute, nullptr, 0, 1);
EXPORT pto_kernel_info write_time = Make("write_time", &WriteTime, kWords, 1, 0);
EXPORT pto_kernel_info write_place = Make("write_place", &WritePlace, kWords, 1, 0);
EXPORT pto_kernel_info fail = Make("fail", &Fail, nullptr, 0, 1);
EXPORT pto_kernel_info talk = Make("talk", &Talk, nullptr, 0, 0);
EXPORT pto_kernel_info spin = Make("spin", &Spin, kWords, 1, 0, PTO_KERNEL_BLOCKS);
EXPORT pto_kernel_info spin_plain = Make("spin_plain", &Spin, kWords, 1, 0);
EXPORT pto_kernel_info spin_for_ever =
    Make("spin_for_ever", &SpinForEver, kWords, 1, 0, PTO_KERNEL_BLOCKS);
EXPORT pto_kernel_info call =
    Make("call", &Call, kWords, 1, 1, PTO_KERNEL_WAITS | PTO_KERNEL_NOTIFIES);
EXPORT pto_kernel_info call_silent = Make("call_silent", &Call, kWords, 1, 1);
EXPORT pto_kernel_info call_together =
    Together(Make("call_together", &CallTogether, kWords, 1, 1, PTO_KERNEL_WAITS));
EXPORT pto_kernel_info fault = Make("fault", &Fault, nullptr, 0, 1);
EXPORT pto_kernel_info fault_blocking =
    Make("fault_blocking", &Fault, nullptr, 0, 1, PTO_KERNEL_BLOCKS);
EXPORT pto_kernel_info escape = Make("escape", &Escape, nullptr, 0, 1);
EXPORT pto_kernel_info malformed = Make("No Name", &DoNothing, nullptr, 0, 0);
