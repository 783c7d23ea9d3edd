#include "runtime/chip/ascend/doctor/finding.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace pto::ascend {
namespace {

std::string Quoted(absl::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (absl::ascii_iscntrl(byte)) {
      absl::StrAppendFormat(&out, "\\u%04x", byte);
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string Line(std::string text) {
  for (char& c : text) {
    if (absl::ascii_iscntrl(static_cast<unsigned char>(c))) c = ' ';
  }
  return text;
}

}  // namespace

absl::string_view NameOf(Finding::State state) {
  switch (state) {
    case Finding::State::kOk:
      return "ok";
    case Finding::State::kNote:
      return "note";
    case Finding::State::kProblem:
      break;
  }
  return "problem";
}

std::string ToTable(absl::Span<const Finding> findings) {
  size_t width = 5;
  for (const Finding& finding : findings) width = std::max(width, finding.check.size());
  std::string out = absl::StrFormat("%-*s  %-7s  %s\n", width, "CHECK", "STATE", "FOUND");
  for (const Finding& finding : findings) {
    absl::StrAppendFormat(&out, "%-*s  %-7s  %s\n", width, finding.check, NameOf(finding.state),
                          Line(finding.found));
    if (!finding.advice.empty()) {
      absl::StrAppendFormat(&out, "%-*s  %-7s  -> %s\n", width, "", "", Line(finding.advice));
    }
  }
  return out;
}

std::string ToJson(absl::Span<const Finding> findings) {
  return absl::StrCat("[\n",
                      absl::StrJoin(findings, ",\n",
                                    [](std::string* out, const Finding& finding) {
                                      absl::StrAppend(
                                          out, "  {\"check\": ", Quoted(finding.check),
                                          ", \"state\": ", Quoted(NameOf(finding.state)),
                                          ", \"found\": ", Quoted(finding.found),
                                          ", \"advice\": ", Quoted(finding.advice), "}");
                                    }),
                      "\n]\n");
}

std::string ToLines(absl::Span<const Finding> findings) {
  std::string out;
  for (const Finding& finding : findings) {
    absl::StrAppend(&out, "finding\t", Line(finding.check), "\t", NameOf(finding.state), "\t",
                    Line(finding.found), "\t", Line(finding.advice), "\n");
  }
  return out;
}

std::vector<Finding> FromLines(absl::string_view lines) {
  std::vector<Finding> findings;
  for (const absl::string_view line : absl::StrSplit(lines, '\n')) {
    const std::vector<std::string> parts = absl::StrSplit(line, '\t');
    if (parts.size() != 5 || parts[0] != "finding") continue;
    Finding finding;
    finding.check = parts[1];
    finding.state = parts[2] == "ok"     ? Finding::State::kOk
                    : parts[2] == "note" ? Finding::State::kNote
                                         : Finding::State::kProblem;
    finding.found = parts[3];
    finding.advice = parts[4];
    findings.push_back(finding);
  }
  return findings;
}

}  // namespace pto::ascend
