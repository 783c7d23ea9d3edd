#include "runtime/host/object/private_copy.h"

#include <elf.h>

#include <cstddef>

#include "runtime/base/status_macros.h"
#include "runtime/host/object/elf_file.h"

namespace pto::host {

bool IsSharedByKernels(absl::string_view symbol) {
  // pto::cpu::AtomicAddMutex()::mutex: kernels hold it while they add to memory of several ranks.
  return symbol == "_ZZN3pto3cpu14AtomicAddMutexEvE5mutex";
}

absl::Status MakeSymbolsPrivate(std::string& bytes, PrivateCopyReport* report) {
  PTO_ASSIGN_OR_RETURN(const ElfFile elf, ReadElf(bytes));
  for (const ElfSymbol& symbol : elf.symbols) {
    if (!symbol.defined) continue;
    const bool shared = IsSharedByKernels(symbol.name);
    if (shared == (symbol.binding == STB_GNU_UNIQUE)) continue;
    if (report != nullptr) {
      (shared ? report->made_unique : report->made_private).emplace_back(symbol.name);
    }
    // The names stay, and so do the hash tables. The symbol table stays in order too, because weak
    // symbols stand among the global ones.
    const uint8_t info = ELF64_ST_INFO(shared ? STB_GNU_UNIQUE : STB_WEAK, symbol.type);
    bytes[symbol.entry_offset + offsetof(Elf64_Sym, st_info)] = static_cast<char>(info);
  }
  return absl::OkStatus();
}

}  // namespace pto::host
