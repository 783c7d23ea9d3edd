#include "runtime/host/object/pto_signature.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::host {
namespace {

struct TypeName {
  const char* name;
  pto_dtype dtype;
};

// By PtoType.
constexpr TypeName kTypes[kPtoTypes] = {
    {"f32", PTO_F32},      {"f16", PTO_F16},    {"i32", PTO_I32},    {"i16", PTO_I16},
    {"i8", PTO_I8},        {"u8", PTO_U8},      {"bf16", PTO_BF16},  {"i64", PTO_I64},
    {"u64", PTO_U64},      {"u16", PTO_U16},    {"u32", PTO_U32},    {"bool", PTO_BOOL},
    {"fp8e4m3fn", PTO_U8}, {"fp8e8m0", PTO_U8}, {"fp4e2m1", PTO_U8},
};
constexpr uint32_t kAnyType = PtoTypeBit(PtoType::kFp8E4m3fn) - 1;

constexpr const char* kDirections[] = {"in", "out", "inout", "nodep"};  // from PTO_INPUT on
constexpr const char* kScalarKinds[] = {"f32", "f64", "i32", "u32", "i64", "u64"};
constexpr const char* kCores[] = {"aic", "aiv", "mix"};  // from PTO_AIC on

// The position of a word in a table; -1: it is not there.
template <typename Table>
int Find(const Table& table, absl::string_view word) {
  const auto found = std::find(std::begin(table), std::end(table), word);
  return found == std::end(table) ? -1 : static_cast<int>(found - std::begin(table));
}

int FindType(absl::string_view word) {
  const auto found = std::find_if(std::begin(kTypes), std::end(kTypes),
                                  [&](const TypeName& type) { return word == type.name; });
  return found == std::end(kTypes) ? -1 : static_cast<int>(found - std::begin(kTypes));
}

class SignatureParser {
 public:
  explicit SignatureParser(absl::string_view text) : text_(text) { Advance(); }

  absl::StatusOr<PtoSignature> Parse() {
    if (!word_.empty() && word_ != ";") {
      do {
        PTO_RETURN_IF_ERROR(ParseParameter());
      } while (Take(","));
    }
    while (Take(";")) PTO_RETURN_IF_ERROR(ParseProperty());
    if (!word_.empty()) return Wrong(absl::StrCat("expected ',' or ';' before '", word_, "'"));
    PTO_RETURN_IF_ERROR(CheckReferences());
    NameTheRest();
    return std::move(signature_);
  }

 private:
  // A place in the text that an error can name.
  struct Place {
    size_t line = 1;
    size_t column = 1;
  };
  // A mention of a tensor, which is checked when all are known.
  struct Reference {
    uint32_t tensor;
    Place place;
  };

  static absl::Status WrongAt(const Place& place, absl::string_view what) {
    return Error(reason::kFieldInvalid,
                 absl::StrCat("line ", place.line, ", column ", place.column, ": ", what))
        .At("signature")
        .With("line", place.line)
        .With("column", place.column);
  }
  absl::Status Wrong(absl::string_view what) const { return WrongAt(place_, what); }
  // What is there, for errors that say what was expected.
  std::string Shown() const {
    return word_.empty() ? "the end" : absl::StrCat("'", word_.substr(0, 40), "'");
  }

  void Step() {
    if (text_[at_++] == '\n') {
      next_ = {next_.line + 1, 1};
    } else {
      ++next_.column;
    }
  }

  // Moves to the next word; it is empty at the end of the text.
  void Advance() {
    while (at_ < text_.size() && (absl::ascii_isspace(text_[at_]) || text_[at_] == '#')) {
      if (text_[at_] == '#') {
        while (at_ < text_.size() && text_[at_] != '\n') Step();
      } else {
        Step();
      }
    }
    place_ = next_;
    const size_t start = at_;
    const auto in_word = [&] {
      return at_ < text_.size() && (absl::ascii_isalnum(text_[at_]) || text_[at_] == '_');
    };
    while (in_word()) Step();
    if (at_ == start && at_ < text_.size()) Step();
    word_ = text_.substr(start, at_ - start);
  }

  bool Take(absl::string_view word) {
    if (word_ != word) return false;
    Advance();
    return true;
  }

  absl::Status Expect(absl::string_view word) {
    if (Take(word)) return absl::OkStatus();
    return Wrong(absl::StrCat("expected '", word, "', not ", Shown()));
  }

