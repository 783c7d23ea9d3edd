#include "runtime/host/object/elf_file.h"

#include <elf.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::host {
namespace {

// More than any linker writes.
constexpr uint64_t kMaxProgramHeaders = 256;
constexpr uint64_t kMaxNeeded = 256;
constexpr uint64_t kMaxSymbols = 1 << 20;
constexpr uint64_t kMaxVersions = 0x7fff;  // the format has 15 bits for them

absl::Status Malformed(absl::string_view what) {
  return Error(reason::kFieldInvalid, what).At("object");
}

// Reads one file. Each function checks that what it reads is in the file.
class ElfReader {
 public:
  explicit ElfReader(absl::string_view bytes)
      // Tables of real files share few names. More would make reading take quadratic time.
      : bytes_(bytes), name_budget_(16 * bytes.size() + (1 << 16)) {}

  absl::StatusOr<ElfFile> Read() {
    PTO_RETURN_IF_ERROR(ReadHeader());
    PTO_RETURN_IF_ERROR(ReadSegments());
    PTO_RETURN_IF_ERROR(ReadDynamic());
    PTO_RETURN_IF_ERROR(ReadStrings());
    PTO_RETURN_IF_ERROR(ReadVersionNeeds());
    PTO_RETURN_IF_ERROR(ReadVersionDefinitions());
    PTO_RETURN_IF_ERROR(ReadSymbols());
    ReadNotes();
    return std::move(file_);
  }

 private:
  struct Version {
    absl::string_view name;
    absl::string_view library;
  };

  bool Has(uint64_t offset, uint64_t size) const {
    return offset <= bytes_.size() && size <= bytes_.size() - offset;
  }

  // A copy, because entries need not be aligned in the bytes.
  template <typename T>
  bool Get(uint64_t offset, T* value) const {
    if (!Has(offset, sizeof(T))) return false;
    std::memcpy(value, bytes_.data() + offset, sizeof(T));
    return true;
  }

  // Where an address of the loaded object is in the file, if the file has `size` bytes there.
  bool Find(uint64_t address, uint64_t size, uint64_t* offset) const {
    for (const Elf64_Phdr& load : loads_) {
      if (address < load.p_vaddr || address - load.p_vaddr > load.p_filesz) continue;
      const uint64_t inside = address - load.p_vaddr;
      if (size > load.p_filesz - inside) continue;
      *offset = load.p_offset + inside;
      return true;
    }
    return false;
  }

  absl::Status ReadHeader() {
    if (!Get(0, &header_) || std::memcmp(header_.e_ident, ELFMAG, SELFMAG) != 0) {
      return Malformed("is no ELF file: build a shared object with -shared -fPIC");
    }
    if (header_.e_ident[EI_CLASS] != ELFCLASS64 || header_.e_ident[EI_DATA] != ELFDATA2LSB) {
      return Malformed("is not for a 64-bit little-endian machine");
    }
    if (header_.e_ident[EI_VERSION] != EV_CURRENT) return Malformed("has an unknown ELF version");
    if (header_.e_type != ET_DYN) {
      return Malformed(
          header_.e_type == ET_REL    ? "is an object file that is not linked: link it with -shared"
          : header_.e_type == ET_EXEC ? "is a program: link it with -shared"
                                      : "is not a shared object: link it with -shared");
    }
    file_.machine = header_.e_machine;
    return absl::OkStatus();
  }

  absl::Status ReadSegments() {
    if (header_.e_phentsize != sizeof(Elf64_Phdr) || header_.e_phnum == 0 ||
        header_.e_phnum > kMaxProgramHeaders ||
        !Has(header_.e_phoff, uint64_t{header_.e_phnum} * sizeof(Elf64_Phdr))) {
      return Malformed("has no valid table of program headers");
    }
    for (uint64_t i = 0; i < header_.e_phnum; ++i) {
      Elf64_Phdr segment;
      Get(header_.e_phoff + i * sizeof segment, &segment);
      switch (segment.p_type) {
        case PT_LOAD:
          if (!Has(segment.p_offset, segment.p_filesz) || segment.p_memsz < segment.p_filesz ||
              segment.p_vaddr + segment.p_memsz < segment.p_vaddr) {
            return Malformed(absl::StrCat("program header ", i, " leaves the file"));
          }
          if (!loads_.empty() && segment.p_vaddr < loads_.back().p_vaddr + loads_.back().p_memsz) {
            return Malformed(absl::StrCat("program header ", i, " is not in ascending order"));
          }
          loads_.push_back(segment);
          break;
        case PT_DYNAMIC:
          dynamic_ = segment;
          has_dynamic_ = true;
          break;
        case PT_GNU_STACK:
          file_.executable_stack |= (segment.p_flags & PF_X) != 0;
          has_stack_ = true;
          break;
        case PT_NOTE:
          notes_.push_back(segment);
          break;
        default:
          break;
      }
    }
    // Without the header, the loader makes stacks executable.
    file_.executable_stack |= !has_stack_;
    if (loads_.empty()) return Malformed("has nothing to load");
    if (!has_dynamic_) return Malformed("has no dynamic section: link it with -shared");
    return absl::OkStatus();
  }

