#include "tests/fake_cann/testing/fake_machine.h"

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/fake_cann/testing/trace_check.h"

namespace pto::ascend::testing {
namespace {

std::string Folder() {
  static const std::string* const folder = [] {
    const char* const base = getenv("TEST_TMPDIR");
    auto* const path =
        new std::string(absl::StrCat(base == nullptr ? "/tmp" : base, "/cann-", getpid()));
    mkdir(path->c_str(), 0700);
    return path;
  }();
  return *folder;
}

std::string TracePath() { return Folder() + "/trace"; }

// Where the last look at the trace ended.
std::streamoff trace_position = 0;

std::vector<std::string> NewLines(bool advance) {
  std::ifstream file(TracePath());
  file.seekg(trace_position);
  std::vector<std::string> lines;
  std::string line;
  std::streamoff end = trace_position;
  while (std::getline(file, line)) {
    lines.push_back(line);
    end += static_cast<std::streamoff>(line.size()) + 1;
  }
  if (advance) trace_position = end;
  return lines;
}

}  // namespace

const cann::Cann& FakeCann() {
  static const cann::Cann* const cann = [] {
    setenv("FAKE_CANN_DIR", Folder().c_str(), 0);
    setenv("FAKE_CANN_TRACE", TracePath().c_str(), 0);
    cann::SearchInput input;
    const char* const path = getenv("LD_LIBRARY_PATH");
    input.explicit_path = path == nullptr ? "none" : path;
    absl::StatusOr<cann::Cann> loaded = cann::LoadCann(cann::FindCann(input));
    if (!loaded.ok()) {
      fprintf(stderr, "%s\n", loaded.status().ToString().c_str());
      abort();
    }
    return new cann::Cann(*std::move(loaded));
  }();
  return *cann;
}

void SetPlan(const std::string& plan) {
  void* const library = dlopen(FakeCann().search.acl_library.c_str(), RTLD_NOW | RTLD_NOLOAD);
  auto* const set = reinterpret_cast<void (*)(const char*)>(dlsym(library, "fake_cann_set_plan"));
  set(plan.c_str());
}

int CountLines(const std::string& text) {
  int count = 0;
  for (const std::string& line : NewLines(false)) {
    if (absl::StrContains(line, text)) ++count;
  }
  return count;
}

int CountCalls(const std::string& function) { return CountLines(absl::StrCat(" ", function, "(")); }

std::vector<std::string> TakeBreaches(bool lost) { return FindBreaches(NewLines(true), lost); }

}  // namespace pto::ascend::testing
