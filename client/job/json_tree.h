#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace pto::job {

// A JSON value that knows where in the text it stands.
struct JsonNode {
  enum class Kind { kNull, kBool, kNumber, kString, kArray, kObject };
  struct Member;

  Kind kind = Kind::kNull;
  // Of its first character.
  size_t offset = 0;
  // The text of a bool or number as written; the content of a string.
  std::string text;
  std::vector<JsonNode> items;
  std::vector<Member> members;
};

struct JsonNode::Member {
  std::string key;
  size_t key_offset = 0;
  JsonNode value;
};

// `an object`, `a string`, … for messages.
absl::string_view KindName(JsonNode::Kind kind);

// A fault in a text, at a place.
struct JsonFault {
  size_t offset = 0;
  std::string message;
};

// Reads strict JSON. On a fault returns false and says what was expected where.
bool ParseJson(absl::string_view text, JsonNode* root, JsonFault* fault);

}  // namespace pto::job
