#include "daemon/config/load.h"

#include <cerrno>
#include <fstream>
#include <sstream>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"
#include "runtime/base/error.h"

namespace pto::daemon {
namespace {

using config::v1::DaemonConfig;
using google::protobuf::Descriptor;

// Keeps the first error, because the others usually follow from it.
class FirstError final : public google::protobuf::io::ErrorCollector {
 public:
  explicit FirstError(const std::string& input) : lines_(absl::StrSplit(input, '\n')) {}

  void AddError(int line, google::protobuf::io::ColumnNumber column,
                const std::string& message) override {
    if (!text_.empty()) return;
    text_ = ExplainUnknown(message, line, &column);
    if (text_.empty()) text_ = message;
    // protobuf counts from zero, and passes -1 for the whole input.
    if (line >= 0) text_ = absl::StrCat(line + 1, ":", column + 1, ": ", text_);
  }
  const std::string& text() const { return text_; }

 private:
  // protobuf says: Message type "a.b.C" has no field named "x". Users need the list of settings and
  // the position of the name, not of its end. Empty for other messages.
  std::string ExplainUnknown(const std::string& message, int line, int* column) const {
    absl::string_view rest = message;
    if (!absl::ConsumePrefix(&rest, "Message type \"")) return "";
    const std::vector<std::string> parts = absl::StrSplit(rest, '"');
    constexpr size_t kType = 0;
    constexpr size_t kField = 2;
    if (parts.size() <= kField || parts[1] != " has no field named ") return "";
    const Descriptor* const type =
        DaemonConfig::descriptor()->file()->pool()->FindMessageTypeByName(parts[kType]);
    if (type == nullptr) return "";
    if (line >= 0 && static_cast<size_t>(line) < lines_.size()) {
      const size_t start = lines_[line].rfind(parts[kField], *column);
      if (start != std::string::npos) *column = static_cast<int>(start);
    }
    std::vector<std::string> names;
    for (int i = 0; i < type->field_count(); ++i) names.push_back(type->field(i)->name());
    return absl::StrCat("there is no setting '", parts[kField], "' here; expected one of ",
                        absl::StrJoin(names, ", "));
  }

  const std::vector<std::string> lines_;
  std::string text_;
};

}  // namespace

absl::StatusOr<DaemonConfig> ParseConfig(absl::string_view name, const std::string& text) {
  FirstError error(text);
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  DaemonConfig config;
  if (parser.ParseFromString(text, &config)) return config;
  return Error(reason::kConfigInvalid, absl::StrCat(name, ":", error.text())).With("file", name);
}

absl::StatusOr<DaemonConfig> LoadConfig(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  // An empty file is valid, but reading nothing marks the output as failed. Opening a directory
  // succeeds and only reading it fails.
  if (file.is_open() && file.peek() != std::ifstream::traits_type::eof()) text << file.rdbuf();
  if (!file.is_open() || file.bad()) {
    const std::string why =
        errno == 0 ? "" : absl::StrCat(": ", std::generic_category().message(errno));
    return Error(reason::kConfigInvalid, absl::StrCat("cannot read ", path, why))
        .With("file", path);
  }
  return ParseConfig(path, text.str());
}

}  // namespace pto::daemon
