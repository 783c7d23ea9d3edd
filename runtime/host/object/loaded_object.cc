#include "runtime/host/object/loaded_object.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"
#include "runtime/host/object/private_copy.h"

namespace pto::host {
namespace {

absl::Status Refused(absl::string_view what) {
  return Error(reason::kFieldInvalid, what).At("object");
}

absl::Status Failed(absl::string_view call) {
  return Refused(
      absl::StrCat("cannot be copied: ", call, ": ", std::generic_category().message(errno)));
}

absl::StatusOr<FileDescriptor> InMemory(absl::string_view bytes, const std::string& name) {
  FileDescriptor file(memfd_create(name.substr(0, 200).c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file.valid()) return Failed("memfd_create");
  while (!bytes.empty()) {
    const ssize_t count = write(file.get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return Failed("write");
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  // The code stays what was checked.
  if (fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) !=
      0) {
    return Failed("F_ADD_SEALS");
  }
  return file;
}

// A path to the descriptor that was never used before. The loader recognises what it has loaded by
// the path, and descriptors are used again.
std::string NewPath(int file) {
  static std::atomic<uint64_t> next{1};
  std::string path = "/proc/self/fd";
  for (uint64_t rest = next.fetch_add(1, std::memory_order_relaxed); rest > 0; rest /= 2) {
    absl::StrAppend(&path, rest % 2 == 1 ? "/." : "/");
  }
  return absl::StrCat(path, "/", file);
}

}  // namespace

absl::StatusOr<std::unique_ptr<LoadedObject>> LoadedObject::Load(std::string bytes,
                                                                 const std::string& name) {
  PTO_RETURN_IF_ERROR(MakeSymbolsPrivate(bytes));
  PTO_ASSIGN_OR_RETURN(const FileDescriptor file, InMemory(bytes, name));
  const std::string path = NewPath(file.get());
  void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const error = dlerror();
    return Refused(absl::StrCat(
        "cannot be loaded: ",
        absl::StrReplaceAll(error == nullptr ? "unknown error" : error, {{path, name}})));
  }
  link_map* map = nullptr;
  char* const shown = strdup(absl::StrCat("kernels/", name).c_str());
  if (shown == nullptr || dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr) {
    free(shown);
    dlclose(handle);
    return Refused("cannot be loaded: the loader does not describe it");
  }
  // What dladdr and backtraces tell from now on. The loader frees the name with the object. With a
  // folder, so that it is never taken for a library that another object needs.
  free(map->l_name);
  map->l_name = shown;
  return std::unique_ptr<LoadedObject>(new LoadedObject(handle, map));
}

LoadedObject::~LoadedObject() { dlclose(handle_); }

void* LoadedObject::Find(const char* symbol) const {
  void* const address = dlsym(handle_, symbol);
  Dl_info info = {};
  // dlsym looks into the libraries of the object too.
  void* owner = nullptr;
  if (address == nullptr || dladdr1(address, &info, &owner, RTLD_DL_LINKMAP) == 0 ||
      owner != map_) {
    return nullptr;
  }
  return address;
}

}  // namespace pto::host
