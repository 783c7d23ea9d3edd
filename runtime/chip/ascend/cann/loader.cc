#include "runtime/chip/ascend/cann/loader.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::cann {
namespace {

Error Unusable(absl::string_view what) { return Error(reason::kCannUnusable, what); }

absl::StatusOr<void*> OpenLibrary(const std::string& path) {
  dlerror();
  // Never closed: the vendor's libraries leave threads and thread-local data behind.
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library != nullptr) return library;
  const char* const why = dlerror();
  const std::string text = why == nullptr ? "for no reason that it gives" : why;
  Error error = Unusable(absl::StrCat("'", path, "' cannot be opened: ", text)).With("path", path);
  if (absl::StrContains(text, "libascend_hal")) {
    error.Hint(
        "the driver's libraries are not found: install the driver, or mount "
        "/usr/local/Ascend/driver into the container");
  } else if (absl::StrContains(text, "cannot open shared object file")) {
    error.Hint(
        "a library that it needs is not in the library path of the chip host; `ptoctl doctor` "
        "shows that path");
  }
  return absl::Status(error);
}

absl::Status MissingFunction(const FunctionInfo& function, const std::string& path) {
  return Unusable(absl::StrCat("'", path, "' lacks the function ", function.name))
      .With("symbol", function.name)
      .With("path", path)
      .Hint("CANN 8.5 or later is needed; see deploy/ascend.md");
}

std::string VersionOf(const Functions& functions, const char* package) {
  if (functions.aclsysGetVersionNum == nullptr) return "";
  char name[32] = {};
  std::strncpy(name, package, sizeof name - 1);
  int32_t number = 0;
  if (functions.aclsysGetVersionNum(name, &number) != kAclOk) return "";
  return VersionText(number);
}

std::string MajorMinor(const std::string& version) {
  const std::vector<std::string> parts = absl::StrSplit(version, '.');
  return parts.size() < 2 ? version : absl::StrCat(parts[0], ".", parts[1]);
}

}  // namespace

absl::StatusOr<Cann> LoadCann(const SearchResult& search) {
  if (!search.found()) {
    std::string looked;
    for (const SearchStep& step : search.steps) {
      absl::StrAppend(&looked, looked.empty() ? "" : "; ", step.from,
                      step.folder.empty() ? "" : " ", step.folder, " ", step.result);
    }
    if (!search.stubs.empty()) {
      return Unusable(absl::StrCat("only stub libraries of CANN were found: ", looked))
          .Hint("stubs are for linking; point ASCEND_HOME_PATH at an installed toolkit");
    }
    return Unusable(absl::StrCat("the libraries of CANN were not found: ", looked))
        .Hint("install the toolkit, or set ASCEND_HOME_PATH or --cann-path to where it is");
  }
  Cann cann;
  cann.search = search;
  PTO_ASSIGN_OR_RETURN(void* const acl, OpenLibrary(search.acl_library));
  void* hccl = nullptr;
  void* hcomm = nullptr;
  if (!search.hccl_library.empty()) {
    PTO_ASSIGN_OR_RETURN(hccl, OpenLibrary(search.hccl_library));
    // After libhccl: the other way round it would hide functions of libhccl from itself.
    if (!search.hcomm_library.empty()) {
      PTO_ASSIGN_OR_RETURN(hcomm, OpenLibrary(search.hcomm_library));
    }
  }
  cann.has_hccl = hccl != nullptr;
  const absl::Span<const FunctionInfo> all = AllFunctions();
  for (size_t i = 0; i < all.size(); ++i) {
    void* address = nullptr;
    if (all[i].library == Library::kAcl) {
      address = dlsym(acl, all[i].name);
    } else if (hccl != nullptr) {
      address = dlsym(hccl, all[i].name);
      if (address == nullptr && hcomm != nullptr) address = dlsym(hcomm, all[i].name);
    }
    const bool wanted = all[i].library == Library::kAcl || hccl != nullptr;
    if (address == nullptr && all[i].required && wanted) {
      return MissingFunction(
          all[i], all[i].library == Library::kAcl ? search.acl_library : search.hccl_library);
    }
    cann.functions.Set(i, address);
  }
  cann.runtime_version = VersionOf(cann.functions, "runtime");
  cann.hccl_version = VersionOf(cann.functions, "hccl");
  cann.driver_version = VersionOf(cann.functions, "driver");
  return cann;
}

absl::Status CheckDriver(const std::string& driver_root, const std::string& devices) {
  const std::string manager = devices + "/davinci_manager";
  if (access(manager.c_str(), F_OK) != 0) {
    const bool installed = access(driver_root.c_str(), F_OK) == 0;
    return Unusable(absl::StrCat("the driver is ",
                                 installed ? "installed but not loaded" : "missing",
                                 ": there is no ", manager))
        .Hint(installed ? "load the driver's modules, or pass the device nodes into the container"
                        : "install the driver and firmware of the chip");
  }
  for (const char* const node : {"/davinci_manager", "/devmm_svm", "/hisi_hdc"}) {
    const std::string path = devices + node;
    if (access(path.c_str(), F_OK) != 0) {
      return Unusable(absl::StrCat("the device node ", path, " is missing"))
          .Hint("pass all of davinci_manager, devmm_svm and hisi_hdc into the container");
    }
    if (access(path.c_str(), R_OK | W_OK) != 0) {
      return Unusable(absl::StrCat("the device node ", path,
                                   " cannot be opened: ", std::strerror(errno)))
          .Hint(
              "add the daemon's user to the group of the node (usually HwHiAiUser): "
              "SupplementaryGroups= in ptod.service");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckVersions(const Cann& cann) {
  if (!cann.functions.Has(Capability::kLaunch)) {
    return Unusable(absl::StrCat("this CANN is older than 8.5",
                                 cann.runtime_version.empty() ? "" : ": it is ",
                                 cann.runtime_version,
                                 ", and has no aclrtLaunchKernelWithHostArgs"))
        .Hint("install CANN 8.5 or later: chips work for buffers and copies only");
  }
  if (!cann.hccl_version.empty() &&
      MajorMinor(cann.hccl_version) != MajorMinor(cann.runtime_version)) {
    return Unusable(absl::StrCat("the packages of CANN are of different releases: runtime ",
                                 cann.runtime_version, ", hccl ", cann.hccl_version))
        .Hint("install packages of one release");
  }
  return absl::OkStatus();
}

std::string VersionText(int32_t number) {
  // Pre-releases are slightly below the number of their release.
  const int32_t rounded = (number + 999) / 1000;
  return absl::StrCat(rounded / 10000, ".", rounded / 100 % 100, ".", rounded % 100,
                      number % 1000 == 0 ? "" : "-pre");
}

}  // namespace pto::cann
