#include "client/job/json_tree.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace pto::job {
namespace {

constexpr int kMaxDepth = 64;

class Parser {
 public:
  Parser(absl::string_view text, JsonFault* fault) : text_(text), fault_(fault) {}

  bool Document(JsonNode* root) {
    Skip();
    if (!Value(root, 0)) return false;
    Skip();
    return at_ == text_.size() || Expected("the end of the file");
  }

 private:
  bool Fail(size_t offset, std::string message) {
    fault_->offset = offset;
    fault_->message = std::move(message);
    return false;
  }

  bool Expected(absl::string_view what) {
    if (at_ >= text_.size()) return Fail(at_, absl::StrCat("expected ", what, ", got the end"));
    // Quote enough text to find the position.
    size_t end = at_ + 1;
    while (end < text_.size() && end < at_ + 16 &&
           (absl::ascii_isalnum(static_cast<unsigned char>(text_[at_])) &&
            absl::ascii_isalnum(static_cast<unsigned char>(text_[end])))) {
      ++end;
    }
    const absl::string_view got = text_.substr(at_, end - at_);
    return Fail(at_, absl::StrCat("expected ", what, ", got '",
                                  got == "\n" || got == "\r" ? "end of line" : got, "'"));
  }

  void Skip() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r')) {
      ++at_;
    }
  }

  bool Take(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  bool Value(JsonNode* node, int depth) {
    node->offset = at_;
    if (depth > kMaxDepth) return Fail(at_, absl::StrCat("nested deeper than ", kMaxDepth));
    const char c = at_ < text_.size() ? text_[at_] : '\0';
    if (c == '{') return Object(node, depth);
    if (c == '[') return Array(node, depth);
    if (c == '"') {
      node->kind = JsonNode::Kind::kString;
      return String(&node->text);
    }
    if (c == '-' || absl::ascii_isdigit(static_cast<unsigned char>(c))) return Number(node);
    for (absl::string_view word : {"true", "false", "null"}) {
      if (!absl::StartsWith(text_.substr(at_), word)) continue;
      node->kind = word == "null" ? JsonNode::Kind::kNull : JsonNode::Kind::kBool;
      node->text = std::string(word);
      at_ += word.size();
      return true;
    }
    return Expected("a value");
  }

  bool Object(JsonNode* node, int depth) {
    node->kind = JsonNode::Kind::kObject;
    const size_t open = at_++;
    Skip();
    if (Take('}')) return true;
    while (true) {
      if (at_ >= text_.size()) return Unclosed(open, '{');
      JsonNode::Member member;
      member.key_offset = at_;
      if (text_[at_] != '"') {
        return Expected(node->members.empty() ? "a name in quotes or '}'" : "a name in quotes");
      }
      if (!String(&member.key)) return false;
      for (const JsonNode::Member& other : node->members) {
        if (other.key == member.key) {
          return Fail(member.key_offset, absl::StrCat("\"", member.key, "\" is given twice"));
        }
      }
      Skip();
      if (!Take(':')) return Expected(absl::StrCat("':' after \"", member.key, "\""));
      Skip();
      if (!Value(&member.value, depth + 1)) return false;
      node->members.push_back(std::move(member));
      Skip();
      if (Take('}')) return true;
      if (at_ >= text_.size()) return Unclosed(open, '{');
      if (!Take(',')) return Expected("',' or '}'");
      Skip();
    }
  }

  bool Array(JsonNode* node, int depth) {
    node->kind = JsonNode::Kind::kArray;
    const size_t open = at_++;
    Skip();
    if (Take(']')) return true;
    while (true) {
      if (at_ >= text_.size()) return Unclosed(open, '[');
      node->items.emplace_back();
      if (!Value(&node->items.back(), depth + 1)) return false;
      Skip();
      if (Take(']')) return true;
      if (at_ >= text_.size()) return Unclosed(open, '[');
      if (!Take(',')) return Expected("',' or ']'");
      Skip();
    }
  }

  // Report the position of the open bracket, which is more useful than the end of the file.
  bool Unclosed(size_t open, char bracket) {
    return Fail(open,
                absl::StrCat("this '", std::string(1, bracket), "' is never closed; expected a '",
                             bracket == '{' ? "}" : "]", "' before the end of the file"));
  }

  bool Number(JsonNode* node) {
    node->kind = JsonNode::Kind::kNumber;
    const size_t begin = at_;
    Take('-');
    if (!Take('0') && !Digits()) return Expected("a digit");
    if (Take('.') && !Digits()) return Expected("a digit after '.'");
    if (Take('e') || Take('E')) {
      if (!Take('+')) Take('-');
      if (!Digits()) return Expected("a digit of the exponent");
    }
    node->text = std::string(text_.substr(begin, at_ - begin));
    return true;
  }

  bool Digits() {
    const size_t begin = at_;
    while (at_ < text_.size() && absl::ascii_isdigit(static_cast<unsigned char>(text_[at_]))) ++at_;
    return at_ > begin;
  }

  // Decodes only simple escapes, which is enough for names and paths. Protobuf parses the message
  // itself.
  bool String(std::string* out) {
    const size_t open = at_++;
    while (at_ < text_.size() && text_[at_] != '"') {
      if (text_[at_] == '\n') return Fail(open, "expected '\"' before the end of the line");
      if (static_cast<unsigned char>(text_[at_]) < 0x20) {
        return Fail(at_, "expected no control character in a string");
      }
      if (text_[at_] != '\\') {
        out->push_back(text_[at_++]);
        continue;
      }
      const char escaped = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
      constexpr absl::string_view kEscapes = "\"\\/bfnrtu";
      if (escaped == '\0' || !absl::StrContains(kEscapes, escaped)) {
        return Fail(at_, "expected one of \" \\ / b f n r t u after '\\'");
      }
      if (escaped == '"' || escaped == '\\' || escaped == '/') {
        out->push_back(escaped);
      } else {
        out->append({'\\', escaped});
      }
      at_ += 2;
    }
    return Take('"') || Fail(open, "expected '\"' before the end of the file");
  }

  const absl::string_view text_;
  JsonFault* const fault_;
  size_t at_ = 0;
};

}  // namespace

absl::string_view KindName(JsonNode::Kind kind) {
  switch (kind) {
    case JsonNode::Kind::kNull:
      return "null";
    case JsonNode::Kind::kBool:
      return "true or false";
    case JsonNode::Kind::kNumber:
      return "a number";
    case JsonNode::Kind::kString:
      return "a string";
    case JsonNode::Kind::kArray:
      return "an array";
    case JsonNode::Kind::kObject:
      return "an object";
  }
  return "a value";
}

bool ParseJson(absl::string_view text, JsonNode* root, JsonFault* fault) {
  return Parser(text, fault).Document(root);
}

}  // namespace pto::job
