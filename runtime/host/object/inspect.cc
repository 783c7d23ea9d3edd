#include "runtime/host/object/inspect.h"

#include <elf.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "kernels/pto_kernel.h"
#include "runtime/base/error.h"
#include "runtime/host/object/elf_file.h"

namespace pto::host {
namespace {

// Fields from `overlaps` on were added later, so older objects do not have them.
constexpr size_t kLeastKernelInfoSize = offsetof(pto_kernel_info, overlaps);

// In every process that loads kernels, whether the object names them or not.
constexpr absl::string_view kPresent[] = {
    "libc.so.6",
    "libm.so.6",
    "libstdc++.so.6",
    "libgcc_s.so.1",
    "libpthread.so.0",
    "libdl.so.2",
#if defined(__x86_64__)
    "ld-linux-x86-64.so.2",
#else
    "ld-linux-aarch64.so.1",
#endif
};

// Functions that wait for something else. A lock is not among them: it is held for a moment.
constexpr absl::string_view kWaiting[] = {
    "nanosleep",
    "clock_nanosleep",
    "usleep",
    "sleep",
    "sched_yield",
    "poll",
    "ppoll",
    "select",
    "epoll_wait",
    "pause",
    "syscall",  // of a futex
    "sem_wait",
    "sem_timedwait",
    "sem_clockwait",
    "pthread_cond_wait",
    "pthread_cond_timedwait",
    "pthread_cond_clockwait",
    "pthread_barrier_wait",
    "pthread_join",
    "_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE",
    "_ZNSt6thread4joinEv",
    "_ZNSt28__atomic_futex_unsigned_base19_M_futex_wait_"
    "untilEPjjbNSt6chrono8durationIlSt5ratioILl1ELl1EEEENS2_IlS3_ILl1ELl1000000000EEEE",
    "_ZNSt28__atomic_futex_unsigned_base26_M_futex_wait_until_"
    "steadyEPjjbNSt6chrono8durationIlSt5ratioILl1ELl1EEEENS2_IlS3_ILl1ELl1000000000EEEE",
};

bool IsWaiting(absl::string_view name) {
  return std::find(std::begin(kWaiting), std::end(kWaiting), name) != std::end(kWaiting);
}

// The numbers of a version, to order them: GLIBC_2.38 is {2, 38}. Empty for GLIBC_PRIVATE.
std::vector<uint32_t> Numbers(absl::string_view version) {
  std::vector<uint32_t> numbers;
  const size_t at = version.find('_');
  if (at == absl::string_view::npos) return numbers;
  for (const absl::string_view part : absl::StrSplit(version.substr(at + 1), '.')) {
    uint32_t number = 0;
    if (!absl::SimpleAtoi(part, &number)) return {};
    numbers.push_back(number);
  }
  return numbers;
}

// The newest version of the same kind that the library has; empty if it has none.
std::string NewestOf(const Library& library, absl::string_view wanted) {
  const absl::string_view kind = wanted.substr(0, wanted.find('_') + 1);
  std::string newest;
  for (const std::string& version : library.versions) {
    if (absl::StartsWith(version, kind) && Numbers(version) > Numbers(newest)) newest = version;
  }
  return newest;
}

std::string WhatToDo(absl::string_view library) {
  if (absl::StartsWith(library, "libstdc++")) {
    return "build the kernel with -static-libstdc++, or with the compiler of this machine";
  }
  if (absl::StartsWith(library, "libgcc_s")) {
    return "build the kernel with -static-libgcc, or with the compiler of this machine";
  }
  return "build the kernel on this machine, or in a container with its Debian release";
}

// Collects the report of one object.
class Inspection {
 public:
  Inspection(absl::string_view bytes, const ElfFile& elf, LibrarySource& libraries)
      : bytes_(bytes), elf_(elf), libraries_(libraries) {}

  ObjectReport Make(const std::string& entry) {
    report_.machine = ElfMachineName(elf_.machine);
    report_.build_id = elf_.build_id;
    report_.initialisers = elf_.initialisers;
    for (const absl::string_view name : elf_.needed) report_.libraries.emplace_back(name);
    if (elf_.machine != ThisElfMachine()) {
      Fail("object.machine",
           absl::StrCat("is for ", report_.machine, ", and this machine is ",
                        ElfMachineName(ThisElfMachine())),
           "build the kernel for this machine");
      return std::move(report_);  // the rest would only follow from it
    }
    CheckEntry(entry);
    CheckSafety();
    CheckLibraries();
    for (const ElfSymbol& symbol : elf_.symbols) {
      if (symbol.defined && symbol.binding == STB_GNU_UNIQUE) {
        report_.unique_symbols.emplace_back(symbol.name);
      }
      if (!symbol.defined && IsWaiting(symbol.name)) report_.waits.emplace_back(symbol.name);
    }
    report_.blocks = !report_.waits.empty();
    report_.waits_obey_host = !report_.blocks || report_.abi != KernelAbi::kPto ||
                              absl::StrContains(bytes_, kWaitLooksVariable);
    return std::move(report_);
  }

 private:
  void Fail(absl::string_view field, absl::string_view what, absl::string_view hint) {
    report_.errors.push_back(Error(reason::kFieldInvalid, what).At(field).Hint(hint));
  }

