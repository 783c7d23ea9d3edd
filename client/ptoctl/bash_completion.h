#pragma once

#include <string>

namespace CLI {
class App;
}  // namespace CLI

namespace pto::ptoctl {

// A script that completes the commands and options of `app`, and files and reasons where a command
// takes them.
std::string BashCompletion(const CLI::App& app);

}  // namespace pto::ptoctl
