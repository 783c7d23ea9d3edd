#pragma once

#include <ostream>
#include <string>
#include <vector>

namespace pto::ptoctl {

// The whole of ptoctl but for the process: reads the command line (without the program's name),
// does what it says, returns the exit code.
int Main(const std::vector<std::string>& args, std::ostream& out, std::ostream& err,
         bool err_is_terminal);

}  // namespace pto::ptoctl
