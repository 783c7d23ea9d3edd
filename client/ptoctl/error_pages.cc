#include "client/ptoctl/error_pages.h"

#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace pto::ptoctl {
namespace {

struct Page {
  absl::string_view name;
  absl::string_view text;
};

constexpr Page kPages[] = {
#include "client/ptoctl/error_pages.inc"
};

constexpr absl::string_view kHeading = "\n## ";

void AddSections(const Page& page, std::vector<ErrorSection>* sections) {
  absl::string_view rest = page.text;
  size_t begin = rest.find(kHeading);
  while (begin != absl::string_view::npos) {
    rest.remove_prefix(begin + kHeading.size());
    begin = rest.find(kHeading);
    const absl::string_view section = rest.substr(0, begin);
    const size_t line_end = section.find('\n');
    ErrorSection found{section.substr(0, line_end), page.name, ""};
    if (line_end != absl::string_view::npos) {
      found.text = absl::StripTrailingAsciiWhitespace(section.substr(line_end));
      while (absl::ConsumePrefix(&found.text, "\n")) {
      }
    }
    sections->push_back(found);
  }
}

}  // namespace

const std::vector<ErrorSection>& ErrorSections() {
  static const auto* const sections = [] {
    auto* all = new std::vector<ErrorSection>;
    for (const Page& page : kPages) AddSections(page, all);
    return all;
  }();
  return *sections;
}

const ErrorSection* FindErrorSection(absl::string_view reason) {
  for (const ErrorSection& section : ErrorSections()) {
    if (section.reason == reason) return &section;
  }
  return nullptr;
}

absl::string_view ExampleOf(const ErrorSection& section) {
  const std::string end = absl::StrCat(" (", section.reason, ")");
  for (absl::string_view line : absl::StrSplit(section.text, '\n')) {
    if (!absl::ConsumePrefix(&line, "    ptoctl: error: ") &&
        !absl::ConsumePrefix(&line, "    ptod: ")) {
      continue;
    }
    if (absl::ConsumeSuffix(&line, end)) return line;
  }
  return "";
}

}  // namespace pto::ptoctl
