#pragma once

#include <string>
#include <vector>

namespace pto::daemon {

// Whether this machine provides what confines kernel hosts.
struct SandboxPart {
  std::string name;  // as in capabilities
  bool provided = false;
  std::string detail;  // what it does, or why it is not there
};

// Asks the system; starts nothing and restricts nothing.
std::vector<SandboxPart> ProbeSandbox();

}  // namespace pto::daemon
