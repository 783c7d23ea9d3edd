// Checks deploy/docs against the registry of reasons and against the existing commands.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/ptoctl/error_pages.h"
#include "client/ptoctl/ptoctl_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/reason.h"

namespace pto::ptoctl {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

// By their paths below deploy/docs.
std::map<std::string, std::string> Documents() {
  std::map<std::string, std::string> documents;
  for (const auto& entry : std::filesystem::recursive_directory_iterator("deploy/docs")) {
    if (entry.path().extension() != ".md") continue;
    std::ifstream file(entry.path());
    std::ostringstream text;
    text << file.rdbuf();
    documents[entry.path().lexically_relative("deploy/docs").string()] = text.str();
  }
  return documents;
}

TEST(ErrorPagesTest, EveryReasonHasItsSection) {
  for (const Reason* reason : AllReasons()) {
    SCOPED_TRACE(reason->name);
    const ErrorSection* const section = FindErrorSection(reason->name);
    ASSERT_NE(section, nullptr) << "write one in deploy/docs/errors/" << reason->page << ".md";
    EXPECT_EQ(section->page, reason->page);
    const std::string text(section->text);
    EXPECT_THAT(text, StartsWith(absl::StrCat("Code `", absl::StatusCodeToString(reason->code),
                                              "`, scope `", ScopeName(reason->scope),
                                              "`, mechanism `", reason->mechanism, "`.\n")));
    EXPECT_THAT(text, HasSubstr("\n**Causes:** "));
    EXPECT_THAT(text, HasSubstr("\n**Do:** "));
    EXPECT_THAT(std::string(ExampleOf(*section)), Not(IsEmpty()));
  }
}

TEST(ErrorPagesTest, EverySectionHasItsReason) {
  std::map<std::string, int> seen;
  for (const ErrorSection& section : ErrorSections()) {
    EXPECT_NE(FindReason(section.reason), nullptr)
        << section.reason << " in " << section.page << ".md is no reason any more";
    EXPECT_EQ(++seen[std::string(section.reason)], 1) << section.reason << " is there twice";
  }
}

TEST(ErrorPagesTest, ReasonsThatAreSpokenOfExist) {
  // Upper-case words with an underscore that are not reasons; nor are the names of the kernel ABI.
  const std::vector<std::string> others = {"PTOD_ADDRESS", "PTOD_TOKEN_FILE"};
  for (const auto& [name, text] : Documents()) {
    for (absl::string_view word : absl::StrSplit(text, absl::ByAnyChar(" \n`'\",.;:()[]{}|/*"))) {
      const bool capitals = absl::StrContains(word, '_') && word == absl::AsciiStrToUpper(word) &&
                            absl::ascii_isupper(word[0]);
      if (!capitals || absl::StartsWith(word, "PTO_") ||
          std::find(others.begin(), others.end(), word) != others.end())
        continue;
      bool is_code = false;
      for (int code = 1; code <= 16; ++code) {
        is_code |= word == absl::StatusCodeToString(static_cast<absl::StatusCode>(code));
      }
      EXPECT_TRUE(is_code || FindReason(word) != nullptr) << name << ": " << word;
    }
  }
}

TEST(DocumentsTest, LinksLeadSomewhere) {
  const std::map<std::string, std::string> documents = Documents();
  ASSERT_EQ(documents.count("README.md"), 1u);
  ASSERT_EQ(documents.count("errors/README.md"), 1u);
  for (const auto& [name, text] : documents) {
    size_t at = 0;
    while ((at = text.find("](", at)) != std::string::npos) {
      at += 2;
      const std::string link = text.substr(at, text.find(')', at) - at);
      const std::vector<std::string> parts = absl::StrSplit(link, '#');
      const std::filesystem::path target =
          parts[0].empty()
              ? std::filesystem::path(name)
              : (std::filesystem::path(name).parent_path() / parts[0]).lexically_normal();
      // Files outside deploy/docs are not available here.
      if (absl::StartsWith(link, "http") || absl::StartsWith(target.string(), "..")) continue;
      const auto found = documents.find(target.string());
      ASSERT_NE(found, documents.end()) << name << ": " << link;
      if (parts.size() < 2) continue;
      EXPECT_THAT(absl::AsciiStrToLower(found->second),
                  HasSubstr(absl::StrCat("\n## ", parts[1], "\n")))
          << name << ": " << link;
    }
  }
}

TEST(DocumentsTest, CommandsThatAreAdvisedExist) {
  int checked = 0;
  for (const auto& [name, text] : Documents()) {
    size_t at = 0;
    while ((at = text.find("`ptoctl ", at)) != std::string::npos) {
      at += 8;
      std::vector<std::string> args;
      for (absl::string_view word : absl::StrSplit(text.substr(at, text.find('`', at) - at), ' ')) {
        // A noun, usually followed by a verb; then options and names.
        if (args.size() == 2 || word.empty() || !absl::ascii_islower(word[0])) break;
        args.emplace_back(word);
      }
      args.push_back("--help");
      EXPECT_EQ(Ptoctl(args).code, 0) << name << ": ptoctl " << args[0];
      ++checked;
    }
  }
  EXPECT_GT(checked, 50);
}

TEST(ErrorsCommandTest, ListsAllReasonsWithoutADaemon) {
  const Result table = Ptoctl({"errors", "ls"});
  EXPECT_EQ(table.code, 0);
  EXPECT_THAT(table.out, StartsWith("REASON "));
  const Result names = Ptoctl({"errors", "ls", "-q"});
  const Result json = Ptoctl({"errors", "ls", "-o", "json"});
  for (const Reason* reason : AllReasons()) {
    EXPECT_THAT(table.out, HasSubstr(absl::StrCat("\n", reason->name, " ")));
    EXPECT_THAT(names.out, HasSubstr(absl::StrCat(reason->name, "\n")));
    EXPECT_THAT(json.out, HasSubstr(absl::StrCat("\"reason\": \"", reason->name, "\"")));
  }
}

TEST(ErrorsCommandTest, ShowsWhatItMeansAndWhatToDo) {
  for (const char* name : {"WAIT_TIMEOUT", "wait_timeout"}) {
    const Result result = Ptoctl({"errors", "show", name});
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_THAT(result.out, StartsWith("WAIT_TIMEOUT\n\nCode `DEADLINE_EXCEEDED`"));
    EXPECT_THAT(result.out, HasSubstr("**Do:** "));
    EXPECT_THAT(result.out, Not(HasSubstr("WORKSPACE_EXHAUSTED")));
  }
  const Result two = Ptoctl({"errors", "show", "USAGE", "CHIP_BUSY"});
  EXPECT_THAT(two.out, HasSubstr("\n\nCHIP_BUSY\n\n"));
  const Result json = Ptoctl({"errors", "show", "CHIP_BUSY", "-o", "json"});
  EXPECT_THAT(json.out, HasSubstr("\"help\": \"deploy/docs/errors/chips.md#chip_busy\""));
}

}  // namespace
}  // namespace pto::ptoctl
