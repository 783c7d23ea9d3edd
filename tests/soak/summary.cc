#include "tests/soak/summary.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace pto::soak {
namespace {

constexpr double kMiB = 1 << 20;

// The names and values of all counters, in display order.
std::vector<std::pair<std::string, uint64_t>> Counts(const Figures& figures, const Tally& tally) {
  return {{"restarts", static_cast<uint64_t>(figures.restarts)},
          {"rounds", tally.rounds},
          {"calls", tally.calls},
          {"repeated_calls", tally.repeated},
          {"runs", tally.runs},
          {"cancelled_runs", tally.cancelled},
          {"checked_results", tally.checks},
          {"transferred_bytes", tally.bytes},
          {"events", tally.events},
          {"dropped_events", tally.dropped_events},
          {"killed_clients", tally.killed_clients},
          {"resident_bytes", figures.resident_bytes},
          {"files", figures.files},
          {"sessions", figures.sessions},
          {"active_runs", figures.active_runs},
          {"failures", tally.failures()}};
}

std::string JsonCounts(const Figures& figures, const Tally& tally) {
  return absl::StrJoin(Counts(figures, tally), ",",
                       [](std::string* out, const std::pair<std::string, uint64_t>& count) {
                         absl::StrAppend(out, "\"", count.first, "\":", count.second);
                       });
}

std::string Quoted(absl::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += {'\\', c};
    } else if (static_cast<unsigned char>(c) < 0x20) {
      absl::StrAppendFormat(&quoted, "\\u%04x", static_cast<unsigned>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

}  // namespace

std::string ProgressLine(const Figures& figures, const Tally& tally, bool json) {
  if (json) {
    return absl::StrFormat("{\"seconds\":%.0f,%s}", absl::ToDoubleSeconds(figures.passed),
                           JsonCounts(figures, tally));
  }
  return absl::StrFormat(
      "%5.0f s  %6u rounds %8u calls (%u repeated) %8u runs (%u cancelled) %8u checks %5u killed  "
      "%4u sessions %5u active %5u files %6.1f MiB  %u failures",
      absl::ToDoubleSeconds(figures.passed), tally.rounds.load(), tally.calls.load(),
      tally.repeated.load(), tally.runs.load(), tally.cancelled.load(), tally.checks.load(),
      tally.killed_clients.load(), figures.sessions, figures.active_runs, figures.files,
      static_cast<double>(figures.resident_bytes) / kMiB, tally.failures());
}

std::string Summary(const Verdict& verdict, const Tally& tally, bool json) {
  const std::vector<std::string> failures = tally.first_failures();
  if (json) {
    const std::string expected = absl::StrJoin(
        tally.expected(), ",", [](std::string* out, const std::pair<std::string, uint64_t>& row) {
          absl::StrAppend(out, Quoted(row.first), ":", row.second);
        });
    const std::string texts = absl::StrJoin(
        failures, ",",
        [](std::string* out, const std::string& text) { absl::StrAppend(out, Quoted(text)); });
    return absl::StrFormat(
        "{\"summary\":true,\"ok\":%s,\"seconds\":%.0f,%s,\"slope_bytes_per_minute\":%.0f,"
        "\"first_resident_bytes\":%.0f,\"last_resident_bytes\":%.0f,\"expected_errors\":{%s},"
        "\"first_failures\":[%s]}",
        verdict.ok ? "true" : "false", absl::ToDoubleSeconds(verdict.figures.passed),
        JsonCounts(verdict.figures, tally), verdict.slope_bytes_per_minute,
        verdict.first_resident_bytes, verdict.last_resident_bytes, expected, texts);
  }
  std::string text =
      absl::StrFormat("\nsoak of %.0f s\n", absl::ToDoubleSeconds(verdict.figures.passed));
  for (const auto& [name, count] : Counts(verdict.figures, tally)) {
    absl::StrAppendFormat(&text, "  %-20s %u\n", name, count);
  }
  absl::StrAppendFormat(&text,
                        "  %-20s %+.2f MiB per minute in the second half (%.1f to %.1f MiB)\n",
                        "resident memory", verdict.slope_bytes_per_minute / kMiB,
                        verdict.first_resident_bytes / kMiB, verdict.last_resident_bytes / kMiB);
  absl::StrAppend(&text, "  expected errors that ended a round:\n");
  for (const auto& [reason, count] : tally.expected()) {
    absl::StrAppendFormat(&text, "    %-18s %u\n", reason, count);
  }
  for (const std::string& failure : failures) absl::StrAppend(&text, "  FAILURE ", failure, "\n");
  absl::StrAppend(&text, verdict.ok ? "passed\n" : "FAILED\n");
  return text;
}

}  // namespace pto::soak