  // The name of a parameter, if one follows.
  absl::Status ParseName(std::string* name) {
    if (word_.empty() || !absl::ascii_isalnum(word_[0])) return absl::OkStatus();
    const bool valid =
        absl::ascii_islower(word_[0]) && word_.size() <= 63 &&
        std::all_of(word_.begin(), word_.end(), [](char c) { return !absl::ascii_isupper(c); });
    if (!valid) {
      return Wrong(absl::StrCat(Shown(), " is not 1 to 63 of a-z 0-9 _ that start with a letter"));
    }
    if (std::find(names_.begin(), names_.end(), word_) != names_.end()) {
      return Wrong(absl::StrCat("the name ", Shown(), " is used twice"));
    }
    *name = std::string(word_);
    names_.push_back(*name);
    Advance();
    return absl::OkStatus();
  }

  absl::Status ParseParameter() {
    if (word_ == "scalar" || word_ == "domain" || word_ == "address") return ParseScalar();
    return ParseTensor();
  }

  absl::Status ParseTensor() {
    const Place start = place_;
    PtoTensorParameter tensor;
    tensor.hidden = Take("hidden");
    const int direction = Find(kDirections, word_);
    if (direction < 0) {
      return Wrong(
          absl::StrCat("expected in, out, inout, nodep, scalar, domain or address, not ", Shown()));
    }
    tensor.direction = static_cast<pto_direction>(PTO_INPUT + direction);
    Advance();
    if (!signature_.scalars.empty()) {
      return WrongAt(start, "a tensor after a scalar: kernels get all tensors first");
    }
    PTO_RETURN_IF_ERROR(ParseTypes(&tensor.types));
    PTO_RETURN_IF_ERROR(Expect("["));
    PTO_RETURN_IF_ERROR(Expect("]"));
    PTO_RETURN_IF_ERROR(ParseName(&tensor.name));
    if (signature_.tensors.size() == PTO_MAX_ARGS) {
      return WrongAt(start, absl::StrCat("more than ", PTO_MAX_ARGS, " tensors"));
    }
    signature_.tensors.push_back(std::move(tensor));
    return absl::OkStatus();
  }

  absl::Status ParseTypes(uint32_t* types) {
    if (Take("any")) {
      *types = kAnyType;
      return absl::OkStatus();
    }
    uint32_t dtypes = 0;
    do {
      const int type = FindType(word_);
      if (type < 0) {
        return Wrong(absl::StrCat("expected an element type such as f32, or any, not ", Shown()));
      }
      if ((*types & (1u << type)) != 0) return Wrong(absl::StrCat(Shown(), " is listed twice"));
      // The type of a task's tensor has to tell which one it is.
      if ((dtypes & PTO_DTYPE_BIT(kTypes[type].dtype)) != 0) {
        return Wrong(absl::StrCat(Shown(), " and another type of the list are both bytes (U8)"));
      }
      *types |= 1u << type;
      dtypes |= PTO_DTYPE_BIT(kTypes[type].dtype);
      Advance();
    } while (Take("|"));
    return absl::OkStatus();
  }

  absl::Status ParseScalar() {
    const Place start = place_;
    PtoScalarParameter scalar;
    if (Take("domain")) {
      scalar.kind = PtoScalarParameter::Kind::kDomain;
      if (word_ == "(") PTO_RETURN_IF_ERROR(ParseReference(&scalar));
    } else if (Take("address")) {
      scalar.kind = PtoScalarParameter::Kind::kAddress;
      PTO_RETURN_IF_ERROR(ParseReference(&scalar));
    } else {
      Advance();
      const int kind = Find(kScalarKinds, word_);
      if (kind < 0) {
        return Wrong(absl::StrCat("expected f32, f64, i32, u32, i64 or u64, not ", Shown()));
      }
      scalar.kind = static_cast<PtoScalarParameter::Kind>(kind);
      Advance();
    }
    PTO_RETURN_IF_ERROR(ParseName(&scalar.name));
    if (signature_.scalars.size() == kPtoMaxScalars) {
      return WrongAt(start, absl::StrCat("more than ", kPtoMaxScalars, " scalars"));
    }
    signature_.scalars.push_back(std::move(scalar));
    return absl::OkStatus();
  }

  absl::Status ParseReference(PtoScalarParameter* scalar) {
    PTO_RETURN_IF_ERROR(Expect("("));
    uint32_t tensor = 0;
    if (!absl::SimpleAtoi(word_, &tensor)) {
      return Wrong(absl::StrCat("expected the index of a tensor, not ", Shown()));
    }
    references_.push_back({tensor, place_});
    scalar->tensor = tensor;
    Advance();
    return Expect(")");
  }