  absl::Status ReadDynamic() {
    uint64_t offset = 0;
    if (!Find(dynamic_.p_vaddr, dynamic_.p_filesz, &offset)) {
      return Malformed("its dynamic section is not in the file");
    }
    const uint64_t count = dynamic_.p_filesz / sizeof(Elf64_Dyn);
    for (uint64_t i = 0; i < count; ++i) {
      Elf64_Dyn entry;
      Get(offset + i * sizeof entry, &entry);
      if (entry.d_tag == DT_NULL) break;
      const uint64_t value = entry.d_un.d_val;
      switch (entry.d_tag) {
        case DT_NEEDED:
          if (needed_.size() == kMaxNeeded) return Malformed("needs too many libraries");
          needed_.push_back(value);
          break;
        case DT_TEXTREL:
          file_.text_relocations = true;
          break;
        case DT_FLAGS:
          file_.text_relocations |= (value & DF_TEXTREL) != 0;
          break;
        case DT_FLAGS_1:
          if ((value & DF_1_PIE) != 0) return Malformed("is a program: link it with -shared");
          break;
        case DT_INIT:
        case DT_PREINIT_ARRAY:
          file_.initialisers = true;
          break;
        case DT_INIT_ARRAYSZ:
          file_.initialisers |= value != 0;
          break;
        default:
          // The loader uses the last one of each tag.
          tags_[entry.d_tag] = value;
          break;
      }
    }
    return absl::OkStatus();
  }

  // The value of a tag of the dynamic section. 0: not there.
  uint64_t Tag(int64_t tag) const {
    const auto found = tags_.find(tag);
    return found == tags_.end() ? 0 : found->second;
  }

