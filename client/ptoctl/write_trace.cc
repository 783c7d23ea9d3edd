#include "client/ptoctl/write_trace.h"

#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/trace/chrome_trace.h"
#include "client/trace/collect.h"
#include "client/trace/swimlanes.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::ptoctl {

std::string CheckTraceName(const std::string& path) {
  for (const char* ending : {".json", ".html", ".svg"}) {
    if (absl::EndsWith(path, ending)) return "";
  }
  return absl::StrCat(path, ": expected a file name ending in .json, .html or .svg");
}

absl::Status WriteTrace(const trace::RunTrace& trace, const std::string& path, uint64_t max_edges) {
  std::string text;
  if (absl::EndsWith(path, ".svg")) {
    text = trace::FormatSvg(trace);
  } else if (absl::EndsWith(path, ".html")) {
    text = trace::FormatHtml(trace);
  } else {
    trace::ChromeOptions options;
    options.max_edges = max_edges;
    text = trace::FormatChromeTrace(trace, options);
  }
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (file) return absl::OkStatus();
  return Error(reason::kUsage, absl::StrCat("cannot write ", path));
}

absl::Status WriteTrace(Client& client, const std::string& run, const std::string& path) {
  PTO_ASSIGN_OR_RETURN(const trace::RunTrace trace, trace::CollectTrace(client, run));
  return WriteTrace(trace, path, trace::ChromeOptions().max_edges);
}

}  // namespace pto::ptoctl
