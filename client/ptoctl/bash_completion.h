#pragma once

#include <string>

#include "client/ptoctl/command.h"

namespace pto::ptoctl {

// Returns a bash script that completes the commands and options of `root`, and file names and error
// reasons for commands that take them.
std::string BashCompletion(const Command& root);

}  // namespace pto::ptoctl
