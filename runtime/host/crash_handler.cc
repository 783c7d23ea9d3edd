#include "runtime/host/crash_handler.h"

#include <dlfcn.h>
#include <elf.h>
#include <execinfo.h>
#include <link.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

namespace pto::host {
namespace {

// Signal handlers may use only what is here: plain memory, atomics and system calls. No locks, as
// the signal may have come while another function held them.
CrashRecord* g_record = nullptr;

struct CurrentPost {
  uint32_t slot = kNoSlot;
  uint32_t block = 0;
  uint64_t post = 0;
  // The thread's own stack.
  uintptr_t stack_begin = 0;
  uintptr_t stack_end = 0;
};
constinit thread_local CurrentPost t_current;

// Below the stack there is a guard page. Frames larger than that reach further.
constexpr uintptr_t kGuardReach = uintptr_t{64} << 10;

template <size_t kSize>
void CopyText(const char* from, char (&to)[kSize]) {
  size_t size = 0;
  while (size + 1 < kSize && from != nullptr && from[size] != 0) {
    to[size] = from[size];
    ++size;
  }
  to[size] = 0;
}

const char* LastPart(const char* path) {
  const char* last = path;
  for (; *path != 0; ++path) {
    if (*path == '/') last = path + 1;
  }
  return last;
}

// The number of symbols of a file, which only its hash table knows.
uint32_t SymbolCount(const uint32_t* gnu_hash) {
  const uint32_t bucket_count = gnu_hash[0];
  const uint32_t first = gnu_hash[1];
  const uint32_t bloom_words = gnu_hash[2];
  const uint32_t* const buckets =
      gnu_hash + 4 + bloom_words * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
  const uint32_t* const chains = buckets + bucket_count;
  uint32_t last = 0;
  for (uint32_t i = 0; i < bucket_count; ++i) last = std::max(last, buckets[i]);
  if (last < first) return first;
  while ((chains[last - first] & 1) == 0) ++last;
  return last + 1;
}

// dladdr takes the loader's lock, which may be held for ever by now. So this reads the exported
// symbols itself.
void FindSymbol(const link_map& file, uintptr_t address, CrashFrame& frame) {
  const ElfW(Sym)* symbols = nullptr;
  const char* names = nullptr;
  const uint32_t* hash = nullptr;
  for (const ElfW(Dyn)* entry = file.l_ld; entry != nullptr && entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_SYMTAB) symbols = reinterpret_cast<const ElfW(Sym)*>(entry->d_un.d_ptr);
    if (entry->d_tag == DT_STRTAB) names = reinterpret_cast<const char*>(entry->d_un.d_ptr);
    if (entry->d_tag == DT_GNU_HASH) hash = reinterpret_cast<const uint32_t*>(entry->d_un.d_ptr);
  }
  // Not relocated in the kernel's own library, the vdso.
  if (symbols == nullptr || names == nullptr || hash == nullptr ||
      reinterpret_cast<uintptr_t>(symbols) < file.l_addr) {
    return;
  }
  const uintptr_t offset = address - file.l_addr;
  const ElfW(Sym)* best = nullptr;
  const uint32_t count = SymbolCount(hash);
  for (uint32_t i = 1; i < count; ++i) {
    const ElfW(Sym)& symbol = symbols[i];
    if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_shndx == SHN_UNDEF ||
        symbol.st_value > offset || offset - symbol.st_value >= symbol.st_size) {
      continue;
    }
    if (best == nullptr || symbol.st_value > best->st_value) best = &symbol;
  }
  if (best == nullptr) return;
  CopyText(names + best->st_name, frame.symbol);
  frame.symbol_offset = offset - best->st_value;
}

// Returns false for a place in the program itself.
bool FillFrame(uintptr_t address, CrashFrame& frame) {
  frame.offset = address;
  frame.symbol_offset = 0;
  frame.file[0] = frame.symbol[0] = 0;
  dl_find_object found = {};
  // Takes no lock.
  if (_dl_find_object(reinterpret_cast<void*>(address), &found) != 0 ||
      found.dlfo_link_map == nullptr) {
    return true;
  }
  const link_map& file = *found.dlfo_link_map;
  frame.offset = address - file.l_addr;
  const bool program = file.l_name == nullptr || file.l_name[0] == 0;
  CopyText(program ? "host" : LastPart(file.l_name), frame.file);
  if (!program) FindSymbol(file, address, frame);
  return !program;
}

uintptr_t InstructionOf(const void* context) {
  const auto& machine = static_cast<const ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  return static_cast<uintptr_t>(machine.gregs[REG_RIP]);
#elif defined(__aarch64__)
  return machine.pc;
#else
#error "no instruction pointer for this machine"
#endif
}

