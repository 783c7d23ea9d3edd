#include "client/job/json_schema.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/job/schema_names.h"

namespace pto::job {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using Kind = JsonNode::Kind;

class Checker {
 public:
  Checker(absl::string_view text, SourceMap* map, JsonFault* fault) : map_(map), fault_(fault) {
    line_starts_.push_back(0);
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\n') line_starts_.push_back(i + 1);
    }
  }

  bool Message(const JsonNode& node, const Descriptor& type, const std::string& path) {
    Note(path, node.offset);
    if (node.kind != Kind::kObject) return Wrong(node, "an object");
    for (const JsonNode::Member& member : node.members) {
      const FieldDescriptor* field = FindField(type, member.key);
      if (field == nullptr) return Unknown(member, type);
      const std::string below =
          path.empty() ? field->name() : absl::StrCat(path, ".", field->name());
      Note(below, member.key_offset);
      if (member.value.kind == Kind::kNull) continue;
      if (!Field(member, *field, below)) return false;
    }
    return true;
  }

 private:
  bool Fail(size_t offset, std::string message) {
    fault_->offset = offset;
    fault_->message = std::move(message);
    return false;
  }

  bool Wrong(const JsonNode& node, absl::string_view expected) {
    const bool shown = node.kind == Kind::kString || node.kind == Kind::kNumber;
    return Fail(node.offset, absl::StrCat("expected ", expected, ", got ", KindName(node.kind),
                                          shown ? absl::StrCat(" '", node.text, "'") : ""));
  }

  void Note(const std::string& path, size_t offset) {
    const auto next = std::upper_bound(line_starts_.begin(), line_starts_.end(), offset);
    const auto line = next - line_starts_.begin();
    map_->Set(path, static_cast<int>(line), static_cast<int>(offset - *(next - 1) + 1));
  }

  static const FieldDescriptor* FindField(const Descriptor& type, const std::string& key) {
    const FieldDescriptor* field = type.FindFieldByName(key);
    if (field != nullptr) return field;
    for (int i = 0; i < type.field_count(); ++i) {
      if (type.field(i)->json_name() == key) return type.field(i);
    }
    return nullptr;
  }

  bool Unknown(const JsonNode::Member& member, const Descriptor& type) {
    return Fail(member.key_offset, absl::StrCat("unknown name \"", member.key, "\"; expected ",
                                                ExpectedField(type, member.key)));
  }

  bool Field(const JsonNode::Member& member, const FieldDescriptor& field,
             const std::string& path) {
    const JsonNode& value = member.value;
    if (field.is_map()) {
      if (value.kind != Kind::kObject) return Wrong(value, "an object");
      const FieldDescriptor& type = *field.message_type()->map_value();
      for (const JsonNode::Member& entry : value.members) {
        if (!Single(entry.value, type, absl::StrCat(path, ".", entry.key))) return false;
      }
      return true;
    }
    if (!field.is_repeated()) return Single(value, field, path);
    if (value.kind != Kind::kArray) {
      return Wrong(value, absl::StrCat("an array for \"", member.key, "\""));
    }
    for (size_t i = 0; i < value.items.size(); ++i) {
      const std::string item = absl::StrCat(path, "[", i, "]");
      Note(item, value.items[i].offset);
      if (!Single(value.items[i], field, item)) return false;
    }
    return true;
  }

  bool Single(const JsonNode& value, const FieldDescriptor& field, const std::string& path) {
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_MESSAGE:
        if (field.message_type()->full_name() == "google.protobuf.Duration") {
          return value.kind == Kind::kString || Wrong(value, "a duration such as \"1.5s\"");
        }
        return Message(value, *field.message_type(), path);
      case FieldDescriptor::CPPTYPE_STRING:
        return value.kind == Kind::kString || Wrong(value, "a string");
      case FieldDescriptor::CPPTYPE_BOOL:
        return value.kind == Kind::kBool || Wrong(value, "true or false");
      case FieldDescriptor::CPPTYPE_ENUM:
        return Enumerator(value, *field.enum_type());
      case FieldDescriptor::CPPTYPE_DOUBLE:
      case FieldDescriptor::CPPTYPE_FLOAT:
        // "NaN" and "Infinity" are strings in JSON.
        return value.kind == Kind::kNumber || value.kind == Kind::kString ||
               Wrong(value, "a number");
      default:
        return Integer(value, field);
    }
  }

  bool Integer(const JsonNode& value, const FieldDescriptor& field) {
    if (value.kind != Kind::kNumber && value.kind != Kind::kString) {
      return Wrong(value, "an integer");
    }
    double number = 0;
    // Protobuf checks the range of integers.
    if (!absl::SimpleAtod(value.text, &number) || std::trunc(number) != number) {
      return Wrong(value, "an integer");
    }
    const bool is_unsigned = field.cpp_type() == FieldDescriptor::CPPTYPE_UINT32 ||
                             field.cpp_type() == FieldDescriptor::CPPTYPE_UINT64;
    if (is_unsigned && number < 0) return Wrong(value, "a non-negative integer");
    return true;
  }

  bool Enumerator(const JsonNode& value, const EnumDescriptor& type) {
    if (value.kind == Kind::kString && type.FindValueByName(value.text) != nullptr) return true;
    return Wrong(value, ExpectedEnumerator(type));
  }

  std::vector<size_t> line_starts_;
  SourceMap* const map_;
  JsonFault* const fault_;
};

}  // namespace

bool CheckJson(absl::string_view text, const JsonNode& root, const Descriptor& type, SourceMap* map,
               JsonFault* fault) {
  return Checker(text, map, fault).Message(root, type, "");
}

void Locate(absl::string_view text, size_t offset, int* line, int* column) {
  const absl::string_view before = text.substr(0, offset);
  *line = 1 + static_cast<int>(std::count(before.begin(), before.end(), '\n'));
  const size_t last = before.rfind('\n');
  *column = 1 + static_cast<int>(last == absl::string_view::npos ? offset : offset - last - 1);
}

}  // namespace pto::job
