#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace pto::job {

// A JSON value with its position in the text.
struct JsonNode {
  enum class Kind { kNull, kBool, kNumber, kString, kArray, kObject };
  struct Member;

  Kind kind = Kind::kNull;
  // Position of the first character.
  size_t offset = 0;
  // The text of a bool or number as written, or the content of a string.
  std::string text;
  std::vector<JsonNode> items;
  std::vector<Member> members;
};

struct JsonNode::Member {
  std::string key;
  size_t key_offset = 0;
  JsonNode value;
};

// Returns `an object`, `a string`, …, for error messages.
absl::string_view KindName(JsonNode::Kind kind);

// An error at a position in a text.
struct JsonFault {
  size_t offset = 0;
  std::string message;
};

// Parses strict JSON. On an error, returns false and reports what was expected and where.
bool ParseJson(absl::string_view text, JsonNode* root, JsonFault* fault);

}  // namespace pto::job
