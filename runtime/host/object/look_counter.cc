#include "runtime/host/object/look_counter.h"

#include <elf.h>
#include <link.h>
#include <sched.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cstring>

namespace pto::host {
namespace {

thread_local uint64_t looks = 0;

int CountedNanosleep(const timespec* time, timespec* rest) {
  ++looks;
  return nanosleep(time, rest);
}
int CountedClockNanosleep(clockid_t clock, int flags, const timespec* time, timespec* rest) {
  ++looks;
  return clock_nanosleep(clock, flags, time, rest);
}
int CountedUsleep(useconds_t microseconds) {
  ++looks;
  return usleep(microseconds);
}
int CountedYield() {
  ++looks;
  return sched_yield();
}

// What is called in place of a function.
void* CountedVersion(const char* name) {
  if (std::strcmp(name, "nanosleep") == 0) return reinterpret_cast<void*>(&CountedNanosleep);
  if (std::strcmp(name, "clock_nanosleep") == 0) {
    return reinterpret_cast<void*>(&CountedClockNanosleep);
  }
  if (std::strcmp(name, "usleep") == 0) return reinterpret_cast<void*>(&CountedUsleep);
  if (std::strcmp(name, "sched_yield") == 0) return reinterpret_cast<void*>(&CountedYield);
  return nullptr;
}

// Relocations that store the address of a function.
bool StoresAddress(uint64_t type) {
#if defined(__x86_64__)
  return type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT || type == R_X86_64_64;
#else
  return type == R_AARCH64_JUMP_SLOT || type == R_AARCH64_GLOB_DAT || type == R_AARCH64_ABS64;
#endif
}

// The tables of a loaded object, which the loader has checked by using them.
struct Tables {
  const Elf64_Sym* symbols = nullptr;
  const char* names = nullptr;
  const Elf64_Rela* relocations[2] = {};
  uint64_t bytes[2] = {};
};

Tables TablesOf(const link_map& map) {
  // Some loaders leave addresses as they are in the file.
  const auto address = [&](uint64_t value) {
    return value < map.l_addr ? value + map.l_addr : value;
  };
  Tables tables;
  for (const Elf64_Dyn* entry = map.l_ld; entry->d_tag != DT_NULL; ++entry) {
    const uint64_t value = entry->d_un.d_val;
    switch (entry->d_tag) {
      case DT_SYMTAB:
        tables.symbols = reinterpret_cast<const Elf64_Sym*>(address(value));
        break;
      case DT_STRTAB:
        tables.names = reinterpret_cast<const char*>(address(value));
        break;
      case DT_RELA:
        tables.relocations[0] = reinterpret_cast<const Elf64_Rela*>(address(value));
        break;
      case DT_RELASZ:
        tables.bytes[0] = value;
        break;
      case DT_JMPREL:
        tables.relocations[1] = reinterpret_cast<const Elf64_Rela*>(address(value));
        break;
      case DT_PLTRELSZ:
        tables.bytes[1] = value;
        break;
      default:
        break;
    }
  }
  return tables;
}

// The loader has made the page read-only. It stays writable: kernels may do worse.
bool Store(void** slot, void* function) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  void* const start = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(slot) / page * page);
  if (mprotect(start, page, PROT_READ | PROT_WRITE) != 0) return false;
  *slot = function;
  return true;
}

}  // namespace

int CountLooks(const LoadedObject& object) {
  const link_map* const map = object.map();
  if (map == nullptr) return 0;
  const Tables tables = TablesOf(*map);
  if (tables.symbols == nullptr || tables.names == nullptr) return 0;
  int found = 0;
  for (int table = 0; table < 2; ++table) {
    if (tables.relocations[table] == nullptr) continue;
    const uint64_t count = tables.bytes[table] / sizeof(Elf64_Rela);
    for (uint64_t i = 0; i < count; ++i) {
      const Elf64_Rela& relocation = tables.relocations[table][i];
      if (!StoresAddress(ELF64_R_TYPE(relocation.r_info))) continue;
      const Elf64_Sym& symbol = tables.symbols[ELF64_R_SYM(relocation.r_info)];
      if (symbol.st_shndx != SHN_UNDEF) continue;
      void* const counted = CountedVersion(tables.names + symbol.st_name);
      if (counted == nullptr) continue;
      if (Store(reinterpret_cast<void**>(map->l_addr + relocation.r_offset), counted)) ++found;
    }
  }
  return found;
}

uint64_t LooksOfThread() { return looks; }

}  // namespace pto::host
