#include "client/job/job_file.h"

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/job/json_schema.h"
#include "client/job/json_tree.h"
#include "client/job/read_file.h"
#include "client/job/schema_names.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"
#include "google/protobuf/util/json_util.h"
#include "runtime/base/error.h"

namespace pto::job {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::TextFormat;

absl::Status FaultAt(absl::string_view file, int line, int column, absl::string_view message) {
  return Error(reason::kJobInvalid, absl::StrCat(file, ":", line, ":", column, ": ", message));
}

// ---- JSON

// The path in a protobuf error message that starts with `(path)`; otherwise empty.
std::string PathIn(absl::string_view message) {
  const size_t open = message.find('(');
  const size_t close = message.find(')');
  if (open != 0 || close == absl::string_view::npos) return "";
  return std::string(message.substr(1, close - 1));
}

absl::StatusOr<JobFile> FromJson(const std::string& path, const std::string& text) {
  JobFile file;
  file.places = SourceMap(path);
  JsonNode root;
  JsonFault fault;
  if (!ParseJson(text, &root, &fault) ||
      !CheckJson(text, root, *v1::Job::descriptor(), &file.places, &fault)) {
    int line = 0, column = 0;
    Locate(text, fault.offset, &line, &column);
    return FaultAt(path, line, column, fault.message);
  }
  const auto status = google::protobuf::util::JsonStringToMessage(text, &file.job);
  if (!status.ok()) {
    // Remaining errors: numbers out of range, two members of a oneof, malformed durations.
    const std::string message(status.message().data(), status.message().size());
    const std::string field = PathIn(message);
    return file.places.Fault(field, absl::StrCat("near here: ", message));
  }
  return file;
}

// ---- text protobuf

class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string& message) override {
    if (!message_.empty()) return;
    line_ = line + 1;
    column_ = column + 1;
    message_ = message;
  }

  absl::Status status(absl::string_view file, const std::string& text) {
    // Protobuf reports an unknown name at the following token, often on the next line. Go back to
    // the name.
    const std::string field = QuotedAfter("has no field named ");
    GoBackTo(field, text);
    GoBackTo(QuotedAfter("Unknown enumeration value of "), text);
    const std::string type_name = QuotedAfter("Message type ");
    const google::protobuf::Descriptor* type =
        google::protobuf::DescriptorPool::generated_pool()->FindMessageTypeByName(type_name);
    if (type != nullptr && !field.empty()) {
      message_ =
          absl::StrCat("unknown name \"", field, "\"; expected ", ExpectedField(*type, field));
    }
    return FaultAt(file, line_, column_, message_.empty() ? "expected a job" : message_);
  }

 private:
  std::string QuotedAfter(absl::string_view words) const {
    const size_t found = message_.find(std::string(words));
    if (found == std::string::npos) return "";
    const size_t begin = message_.find('"', found) + 1;
    return message_.substr(begin, message_.find('"', begin) - begin);
  }

  void GoBackTo(const std::string& word, const std::string& text) {
    if (word.empty()) return;
    size_t end = 0;
    for (int line = 1; line < line_ && end != std::string::npos; ++line) {
      end = text.find('\n', end);
      if (end != std::string::npos) ++end;
    }
    if (end == std::string::npos) return;
    const size_t found = text.rfind(word, end + column_ - 1);
    if (found != std::string::npos) Locate(text, found, &line_, &column_);
  }

  int line_ = 1;
  int column_ = 1;
  std::string message_;
};

void NotePlaces(const Message& message, const TextFormat::ParseInfoTree& tree,
                const std::string& path, SourceMap* places) {
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const std::string below = path.empty() ? field->name() : absl::StrCat(path, ".", field->name());
    const int count = field->is_repeated() ? message.GetReflection()->FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      const int index = field->is_repeated() ? i : -1;
      const std::string item = index < 0 ? below : absl::StrCat(below, "[", i, "]");
      const TextFormat::ParseLocation place = tree.GetLocation(field, index);
      if (place.line >= 0) {
        places->Set(item, place.line + 1, place.column + 1);
        if (i == 0) places->Set(below, place.line + 1, place.column + 1);
      }
      if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE || field->is_map()) continue;
      const TextFormat::ParseInfoTree* nested = tree.GetTreeForNested(field, index);
      if (nested == nullptr) continue;
      NotePlaces(index < 0 ? message.GetReflection()->GetMessage(message, field)
                           : message.GetReflection()->GetRepeatedMessage(message, field, i),
                 *nested, item, places);
    }
  }
}

absl::StatusOr<JobFile> FromText(const std::string& path, const std::string& text) {
  JobFile file;
  file.places = SourceMap(path);
  FirstError errors;
  TextFormat::ParseInfoTree tree;
  TextFormat::Parser parser;
  parser.RecordErrorsTo(&errors);
  parser.WriteLocationsTo(&tree);
  if (!parser.ParseFromString(text, &file.job)) return errors.status(path, text);
  NotePlaces(file.job, tree, "", &file.places);
  return file;
}

}  // namespace

absl::StatusOr<JobFile> ParseJob(const std::string& path, const std::string& text) {
  if (absl::EndsWith(path, ".json")) return FromJson(path, text);
  for (absl::string_view ending : {".txtpb", ".textproto", ".pbtxt"}) {
    if (absl::EndsWith(path, ending)) return FromText(path, text);
  }
  return Error(reason::kJobInvalid,
               absl::StrCat(path,
                            ": expected a file name ending in .json, .txtpb, .textproto or "
                            ".pbtxt"));
}

absl::StatusOr<JobFile> LoadJobFile(const std::string& path) {
  absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok()) return Error(reason::kJobInvalid, text.status().message());
  return ParseJob(path, *text);
}

}  // namespace pto::job