  absl::Status ReadStrings() {
    uint64_t offset = 0;
    const uint64_t size = Tag(DT_STRSZ);
    if (!Find(Tag(DT_STRTAB), size, &offset) || size == 0) {
      return Malformed("its table of names is not in the file");
    }
    names_ = bytes_.substr(offset, size);
    for (const uint64_t at : needed_) {
      PTO_ASSIGN_OR_RETURN(const absl::string_view name, Name(at));
      file_.needed.push_back(name);
    }
    if (tags_.contains(DT_SONAME)) {
      PTO_ASSIGN_OR_RETURN(file_.soname, Name(Tag(DT_SONAME)));
    }
    for (const int64_t tag : {int64_t{DT_RPATH}, int64_t{DT_RUNPATH}}) {
      if (!tags_.contains(tag)) continue;
      PTO_ASSIGN_OR_RETURN(file_.search_path, Name(Tag(tag)));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<absl::string_view> Name(uint64_t at) {
    if (at >= names_.size()) return Malformed("a name is not in the table of names");
    const size_t end = names_.find('\0', at);
    if (end == absl::string_view::npos) return Malformed("a name has no end");
    const absl::string_view name = names_.substr(at, end - at);
    if (name.size() > name_budget_) return Malformed("its names overlap too much");
    name_budget_ -= name.size();
    return name;
  }

  absl::Status AddVersion(uint16_t index, Version version) {
    if (versions_.size() >= kMaxVersions) return Malformed("has too many versions");
    versions_[index] = version;
    return absl::OkStatus();
  }

  absl::Status ReadVersionNeeds() {
    const absl::Status outside = Malformed("its required versions are not in the file");
    const uint64_t count = std::min(Tag(DT_VERNEEDNUM), kMaxVersions);
    uint64_t total = 0;
    uint64_t address = Tag(DT_VERNEED);
    for (uint64_t i = 0; i < count; ++i) {
      uint64_t offset = 0;
      Elf64_Verneed need;
      if (!Find(address, sizeof need, &offset) || !Get(offset, &need)) return outside;
      PTO_ASSIGN_OR_RETURN(const absl::string_view library, Name(need.vn_file));
      uint64_t aux_address = address + need.vn_aux;
      for (uint32_t k = 0; k < need.vn_cnt; ++k) {
        if (++total > kMaxVersions) return Malformed("requires too many versions");
        Elf64_Vernaux aux;
        if (!Find(aux_address, sizeof aux, &offset) || !Get(offset, &aux)) return outside;
        PTO_ASSIGN_OR_RETURN(const absl::string_view name, Name(aux.vna_name));
        const bool optional = (aux.vna_flags & VER_FLG_WEAK) != 0;
        file_.version_needs.push_back({library, name, optional});
        PTO_RETURN_IF_ERROR(AddVersion(aux.vna_other & 0x7fff, {name, library}));
        if (aux.vna_next == 0) break;
        aux_address += aux.vna_next;
      }
      if (need.vn_next == 0) break;
      address += need.vn_next;
    }
    return absl::OkStatus();
  }

  absl::Status ReadVersionDefinitions() {
    const absl::Status outside = Malformed("its own versions are not in the file");
    const uint64_t count = std::min(Tag(DT_VERDEFNUM), kMaxVersions);
    uint64_t address = Tag(DT_VERDEF);
    for (uint64_t i = 0; i < count; ++i) {
      uint64_t offset = 0;
      Elf64_Verdef definition;
      Elf64_Verdaux aux;
      if (!Find(address, sizeof definition, &offset) || !Get(offset, &definition)) return outside;
      if (!Find(address + definition.vd_aux, sizeof aux, &offset) || !Get(offset, &aux)) {
        return outside;
      }
      PTO_ASSIGN_OR_RETURN(const absl::string_view name, Name(aux.vda_name));
      // The first one names the object itself.
      if ((definition.vd_flags & VER_FLG_BASE) == 0) {
        file_.version_definitions.push_back(name);
        PTO_RETURN_IF_ERROR(AddVersion(definition.vd_ndx & 0x7fff, {name, {}}));
      }
      if (definition.vd_next == 0) break;
      address += definition.vd_next;
    }
    return absl::OkStatus();
  }

  // The length of the symbol table is known only from the hash tables.
  absl::StatusOr<uint64_t> CountSymbols() const {
    uint64_t offset = 0;
    if (tags_.contains(DT_GNU_HASH)) {
      uint32_t head[4];  // buckets, first symbol, words of the filter, shift
      const uint64_t address = Tag(DT_GNU_HASH);
      if (!Find(address, sizeof head, &offset) || !Get(offset, &head)) {
        return Malformed("its hash table is not in the file");
      }
      const uint64_t buckets = address + sizeof head + uint64_t{head[2]} * 8;
      if (!Find(buckets, uint64_t{head[0]} * 4, &offset)) {
        return Malformed("its hash table is not in the file");
      }
      uint64_t last = 0;
      for (uint64_t i = 0; i < head[0]; ++i) {
        uint32_t first = 0;
        Get(offset + i * 4, &first);
        last = std::max<uint64_t>(last, first);
      }
      if (last == 0) return head[1];  // nothing is exported
      if (last < head[1]) return Malformed("its hash table contradicts itself");
      // The last chain ends the table. Its last entry is odd.
      const uint64_t chains = buckets + uint64_t{head[0]} * 4;
      while (true) {
        uint32_t hash;
        if (!Find(chains + (last - head[1]) * 4, 4, &offset) || !Get(offset, &hash)) {
          return Malformed("its hash table has no end");
        }
        ++last;
        if ((hash & 1) != 0) return last;
      }
    }
    uint32_t head[2];  // buckets, symbols
    if (!tags_.contains(DT_HASH) || !Find(Tag(DT_HASH), sizeof head, &offset) ||
        !Get(offset, &head)) {
      return Malformed("has no hash table of symbols: link it with --hash-style=gnu");
    }
    return head[1];
  }

  absl::Status ReadSymbols() {
    PTO_ASSIGN_OR_RETURN(const uint64_t count, CountSymbols());
    if (count > kMaxSymbols) return Malformed(absl::StrCat("has ", count, " symbols"));
    uint64_t offset = 0;
    if (!Find(Tag(DT_SYMTAB), count * sizeof(Elf64_Sym), &offset)) {
      return Malformed("its symbols are not in the file");
    }
    uint64_t versions = 0;
    const bool versioned = tags_.contains(DT_VERSYM);
    if (versioned && !Find(Tag(DT_VERSYM), count * 2, &versions)) {
      return Malformed("the versions of its symbols are not in the file");
    }
    for (uint64_t i = 1; i < count; ++i) {  // the first one is empty
      Elf64_Sym entry;
      Get(offset + i * sizeof entry, &entry);
      ElfSymbol symbol;
      symbol.binding = ELF64_ST_BIND(entry.st_info);
      symbol.type = ELF64_ST_TYPE(entry.st_info);
      if (symbol.binding == STB_LOCAL) continue;
      const uint8_t visibility = ELF64_ST_VISIBILITY(entry.st_other);
      if (visibility == STV_HIDDEN || visibility == STV_INTERNAL) continue;
      PTO_ASSIGN_OR_RETURN(symbol.name, Name(entry.st_name));
      symbol.defined = entry.st_shndx != SHN_UNDEF;
      symbol.size = entry.st_size;
      symbol.entry_offset = offset + i * sizeof entry;
      if (versioned) {
        uint16_t index = 0;
        Get(versions + i * 2, &index);
        index &= 0x7fff;
        const auto version = versions_.find(index);
        if (version != versions_.end()) {
          symbol.version = version->second.name;
          symbol.library = version->second.library;
        } else if (index > VER_NDX_GLOBAL) {
          return Malformed(absl::StrCat("symbol ", i, " has a version that is not listed"));
        }
      }
      file_.symbols.push_back(symbol);
    }
    return absl::OkStatus();
  }

  // Notes only inform, so a malformed one is skipped.
  void ReadNotes() {
    for (const Elf64_Phdr& segment : notes_) {
      if (!Has(segment.p_offset, segment.p_filesz)) continue;
      const uint64_t end = segment.p_offset + segment.p_filesz;
      const uint64_t align = segment.p_align == 8 ? 8 : 4;
      const auto padded = [align](uint64_t size) { return (size + align - 1) / align * align; };
      uint64_t at = segment.p_offset;
      Elf64_Nhdr note;
      while (at + sizeof note <= end && Get(at, &note)) {
        const uint64_t name = at + sizeof note;
        const uint64_t body = name + padded(note.n_namesz);
        if (body + note.n_descsz > end) break;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && note.n_descsz <= 64 &&
            bytes_.substr(name, 3) == "GNU") {
          file_.build_id = absl::BytesToHexString(bytes_.substr(body, note.n_descsz));
        }
        at = body + padded(note.n_descsz);
      }
    }
  }

  const absl::string_view bytes_;
  uint64_t name_budget_;
  Elf64_Ehdr header_;
  std::vector<Elf64_Phdr> loads_;
  Elf64_Phdr dynamic_ = {};
  bool has_dynamic_ = false;
  bool has_stack_ = false;
  std::vector<Elf64_Phdr> notes_;
  std::vector<uint64_t> needed_;
  absl::flat_hash_map<int64_t, uint64_t> tags_;
  absl::string_view names_;
  absl::flat_hash_map<uint16_t, Version> versions_;
  ElfFile file_;
};

}  // namespace

const ElfSymbol* ElfFile::FindExport(absl::string_view name) const {
  for (const ElfSymbol& symbol : symbols) {
    if (symbol.defined && symbol.name == name) return &symbol;
  }
  return nullptr;
}

absl::StatusOr<ElfFile> ReadElf(absl::string_view bytes) { return ElfReader(bytes).Read(); }

std::string ElfMachineName(uint16_t machine) {
  switch (machine) {
    case EM_X86_64:
      return "x86-64";
    case EM_AARCH64:
      return "AArch64";
    case EM_386:
      return "x86 with 32 bits";
    case EM_ARM:
      return "ARM with 32 bits";
    case EM_RISCV:
      return "RISC-V";
    default:
      return absl::StrCat("machine ", machine);
  }
}

uint16_t ThisElfMachine() {
#if defined(__x86_64__)
  return EM_X86_64;
#elif defined(__aarch64__)
  return EM_AARCH64;
#else
#error "kernels cannot be loaded on this machine"
#endif
}

}  // namespace pto::host
