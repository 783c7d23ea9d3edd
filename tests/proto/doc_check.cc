#include "tests/proto/doc_check.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "google/protobuf/descriptor.pb.h"
#include "runtime/base/reason.h"

namespace pto::testing {
namespace {

namespace pb = ::google::protobuf;

constexpr absl::string_view kParagraphs[] = {
    "Errors:", "Idempotency:", "Failure:", "Deadline:", "Since:"};

// gRPC's name of a code; empty if there is no such code.
std::string CodeName(absl::StatusCode code) { return absl::StatusCodeToString(code); }

bool IsCode(absl::string_view word) {
  for (int code = 0; code <= 16; ++code) {
    if (CodeName(static_cast<absl::StatusCode>(code)) == word) return true;
  }
  return false;
}

size_t CountWords(absl::string_view text) {
  return std::vector<absl::string_view>(
             absl::StrSplit(text, absl::ByAnyChar(" \t\n"), absl::SkipWhitespace()))
      .size();
}

// The words of `text` that are written LIKE_THIS, in order.
std::vector<std::string> UpperWords(absl::string_view text) {
  std::vector<std::string> words;
  std::string word;
  const auto flush = [&] {
    const bool upper =
        word.size() > 1 && absl::ascii_isupper(word[0]) && absl::AsciiStrToUpper(word) == word;
    if (upper) words.push_back(word);
    word.clear();
  };
  for (const char c : text) {
    if (absl::ascii_isalnum(c) || c == '_') {
      word += c;
    } else {
      flush();
    }
  }
  flush();
  return words;
}

class FileCheck {
 public:
  explicit FileCheck(const pb::FileDescriptor& file) : file_(file) {
    for (int i = 0; i < file.enum_type_count(); ++i) NoteValues(*file.enum_type(i));
    for (int i = 0; i < file.message_type_count(); ++i) NoteValues(*file.message_type(i));
  }

  std::vector<std::string> Run() && {
    for (int i = 0; i < file_.service_count(); ++i) CheckService(*file_.service(i));
    for (int i = 0; i < file_.message_type_count(); ++i) CheckMessage(*file_.message_type(i));
    for (int i = 0; i < file_.enum_type_count(); ++i) CheckEnum(*file_.enum_type(i));
    return std::move(holes_);
  }

 private:
  void NoteValues(const pb::EnumDescriptor& type) {
    for (int i = 0; i < type.value_count(); ++i) values_.insert(type.value(i)->name());
  }
  void NoteValues(const pb::Descriptor& message) {
    for (int i = 0; i < message.enum_type_count(); ++i) NoteValues(*message.enum_type(i));
    for (int i = 0; i < message.nested_type_count(); ++i) NoteValues(*message.nested_type(i));
  }

  void CheckService(const pb::ServiceDescriptor& service) {
    Comment(service, "service", 3);
    for (int i = 0; i < service.method_count(); ++i) CheckMethod(*service.method(i));
  }

  void CheckMessage(const pb::Descriptor& message) {
    Comment(message, "message", 3);
    for (int i = 0; i < message.field_count(); ++i) Comment(*message.field(i), "field", 3);
    for (int i = 0; i < message.real_oneof_decl_count(); ++i) {
      Comment(*message.oneof_decl(i), "oneof", 2);
    }
    for (int i = 0; i < message.enum_type_count(); ++i) CheckEnum(*message.enum_type(i));
    for (int i = 0; i < message.nested_type_count(); ++i) {
      const pb::Descriptor& nested = *message.nested_type(i);
      // protoc generates a message for each map field.
      if (!nested.options().map_entry()) CheckMessage(nested);
    }
  }

  void CheckEnum(const pb::EnumDescriptor& type) {
    Comment(type, "enum", 2);
    for (int i = 0; i < type.value_count(); ++i) Comment(*type.value(i), "enum value", 1);
  }

  void CheckMethod(const pb::MethodDescriptor& method) {
    const std::string comment = Comment(method, "method", 3);
    if (comment.empty()) return;
    // Each paragraph with its text; the purpose is the text before the first keyword.
    std::vector<std::string> names;
    std::vector<std::string> texts = {""};
    for (const absl::string_view line : absl::StrSplit(comment, '\n')) {
      absl::string_view text = absl::StripAsciiWhitespace(line);
      for (const absl::string_view name : kParagraphs) {
        if (!absl::ConsumePrefix(&text, name)) continue;
        names.emplace_back(name);
        texts.emplace_back();
        break;
      }
      absl::StrAppend(&texts.back(), text, "\n");
    }
    if (CountWords(texts[0]) == 0) Hole(method, "method", "does not say its purpose");
    for (const absl::string_view name : kParagraphs) {
      bool found = false;
      for (size_t i = 0; i < names.size(); ++i) {
        if (names[i] != name) continue;
        if (found) Hole(method, "method", absl::StrCat("has `", name, "` twice"));
        if (CountWords(texts[i + 1]) == 0) {
          Hole(method, "method", absl::StrCat("says nothing after `", name, "`"));
        }
        if (name == "Errors:") CheckReasons(method, texts[i + 1]);
        found = true;
      }
      if (!found) Hole(method, "method", absl::StrCat("has no `", name, "`"));
    }
    const bool all = names.size() == std::size(kParagraphs);
    if (all && !std::equal(names.begin(), names.end(), std::begin(kParagraphs))) {
      Hole(method, "method", absl::StrCat("needs the order ", absl::StrJoin(kParagraphs, " ")));
    }
  }

  void CheckReasons(const pb::MethodDescriptor& method, absl::string_view errors) {
    std::string code;
    for (const std::string& word : UpperWords(errors)) {
      if (IsCode(word)) {
        code = word;
      } else if (const Reason* reason = FindReason(word); reason != nullptr) {
        if (CodeName(reason->code) != code) {
          Hole(method, "method",
               absl::StrCat("lists ", word, " under ", code.empty() ? "no code" : code,
                            "; its code is ", CodeName(reason->code)));
        }
      } else if (absl::StrContains(word, '_') && values_.count(word) == 0) {
        Hole(method, "method", absl::StrCat("speaks of ", word, ", which is no known reason"));
      }
    }
  }

  // The comment above `what`; reported if it has fewer than `words` words.
  template <typename Descriptor>
  std::string Comment(const Descriptor& what, absl::string_view kind, size_t words) {
    pb::SourceLocation location;
    if (!what.GetSourceLocation(&location)) {
      Hole(what, kind, "has no position: import its file from the source");
      return "";
    }
    const size_t found = CountWords(location.leading_comments);
    if (found == 0) {
      Hole(what, kind, "has no comment above it");
    } else if (found < words) {
      Hole(what, kind, absl::StrCat("has a comment of less than ", words, " words"));
    }
    return location.leading_comments;
  }

  template <typename Descriptor>
  void Hole(const Descriptor& what, absl::string_view kind, absl::string_view problem) {
    pb::SourceLocation location;
    const int line = what.GetSourceLocation(&location) ? location.start_line + 1 : 0;
    holes_.push_back(
        absl::StrCat(file_.name(), ":", line, ": ", kind, " ", what.full_name(), " ", problem));
  }

  const pb::FileDescriptor& file_;
  std::set<std::string> values_;  // names of the file's enum values
  std::vector<std::string> holes_;
};

}  // namespace

std::vector<std::string> CheckDocumentation(const pb::FileDescriptor& file) {
  return FileCheck(file).Run();
}

}  // namespace pto::testing
