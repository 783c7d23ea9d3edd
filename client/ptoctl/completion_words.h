#pragma once

#include <functional>
#include <string>
#include <vector>

#include "client/ptoctl/command.h"

namespace pto::ptoctl {

// A word that may come next on a command line.
struct CompletionWord {
  std::string word;
  std::string description = {};
};

// Stands for all files, which the shell lists.
inline constexpr char kCompletionFiles[] = ":files";

// The names of resources of one noun, such as `runs`; may ask a daemon.
using ResourceNames = std::function<std::vector<std::string>(const std::string& noun)>;

// What may follow `words`, the complete words behind the name of the program: commands, options,
// values of an option, names of resources, files.
std::vector<CompletionWord> NextWords(const Command& root, const std::vector<std::string>& words,
                                      const ResourceNames& names);

}  // namespace pto::ptoctl