  absl::Status ParseProperty() {
    if (Take("sync_start")) {
      signature_.sync_start = true;
      return absl::OkStatus();
    }
    if (Take("core")) {
      const int core = Find(kCores, word_);
      if (core < 0) return Wrong(absl::StrCat("expected aic, aiv or mix, not ", Shown()));
      signature_.core = static_cast<pto_core>(PTO_AIC + core);
      Advance();
      return absl::OkStatus();
    }
    if (Take("blocks")) {
      if (word_ != "yes" && word_ != "no") {
        return Wrong(absl::StrCat("expected yes or no, not ", Shown()));
      }
      signature_.blocks = word_ == "yes";
      Advance();
      return absl::OkStatus();
    }
    return Wrong(absl::StrCat("expected core, blocks or sync_start, not ", Shown()));
  }

  absl::Status CheckReferences() const {
    for (const Reference& reference : references_) {
      if (reference.tensor < signature_.tensors.size()) continue;
      return WrongAt(reference.place,
                     absl::StrCat("there is no tensor ", reference.tensor, ": the signature has ",
                                  signature_.tensors.size()));
    }
    return absl::OkStatus();
  }

  // Gives a name to each parameter that has none.
  void NameTheRest() {
    const auto name = [&](const char* kind, size_t index) {
      std::string made = absl::StrCat(kind, index);
      while (std::find(names_.begin(), names_.end(), made) != names_.end()) made += "_";
      names_.push_back(made);
      return made;
    };
    for (size_t i = 0; i < signature_.tensors.size(); ++i) {
      std::string& own = signature_.tensors[i].name;
      if (own.empty()) own = name("tensor", i);
    }
    for (size_t i = 0; i < signature_.scalars.size(); ++i) {
      std::string& own = signature_.scalars[i].name;
      if (own.empty()) own = name("scalar", i);
    }
  }

  const absl::string_view text_;
  size_t at_ = 0;
  Place next_;
  absl::string_view word_;  // the current one
  Place place_;             // where it starts
  PtoSignature signature_;
  std::vector<Reference> references_;
  std::vector<std::string> names_;
};

std::string TypesToString(uint32_t types) {
  if (types == kAnyType) return "any";
  std::vector<const char*> names;
  for (uint32_t type = 0; type < kPtoTypes; ++type) {
    if ((types & (1u << type)) != 0) names.push_back(kTypes[type].name);
  }
  return absl::StrJoin(names, "|");
}

std::string ScalarToString(const PtoScalarParameter& scalar) {
  using Kind = PtoScalarParameter::Kind;
  const std::string reference =
      scalar.tensor.has_value() ? absl::StrCat("(", *scalar.tensor, ")") : "";
  switch (scalar.kind) {
    case Kind::kDomain:
      return absl::StrCat("domain", reference);
    case Kind::kAddress:
      return absl::StrCat("address", reference);
    default:
      return absl::StrCat("scalar ", kScalarKinds[static_cast<int>(scalar.kind)]);
  }
}

}  // namespace

absl::StatusOr<PtoSignature> PtoSignature::Parse(absl::string_view text) {
  return SignatureParser(text).Parse();
}

std::string PtoSignature::ToString() const {
  std::vector<std::string> parameters;
  for (const PtoTensorParameter& tensor : tensors) {
    parameters.push_back(absl::StrCat(tensor.hidden ? "hidden " : "",
                                      kDirections[tensor.direction - PTO_INPUT], " ",
                                      TypesToString(tensor.types), "[] ", tensor.name));
  }
  for (const PtoScalarParameter& scalar : scalars) {
    parameters.push_back(absl::StrCat(ScalarToString(scalar), " ", scalar.name));
  }
  std::string text = absl::StrJoin(parameters, ", ");
  absl::StrAppend(&text, "; core ", kCores[core - PTO_AIC]);
  if (blocks.has_value()) absl::StrAppend(&text, "; blocks ", *blocks ? "yes" : "no");
  if (sync_start) absl::StrAppend(&text, "; sync_start");
  return text;
}

uint32_t PtoSignature::passed_tensors() const {
  return static_cast<uint32_t>(std::count_if(
      tensors.begin(), tensors.end(), [](const PtoTensorParameter& t) { return !t.hidden; }));
}

pto_dtype TaskDtype(PtoType type) { return kTypes[static_cast<uint32_t>(type)].dtype; }

const char* PtoTypeName(PtoType type) { return kTypes[static_cast<uint32_t>(type)].name; }

}  // namespace pto::host
