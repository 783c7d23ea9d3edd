#pragma once

#include <ostream>
#include <string>
#include <vector>

namespace pto::ptoctl {

// The entry point of ptoctl, separate from main() so that tests can call it. Parses the command
// line (without the program name), executes it and returns the exit code.
int Main(const std::vector<std::string>& args, std::ostream& out, std::ostream& err,
         bool err_is_terminal);

}  // namespace pto::ptoctl
