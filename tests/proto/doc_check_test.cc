#include "tests/proto/doc_check.h"

#include <map>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "google/protobuf/compiler/importer.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "gtest/gtest.h"

namespace pto::testing {
namespace {

namespace pb = ::google::protobuf;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// One file, "t.proto", in memory.
class OneFile final : public pb::compiler::SourceTree {
 public:
  explicit OneFile(std::string text) : text_(std::move(text)) {}
  pb::io::ZeroCopyInputStream* Open(const std::string& name) override {
    if (name != "t.proto") return nullptr;
    return new pb::io::ArrayInputStream(text_.data(), static_cast<int>(text_.size()));
  }

 private:
  std::string text_;
};

class Complain final : public pb::compiler::MultiFileErrorCollector {
 public:
  void AddError(const std::string& file, int line, int /*column*/,
                const std::string& message) override {
    ADD_FAILURE() << file << ":" << line + 1 << ": " << message;
  }
};

std::vector<std::string> Check(const std::string& text) {
  OneFile tree(text);
  Complain complain;
  pb::compiler::Importer importer(&tree, &complain);
  const pb::FileDescriptor* file = importer.Import("t.proto");
  if (file == nullptr) return {"cannot be read"};
  return CheckDocumentation(*file);
}

constexpr char kGood[] = R"(syntax = "proto3";
package t;
// Serves the tests only.
service S {
  // Does the thing.
  //
  // Errors: INVALID_ARGUMENT / NAME_INVALID, FIELD_INVALID (size); NOT_FOUND /
  //   RUN_UNKNOWN, and GRAPH_UNKNOWN unless `x`. OK is none; ON_FIRE is a state.
  // Idempotency: read only.
  // Failure: retry.
  // Deadline: 5 s.
  // Since: 1.0.
  rpc Do(M) returns (stream M);
}
// A message here.
message M {
  // Some field to set.
  string a = 1;
  // A map, whose entry is not ours.
  map<string, int32> b = 2;
  // One of these.
  oneof c {
    // The first choice.
    int32 d = 3;
  }
  // A field that is optional, whose oneof is not ours.
  optional int32 e = 4;
  // Stands inside it.
  message N {
    // Kinds of N.
    enum E {
      // None.
      ZERO = 0;
      // Burning.
      ON_FIRE = 1;
    }
  }
}
// Of the file.
enum F {
  // None.
  NONE = 0;
}
)";

// The result of the check after one edit of the good file.
std::vector<std::string> CheckWithout(absl::string_view part, absl::string_view instead = "") {
  const std::string text = absl::StrReplaceAll(kGood, {{part, instead}});
  EXPECT_NE(text, kGood) << "'" << part << "' is not there";
  return Check(text);
}

TEST(DocCheckTest, AcceptsWhatIsDocumented) { EXPECT_THAT(Check(kGood), IsEmpty()); }

TEST(DocCheckTest, EveryKindOfThingNeedsAComment) {
  EXPECT_THAT(CheckWithout("// Serves the tests only.\n"),
              ElementsAre("t.proto:3: service t.S has no comment above it"));
  EXPECT_THAT(CheckWithout("// A message here.\n"),
              ElementsAre("t.proto:15: message t.M has no comment above it"));
  EXPECT_THAT(CheckWithout("  // Some field to set.\n"),
              ElementsAre("t.proto:17: field t.M.a has no comment above it"));
  EXPECT_THAT(CheckWithout("  // A map, whose entry is not ours.\n"),
              ElementsAre(HasSubstr("field t.M.b has no comment")));
  EXPECT_THAT(CheckWithout("  // One of these.\n"),
              ElementsAre(HasSubstr("oneof t.M.c has no comment")));
  EXPECT_THAT(CheckWithout("    // The first choice.\n"),
              ElementsAre(HasSubstr("field t.M.d has no comment")));
  EXPECT_THAT(CheckWithout("  // Stands inside it.\n"),
              ElementsAre(HasSubstr("message t.M.N has no comment")));
  EXPECT_THAT(CheckWithout("    // Kinds of N.\n"),
              ElementsAre(HasSubstr("enum t.M.N.E has no comment")));
  EXPECT_THAT(CheckWithout("      // Burning.\n"),
              ElementsAre(HasSubstr("enum value t.M.N.ON_FIRE has no comment")));
  EXPECT_THAT(CheckWithout("// Of the file.\n"), ElementsAre(HasSubstr("enum t.F has no comment")));
}

TEST(DocCheckTest, ACommentBehindOrApartIsNone) {
  EXPECT_THAT(CheckWithout("  // Some field to set.\n  string a = 1;",
                           "  string a = 1;  // Some field to set."),
              ElementsAre(HasSubstr("field t.M.a has no comment")));
  EXPECT_THAT(CheckWithout("  // Some field to set.\n", "  // Some field to set.\n\n"),
              ElementsAre(HasSubstr("field t.M.a has no comment")));
}

TEST(DocCheckTest, TwoWordsAreTooFew) {
  EXPECT_THAT(
      CheckWithout("// Some field to set.", "// A field."),
      ElementsAre(AllOf(StartsWith("t.proto:18: field t.M.a"), HasSubstr("less than 3 words"))));
  EXPECT_THAT(CheckWithout("// Some field to set.", "//"),
              ElementsAre(HasSubstr("field t.M.a has no comment")));
}

TEST(DocCheckTest, MethodNeedsEveryParagraph) {
  EXPECT_THAT(CheckWithout("  // Does the thing.\n"),
              ElementsAre("t.proto:12: method t.S.Do does not say its purpose"));
  EXPECT_THAT(CheckWithout("Idempotency: read only."),
              ElementsAre(HasSubstr("method t.S.Do has no `Idempotency:`")));
  EXPECT_THAT(CheckWithout("Failure: retry."), ElementsAre(HasSubstr("has no `Failure:`")));
  EXPECT_THAT(CheckWithout("Deadline: 5 s."), ElementsAre(HasSubstr("has no `Deadline:`")));
  EXPECT_THAT(CheckWithout("Since: 1.0."), ElementsAre(HasSubstr("has no `Since:`")));
  EXPECT_THAT(CheckWithout("Errors: ", "Mistakes: "), ElementsAre(HasSubstr("has no `Errors:`")));
  EXPECT_THAT(CheckWithout("Deadline: 5 s.", "Deadline:"),
              ElementsAre(HasSubstr("says nothing after `Deadline:`")));
  EXPECT_THAT(CheckWithout("Failure: retry.", "Failure: retry.\n  // Failure: or not."),
              ElementsAre(HasSubstr("has `Failure:` twice")));
  EXPECT_THAT(
      CheckWithout("Failure: retry.\n  // Deadline: 5 s.", "Deadline: 5 s.\n  // Failure: x."),
      ElementsAre(HasSubstr("needs the order Errors: Idempotency:")));
}

TEST(DocCheckTest, MethodWithoutAnyComment) {
  EXPECT_THAT(Check(R"(syntax = "proto3";
// Serves the tests only.
service S {
  rpc Do(M) returns (M);
}
// A message here.
message M {}
)"),
              ElementsAre("t.proto:4: method S.Do has no comment above it"));
}

TEST(DocCheckTest, ReasonsAreThoseOfTheRegistry) {
  EXPECT_THAT(CheckWithout("NAME_INVALID", "NAME_TOO_NICE"),
              ElementsAre(HasSubstr("speaks of NAME_TOO_NICE, which is no known reason")));
  EXPECT_THAT(CheckWithout("RUN_UNKNOWN", "RUN_UNKOWN"), Contains(HasSubstr("RUN_UNKOWN")));
}

TEST(DocCheckTest, ReasonsStandUnderTheirCode) {
  EXPECT_THAT(CheckWithout("NOT_FOUND /", "ABORTED /"),
              ElementsAre(HasSubstr("lists RUN_UNKNOWN under ABORTED; its code is NOT_FOUND"),
                          HasSubstr("lists GRAPH_UNKNOWN under ABORTED")));
  EXPECT_THAT(CheckWithout("INVALID_ARGUMENT / ", ""),
              Contains(HasSubstr("lists NAME_INVALID under no code")));
}

}  // namespace
}  // namespace pto::testing