// Only the first thread writes. The others wait for the end of the process.
bool Claim() { return g_record->claimed.exchange(1, std::memory_order_acq_rel) == 0; }

void WritePost() {
  g_record->slot = t_current.slot;
  g_record->block = t_current.block;
  g_record->post = t_current.post;
}

// The frames from the instruction outwards. What is before it is this handler.
void WriteFrames(uintptr_t instruction) {
  void* addresses[CrashRecord::kMaxFrames + 8];
  const int found = backtrace(addresses, CrashRecord::kMaxFrames + 8);
  int begin = 0;
  while (begin < found && reinterpret_cast<uintptr_t>(addresses[begin]) != instruction) ++begin;
  uint32_t count = 0;
  if (begin >= found) {
    // Not found: the stack is gone, but the instruction is known.
    FillFrame(instruction, g_record->frames[count++]);
    g_record->frame_count.store(count, std::memory_order_release);
    return;
  }
  for (int i = begin; i < found && count < CrashRecord::kMaxFrames; ++i) {
    // A return address belongs to the call before it.
    const auto address = reinterpret_cast<uintptr_t>(addresses[i]);
    // From where the host calls the kernel, nothing is of interest.
    if (!FillFrame(i == begin ? address : address - 1, g_record->frames[count]) && count > 0) break;
    g_record->frame_count.store(++count, std::memory_order_release);
  }
}

void OnSignal(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  if (Claim()) {
    CrashRecord& record = *g_record;
    record.signal = signal;
    record.code = info->si_code;
    const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
    record.address = info->si_code > 0 ? address : 0;
    record.stack_overflow = info->si_code > 0 && (signal == SIGSEGV || signal == SIGBUS) &&
                            t_current.stack_end != 0 && address < t_current.stack_end &&
                            address + kGuardReach >= t_current.stack_begin &&
                            address < t_current.stack_begin + kGuardReach;
    WritePost();
    record.kind.store(CrashRecord::kSignal, std::memory_order_release);
    // A second signal from here ends the process at once: the handler was reset.
    WriteFrames(InstructionOf(context));
  } else {
    while (true) pause();
  }
  errno = error;
  // The disposition is the default one now, so this ends the process with the same signal.
  syscall(SYS_tgkill, getpid(), static_cast<pid_t>(syscall(SYS_gettid)), signal);
}

void OnExit(int code, void*) {
  if (g_record == nullptr || t_current.slot == kNoSlot || !Claim()) return;
  g_record->code = code;
  WritePost();
  g_record->kind.store(CrashRecord::kExit, std::memory_order_release);
}

}  // namespace

void CrashHandler::Install(CrashRecord* record) {
  g_record = record;
  // The first call loads a library, which a signal handler must not.
  void* none[1];
  backtrace(none, 1);
  on_exit(&OnExit, nullptr);
  struct sigaction action = {};
  action.sa_sigaction = &OnSignal;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | static_cast<int>(SA_RESETHAND) | SA_NODEFER;
  sigemptyset(&action.sa_mask);
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS, SIGXFSZ}) {
    sigaction(signal, &action, nullptr);
  }
}

void CrashHandler::BeginPost(uint32_t slot, uint64_t post) {
  t_current.post = post;
  t_current.block = 0;
  t_current.slot = slot;
}

void CrashHandler::SetBlock(uint32_t block) { t_current.block = block; }

void CrashHandler::EndPost() { t_current.slot = kNoSlot; }

void CrashHandler::GiveUp(const char* why) {
  // Without a claim: what the record says already is perhaps from a kernel.
  if (g_record != nullptr) {
    CopyText(why, g_record->text);
    WritePost();
    g_record->frame_count.store(0, std::memory_order_relaxed);
    g_record->kind.store(CrashRecord::kBroken, std::memory_order_release);
  }
  _exit(1);
}

CrashStack::CrashStack() : memory_(new std::byte[kBytes]) {
  stack_t stack = {};
  stack.ss_sp = memory_.get();
  stack.ss_size = kBytes;
  sigaltstack(&stack, nullptr);
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
    void* begin = nullptr;
    size_t size = 0;
    if (pthread_attr_getstack(&attributes, &begin, &size) == 0) {
      t_current.stack_begin = reinterpret_cast<uintptr_t>(begin);
      t_current.stack_end = t_current.stack_begin + size;
    }
    pthread_attr_destroy(&attributes);
  }
}

CrashStack::~CrashStack() {
  stack_t none = {};
  none.ss_flags = SS_DISABLE;
  sigaltstack(&none, nullptr);
  t_current.stack_begin = t_current.stack_end = 0;
}

}  // namespace pto::host
