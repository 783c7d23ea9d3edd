#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace pto::cann {

// How a toolkit has divided its libraries.
enum class Layout {
  kNone,
  kAscendcl,  // 8.1: libascendcl.so and libhccl.so
  kSplit,     // 8.5: libacl_rt.so, libhcomm.so and libhccl.so, with libascendcl.so beside them
  kRuntime,   // 9.0 and later: the same without libascendcl.so
};
absl::string_view NameOf(Layout layout);

// What the search may look at; tests give another machine.
struct SearchInput {
  std::string explicit_path;        // from an option: a toolkit, or its library folder
  std::string ascend_home_path;     // ASCEND_HOME_PATH
  std::string ascend_toolkit_home;  // ASCEND_TOOLKIT_HOME
  std::string library_path;         // LD_LIBRARY_PATH
  // Where toolkits and the driver are usually installed.
  std::vector<std::string> usual_roots = {"/usr/local/Ascend/cann",
                                          "/usr/local/Ascend/ascend-toolkit/latest",
                                          "/usr/local/Ascend/latest"};
  std::string driver_root = "/usr/local/Ascend/driver";
  std::function<bool(const std::string&)> exists;  // of files and folders; default: access(2)

  static SearchInput FromEnvironment(std::string explicit_path);
};

struct SearchStep {
  std::string from;    // "ASCEND_HOME_PATH"
  std::string folder;  // that was looked at
  std::string result;  // "found, layout 9", "is not there", "is a stub folder"
};

struct SearchResult {
  Layout layout = Layout::kNone;
  std::string folder;         // that has the libraries
  std::string toolkit;        // above it; empty if not known
  std::string acl_library;    // path
  std::string hccl_library;   // path; empty: there is none
  std::string hcomm_library;  // path; empty: there is none
  std::vector<std::string> driver_folders;
  // Of this process, without stubs: the driver may be elsewhere.
  std::vector<std::string> inherited_folders;
  std::vector<SearchStep> steps;
  std::vector<std::string> stubs;  // stub folders that were passed over

  bool found() const { return layout != Layout::kNone; }
  // LD_LIBRARY_PATH for a chip host. It must be set before the process starts: CANN's libraries
  // find each other by name only, and the loader reads the variable once.
  std::string LibraryPath() const;
};

// Looks for CANN's libraries without opening any: the given path first, then ASCEND_HOME_PATH and
// ASCEND_TOOLKIT_HOME, LD_LIBRARY_PATH, and the usual places. So the daemon may call it.
SearchResult FindCann(const SearchInput& input);

}  // namespace pto::cann