  void CheckEntry(const std::string& wanted) {
    constexpr char kField[] = "object.entry";
    const ElfSymbol* symbol = nullptr;
    if (!wanted.empty()) {
      symbol = elf_.FindExport(wanted);
      if (symbol == nullptr) {
        return Fail(kField, absl::StrCat("does not export '", wanted, "'"),
                    "declare it extern \"C\", with default visibility");
      }
    } else {
      for (const char* usual : {kOwnEntry, kPtoEntry}) {
        const ElfSymbol* const found = elf_.FindExport(usual);
        if (found == nullptr) continue;
        if (symbol != nullptr) {
          return Fail(kField, absl::StrCat("exports both ", kOwnEntry, " and ", kPtoEntry),
                      "name the one to use");
        }
        symbol = found;
      }
      if (symbol == nullptr) {
        return Fail(kField, absl::StrCat("exports neither ", kOwnEntry, " nor ", kPtoEntry),
                    "use PTO_EXPORT_KERNEL of kernels/pto_kernel_cpp.h, or declare the function "
                    "kernel_entry extern \"C\"");
      }
    }
    report_.entry = std::string(symbol->name);
    report_.entry_bytes = symbol->size;
    // A description is data, and the other ABI has a function.
    if (symbol->type == STT_FUNC) {
      report_.abi = KernelAbi::kPto;
    } else if (symbol->type == STT_OBJECT) {
      report_.abi = KernelAbi::kOwn;
      if (symbol->size < kLeastKernelInfoSize) {
        Fail(kField,
             absl::StrCat("'", symbol->name, "' has ", symbol->size,
                          " bytes, a pto_kernel_info has at least ", kLeastKernelInfoSize),
             "use PTO_EXPORT_KERNEL of kernels/pto_kernel_cpp.h");
      }
    } else {
      Fail(kField, absl::StrCat("'", symbol->name, "' is neither a function nor a constant"),
           "name a function of the PTO ABI, or a pto_kernel_info");
    }
  }

  void CheckSafety() {
    if (elf_.executable_stack) {
      Fail("object", "needs an executable stack",
           "link it with -z noexecstack; assembly files need a .note.GNU-stack section");
    }
    if (elf_.text_relocations) {
      Fail("object", "changes its own code when it is loaded", "compile all of it with -fPIC");
    }
    if (!elf_.search_path.empty()) {
      Fail("object.libraries", absl::StrCat("looks for libraries in '", elf_.search_path, "'"),
           "link without -rpath: kernels use the libraries of the machine");
    }
  }

  void CheckLibraries() {
    std::vector<std::pair<absl::string_view, std::shared_ptr<const Library>>> found;
    absl::flat_hash_set<absl::string_view> seen;
    const auto add = [&](absl::string_view name, bool needed) {
      if (!seen.insert(name).second) return;
      std::shared_ptr<const Library> library = libraries_.Find(name);
      if (library != nullptr) {
        found.emplace_back(name, std::move(library));
      } else if (needed) {
        Fail("object.libraries", absl::StrCat("needs ", name, ", which this machine does not have"),
             "link that library statically, or ask the operator to install it");
      }
    };
    for (const absl::string_view name : elf_.needed) add(name, true);
    for (const absl::string_view name : kPresent) add(name, false);

    absl::flat_hash_set<absl::string_view> missing;
    for (const ElfVersionNeed& need : elf_.version_needs) {
      if (need.optional || missing.contains(need.version)) continue;
      for (const auto& [name, library] : found) {
        if (name != need.library || library->versions.contains(need.version)) continue;
        missing.insert(need.version);
        FailVersion(need, *library);
      }
    }
    CheckImports(found, missing);
  }

  void FailVersion(const ElfVersionNeed& need, const Library& library) {
    // One of the symbols that need it, so that its user finds it in the sources.
    std::string who;
    for (const ElfSymbol& symbol : elf_.symbols) {
      if (!symbol.defined && symbol.version == need.version && symbol.library == need.library) {
        who = absl::StrCat(" for ", symbol.name);
        break;
      }
    }
    const std::string newest = NewestOf(library, need.version);
    Fail("object.libraries",
         absl::StrCat("needs ", need.version, " of ", need.library, who, "; this machine's has ",
                      newest.empty() ? "none of that kind" : absl::StrCat(newest, " at most")),
         WhatToDo(need.library));
  }

  void CheckImports(
      const std::vector<std::pair<absl::string_view, std::shared_ptr<const Library>>>& libraries,
      const absl::flat_hash_set<absl::string_view>& missing_versions) {
    constexpr size_t kShown = 5;
    std::vector<std::string> missing;
    for (const ElfSymbol& symbol : elf_.symbols) {
      if (symbol.defined || symbol.binding == STB_WEAK) continue;
      if (missing_versions.contains(symbol.version)) continue;  // said already
      const bool here = std::any_of(libraries.begin(), libraries.end(), [&](const auto& library) {
        return library.second->symbols.contains(symbol.name);
      });
      if (!here) missing.emplace_back(symbol.name);
    }
    if (missing.empty()) return;
    const size_t count = missing.size();
    if (count > kShown) missing.resize(kShown);
    Fail("object.libraries",
         absl::StrCat("uses ", absl::StrJoin(missing, ", "),
                      count > kShown ? absl::StrCat(" and ", count - kShown, " more") : "",
                      ", which no library that it needs defines"),
         "link the kernel with -Wl,-z,defs to find such names when it is built");
  }

  const absl::string_view bytes_;
  const ElfFile& elf_;
  LibrarySource& libraries_;
  ObjectReport report_;
};

}  // namespace

ObjectReport Inspect(absl::string_view bytes, const InspectOptions& options) {
  const absl::StatusOr<ElfFile> elf = ReadElf(bytes);
  if (!elf.ok()) {
    ObjectReport report;
    report.errors.push_back(elf.status());
    return report;
  }
  LibrarySource& libraries =
      options.libraries != nullptr ? *options.libraries : LibraryFolders::OfThisMachine();
  return Inspection(bytes, *elf, libraries).Make(options.entry);
}

}  // namespace pto::host
