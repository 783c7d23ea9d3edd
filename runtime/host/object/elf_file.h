#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace pto::host {

// A symbol of the dynamic symbol table.
struct ElfSymbol {
  absl::string_view name;
  absl::string_view version;  // for example GLIBC_2.34; empty: none
  absl::string_view library;  // where an import expects the version; empty: anywhere
  bool defined = false;       // exported, otherwise imported
  uint8_t type = 0;           // STT_FUNC, STT_OBJECT, …
  uint8_t binding = 0;        // STB_GLOBAL, STB_WEAK or STB_GNU_UNIQUE
  uint64_t size = 0;
  uint64_t entry_offset = 0;  // of the Elf64_Sym in the file
};

// What a library is asked for.
struct ElfVersionNeed {
  absl::string_view library;
  absl::string_view version;
  bool optional = false;
};

// The description of a 64-bit little-endian shared object. Made from bytes, which are untrusted and
// must outlive it: nothing is loaded. Follows the program headers and the dynamic section, as the
// dynamic loader does, and ignores section headers.
struct ElfFile {
  uint16_t machine = 0;  // EM_X86_64, …
  std::vector<absl::string_view> needed;
  absl::string_view soname;
  absl::string_view search_path;  // DT_RUNPATH or DT_RPATH
  std::vector<ElfSymbol> symbols;
  std::vector<ElfVersionNeed> version_needs;
  std::vector<absl::string_view> version_definitions;
  std::string build_id;  // in hex; empty: none
  bool executable_stack = false;
  bool text_relocations = false;
  bool initialisers = false;  // code that runs while the object is loaded

  const ElfSymbol* FindExport(absl::string_view name) const;
};

// FIELD_INVALID with what is wrong, if the bytes are no shared object or contradict themselves.
absl::StatusOr<ElfFile> ReadElf(absl::string_view bytes);

// The name of a machine, for example "x86-64".
std::string ElfMachineName(uint16_t machine);
// The machine that this program is built for.
uint16_t ThisElfMachine();

}  // namespace pto::host
