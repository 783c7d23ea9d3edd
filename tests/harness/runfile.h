#pragma once

#include <cstdlib>
#include <string>

namespace pto::testing {

// The absolute path of a data file of the test, given its path in the source tree.
inline std::string Runfile(const std::string& path) {
  const char* const root = std::getenv("TEST_SRCDIR");
  const char* const workspace = std::getenv("TEST_WORKSPACE");
  if (root == nullptr || workspace == nullptr) return path;
  return std::string(root) + "/" + workspace + "/" + path;
}

}  // namespace pto::testing
