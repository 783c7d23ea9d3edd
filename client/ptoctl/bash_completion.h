#pragma once

#include <string>

#include "client/ptoctl/command.h"

namespace pto::ptoctl {

// A script that completes the commands and options of `root`, and files and reasons where a
// command takes them.
std::string BashCompletion(const Command& root);

}  // namespace pto::ptoctl
