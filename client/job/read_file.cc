#include "client/job/read_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "runtime/base/error.h"

namespace pto::job {

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  // C++ streams do not report why reading fails, for example for a directory.
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             &std::fclose);
  std::string content;
  if (file != nullptr) {
    char chunk[1 << 16];
    size_t got = 0;
    while ((got = std::fread(chunk, 1, sizeof chunk, file.get())) > 0) content.append(chunk, got);
  }
  if (file == nullptr || std::ferror(file.get()) != 0) {
    return Error(reason::kFieldInvalid,
                 absl::StrCat(path, ": cannot read file: ", std::strerror(errno)));
  }
  return content;
}

}  // namespace pto::job
