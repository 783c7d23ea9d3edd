#include "client/internal/default_address.h"

#include <unistd.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "client/options.h"

namespace pto::internal {

std::string DefaultAddress(bool is_root, const char* runtime_dir) {
  if (!is_root && runtime_dir != nullptr && *runtime_dir != '\0') {
    const std::string path = absl::StrCat(runtime_dir, "/ptod.sock");
    if (access(path.c_str(), F_OK) == 0) return absl::StrCat("unix:", path);
  }
  return std::string(kDefaultAddress);
}

std::string ResolveAddress(absl::string_view given) {
  if (!given.empty()) return std::string(given);
  if (const char* from_env = std::getenv("PTOD_ADDRESS"); from_env != nullptr && *from_env) {
    return from_env;
  }
  return DefaultAddress(geteuid() == 0, std::getenv("XDG_RUNTIME_DIR"));
}

}  // namespace pto::internal
