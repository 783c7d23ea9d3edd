#include "runtime/host/object/libraries.h"

#include <fcntl.h>

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/file_descriptor.h"
#include "runtime/host/object/elf_file.h"
#include "runtime/host/object/object_file.h"

namespace pto::host {
namespace {

std::shared_ptr<const Library> Read(const std::string& path) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return nullptr;
  const absl::StatusOr<std::string> bytes = ReadObject(file.get());
  if (!bytes.ok()) return nullptr;
  const absl::StatusOr<ElfFile> elf = ReadElf(*bytes);
  if (!elf.ok() || elf->machine != ThisElfMachine()) return nullptr;
  auto library = std::make_shared<Library>();
  for (const absl::string_view version : elf->version_definitions) {
    library->versions.emplace(version);
  }
  for (const ElfSymbol& symbol : elf->symbols) {
    if (symbol.defined) library->symbols.emplace(symbol.name);
  }
  return library;
}

}  // namespace

std::shared_ptr<const Library> LibraryFolders::Find(absl::string_view name) {
  // A path would leave the folders.
  if (name.empty() || absl::StrContains(name, '/')) return nullptr;
  MutexLock lock(mutex_);
  const auto known = found_.find(name);
  if (known != found_.end()) return known->second;
  for (const std::string& folder : folders_) {
    if (std::shared_ptr<const Library> library = Read(absl::StrCat(folder, "/", name))) {
      found_.emplace(name, library);
      return library;
    }
  }
  // Not remembered: names come from files of users, and it may be installed later.
  return nullptr;
}

LibraryFolders& LibraryFolders::OfThisMachine() {
#if defined(__x86_64__)
  constexpr char kMachine[] = "x86_64-linux-gnu";
#else
  constexpr char kMachine[] = "aarch64-linux-gnu";
#endif
  static auto* const folders =
      new LibraryFolders({absl::StrCat("/lib/", kMachine), absl::StrCat("/usr/lib/", kMachine),
                          "/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib"});
  return *folders;
}

}  // namespace pto::host
