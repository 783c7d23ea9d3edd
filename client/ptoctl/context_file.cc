#include "client/ptoctl/context_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/job/nearest.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"
#include "runtime/base/error.h"

namespace pto::ptoctl {
namespace {

class FirstError final : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, google::protobuf::io::ColumnNumber column,
                const std::string& message) override {
    // protobuf counts from zero.
    if (text_.empty()) text_ = absl::StrCat(line + 1, ":", column + 1, ": ", message);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

absl::Status CannotWrite(const std::string& path, int error) {
  return Error(reason::kUsage, absl::StrCat("cannot write ", path, ": ", std::strerror(error)));
}

}  // namespace

std::string ContextFilePath() {
  const auto value = [](const char* variable) {
    const char* const text = std::getenv(variable);
    return std::string(text == nullptr ? "" : text);
  };
  if (const std::string path = value("PTOD_CONTEXTS"); !path.empty()) return path;
  std::string directory = value("XDG_CONFIG_HOME");
  if (directory.empty()) directory = absl::StrCat(value("HOME"), "/.config");
  return absl::StrCat(directory, "/ptod/contexts.txtpb");
}

absl::StatusOr<contexts::v1::Contexts> LoadContexts(const std::string& path) {
  contexts::v1::Contexts contexts;
  errno = 0;
  std::ifstream file(path);
  if (!file) {
    if (errno == ENOENT || errno == ENOTDIR) return contexts;
    return Error(reason::kUsage, absl::StrCat("cannot read ", path, ": ", std::strerror(errno)));
  }
  std::stringstream text;
  text << file.rdbuf();
  FirstError error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  if (!parser.ParseFromString(text.str(), &contexts)) {
    return Error(reason::kUsage, absl::StrCat(path, ":", error.text()))
        .Hint("correct the file, or remove it and add the contexts again");
  }
  return contexts;
}

absl::Status SaveContexts(const contexts::v1::Contexts& contexts, const std::string& path) {
  std::string text;
  google::protobuf::TextFormat::PrintToString(contexts, &text);
  std::error_code failed;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), failed);
  if (failed) return CannotWrite(path, failed.value());
  // A reader sees the old file or the new one.
  const std::string next = absl::StrCat(path, ".", getpid());
  const int fd = open(next.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (fd < 0) return CannotWrite(next, errno);
  const bool written = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const int error = errno;
  if (close(fd) != 0 || !written || std::rename(next.c_str(), path.c_str()) != 0) {
    const int last = written ? errno : error;
    unlink(next.c_str());
    return CannotWrite(path, last);
  }
  return absl::OkStatus();
}

contexts::v1::NamedContext* FindContext(contexts::v1::Contexts& contexts, absl::string_view name) {
  for (contexts::v1::NamedContext& each : *contexts.mutable_contexts()) {
    if (each.name() == name) return &each;
  }
  return nullptr;
}

absl::Status NoContext(const contexts::v1::Contexts& contexts, absl::string_view name) {
  std::vector<std::string> names;
  for (const contexts::v1::NamedContext& each : contexts.contexts()) names.push_back(each.name());
  const std::string nearest = job::Nearest(std::string(name), names);
  return Error(reason::kUsage, absl::StrCat("there is no context '", name, "'"))
      .Hint(nearest.empty() ? "list them with `ptoctl context ls`"
                            : absl::StrCat("did you mean '", nearest, "'?"));
}

}  // namespace pto::ptoctl
