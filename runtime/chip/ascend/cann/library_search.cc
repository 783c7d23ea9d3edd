#include "runtime/chip/ascend/cann/library_search.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace pto::cann {
namespace {

std::string Variable(const char* name) {
  const char* const value = std::getenv(name);  // NOLINT: before any thread changes it
  return value == nullptr ? "" : value;
}

std::string WithoutSlash(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

// The toolkit has libraries to link against that do nothing.
bool IsStubFolder(absl::string_view folder) {
  for (const absl::string_view part : absl::StrSplit(folder, '/')) {
    if (part == "stub" || part == "stubs" || part == "devlib") return true;
  }
  return false;
}

class Search {
 public:
  explicit Search(const SearchInput& input) : input_(input) {}

  SearchResult Run() {
    if (!input_.explicit_path.empty()) {
      // A path that was given and is wrong must not lead to another toolkit.
      LookAtRoot("the given path", input_.explicit_path);
      return Finish();
    }
    LookAtRoot("ASCEND_HOME_PATH", input_.ascend_home_path);
    LookAtRoot("ASCEND_TOOLKIT_HOME", input_.ascend_toolkit_home);
    for (const absl::string_view folder : absl::StrSplit(input_.library_path, ':')) {
      LookAt("LD_LIBRARY_PATH", std::string(folder), /*say_missing=*/false);
    }
    for (const std::string& root : input_.usual_roots) LookAtRoot("the usual place", root);
    return Finish();
  }

 private:
  bool Exists(const std::string& path) const {
    return input_.exists ? input_.exists(path) : access(path.c_str(), F_OK) == 0;
  }

  void LookAtRoot(const std::string& from, const std::string& root) {
    if (result_.found()) return;
    if (root.empty()) {
      result_.steps.push_back({from, "", "is not set"});
      return;
    }
    const std::string path = WithoutSlash(root);
    if (Exists(path + "/lib64")) return LookAt(from, path + "/lib64", true);
    LookAt(from, path, true);
  }

  void LookAt(const std::string& from, const std::string& given, bool say_missing) {
    if (result_.found() || given.empty()) return;
    const std::string folder = WithoutSlash(given);
    const auto has = [&](absl::string_view name) {
      return Exists(absl::StrCat(folder, "/", name));
    };
    const auto note = [&](std::string what) {
      result_.steps.push_back({from, folder, std::move(what)});
    };
    if (!Exists(folder)) {
      if (say_missing) note("is not there");
      return;
    }
    const bool runtime = has("libacl_rt.so");
    const bool ascendcl = has("libascendcl.so");
    if (!runtime && !ascendcl) {
      if (say_missing) note("has neither libacl_rt.so nor libascendcl.so");
      return;
    }
    if (IsStubFolder(folder)) {
      result_.stubs.push_back(folder);
      note("is passed over: its libraries are stubs for linking");
      return;
    }
    result_.layout = !runtime ? Layout::kAscendcl : ascendcl ? Layout::kSplit : Layout::kRuntime;
    result_.folder = folder;
    if (absl::EndsWith(folder, "/lib64")) {
      result_.toolkit = std::string(absl::StripSuffix(folder, "/lib64"));
    }
    result_.acl_library = absl::StrCat(folder, runtime ? "/libacl_rt.so" : "/libascendcl.so");
    if (has("libhccl.so")) result_.hccl_library = folder + "/libhccl.so";
    if (has("libhcomm.so")) result_.hcomm_library = folder + "/libhcomm.so";
    note(absl::StrCat("found, layout ", NameOf(result_.layout)));
  }

  SearchResult Finish() {
    const std::string root = WithoutSlash(input_.driver_root) + "/lib64";
    for (const char* const part : {"", "/driver", "/common"}) {
      if (Exists(root + part)) result_.driver_folders.push_back(root + part);
    }
    for (const absl::string_view each : absl::StrSplit(input_.library_path, ':')) {
      const std::string folder = WithoutSlash(std::string(each));
      if (!folder.empty() && !IsStubFolder(folder)) result_.inherited_folders.push_back(folder);
    }
    return std::move(result_);
  }

  const SearchInput& input_;
  SearchResult result_;
};

}  // namespace

absl::string_view NameOf(Layout layout) {
  switch (layout) {
    case Layout::kNone:
      break;
    case Layout::kAscendcl:
      return "8.1";
    case Layout::kSplit:
      return "8.5";
    case Layout::kRuntime:
      return "9";
  }
  return "none";
}

SearchInput SearchInput::FromEnvironment(std::string explicit_path) {
  SearchInput input;
  input.explicit_path = std::move(explicit_path);
  input.ascend_home_path = Variable("ASCEND_HOME_PATH");
  input.ascend_toolkit_home = Variable("ASCEND_TOOLKIT_HOME");
  input.library_path = Variable("LD_LIBRARY_PATH");
  return input;
}

std::string SearchResult::LibraryPath() const {
  std::vector<std::string> folders;
  const auto add = [&folders](const std::string& each) {
    if (std::find(folders.begin(), folders.end(), each) == folders.end()) folders.push_back(each);
  };
  if (!folder.empty()) add(folder);
  for (const std::string& each : driver_folders) add(each);
  for (const std::string& each : inherited_folders) add(each);
  return absl::StrJoin(folders, ":");
}

SearchResult FindCann(const SearchInput& input) { return Search(input).Run(); }

}  // namespace pto::cann
