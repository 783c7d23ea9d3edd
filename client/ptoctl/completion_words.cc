#include "client/ptoctl/completion_words.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/match.h"
#include "absl/types/optional.h"
#include "runtime/base/reason.h"

namespace pto::ptoctl {
namespace {

// Where a command line has come to.
struct Place {
  const Command* command = nullptr;
  size_t arguments = 0;     // positional ones of the command so far
  std::string option = {};  // that needs a value, else empty
};

const Command* Below(const Command& command, const std::string& name) {
  for (const auto& below : command.commands()) {
    if (below->name() == name) return below.get();
  }
  return nullptr;
}

Place Follow(const Command& root, const std::vector<std::string>& words) {
  Place place{&root};
  for (const std::string& word : words) {
    if (!place.option.empty()) {
      place.option.clear();
    } else if (absl::StartsWith(word, "-")) {
      const absl::optional<Option> option = place.command->FindOption(word);
      if (option.has_value() && option->TakesValue()) place.option = word;
    } else if (const Command* const below = Below(*place.command, word)) {
      place.command = below;
      place.arguments = 0;
    } else {
      ++place.arguments;
    }
  }
  return place;
}

// The first command below the program, such as `runs`.
std::string NounOf(const Command& command) {
  const Command* noun = &command;
  while (noun->parent() != nullptr && noun->parent()->parent() != nullptr) noun = noun->parent();
  return noun->name();
}

void AddNames(const std::vector<std::string>& names, std::vector<CompletionWord>* next) {
  for (const std::string& name : names) next->push_back({name});
}

// What an argument, or the value of an option, can be by its name.
void AddValues(const Command& command, const std::string& name, const ResourceNames& names,
               std::vector<CompletionWord>* next) {
  static const auto* const kNouns = new std::map<std::string, std::string>{
      {"CHIP", "chips"},       {"DOMAIN", "domains"},     {"RUN", "runs"},
      {"SESSION", "sessions"}, {"--session", "sessions"}, {"--context", "context"},
  };
  // Of these, NAME is one that exists; of others, one to be.
  static const auto* const kNamed =
      new std::set<std::string>{"context", "kernels", "scenarios", "sessions"};
  if (name == "FILE" || absl::StartsWith(name, "--tls-") || name == "--token-file" ||
      name == "--out" || name == "--trace") {
    next->push_back({kCompletionFiles});
  } else if (name == "REASON") {
    for (const Reason* reason : AllReasons()) next->push_back({std::string(reason->name)});
  } else if (name == "NAME" && kNamed->count(NounOf(command)) == 1) {
    const bool is_new = command.name() == "add" || command.name() == "new";
    if (!is_new) AddNames(names(NounOf(command)), next);
  } else if (const auto found = kNouns->find(name); found != kNouns->end()) {
    AddNames(names(found->second), next);
  }
}

}  // namespace

std::vector<CompletionWord> NextWords(const Command& root, const std::vector<std::string>& words,
                                      const ResourceNames& names) {
  const Place place = Follow(root, words);
  std::vector<CompletionWord> next;
  if (!place.option.empty()) {
    const absl::optional<Option> option = place.command->FindOption(place.option);
    for (const std::string& word : option->Words()) next.push_back({word});
    if (next.empty()) AddValues(*place.command, place.option, names, &next);
    return next;
  }
  for (const auto& below : place.command->commands()) {
    next.push_back({below->name(), below->description()});
  }
  const std::vector<std::string> positional = place.command->PositionalNames();
  if (!positional.empty()) {
    // The last one may be a list.
    const size_t index = std::min(place.arguments, positional.size() - 1);
    AddValues(*place.command, positional[index], names, &next);
  }
  for (const Command* command = place.command; command != nullptr; command = command->parent()) {
    for (const std::string& name : command->OptionNames()) {
      const bool is_there = std::any_of(
          next.begin(), next.end(), [&](const CompletionWord& word) { return word.word == name; });
      if (!is_there) next.push_back({name, command->FindOption(name)->Description()});
    }
  }
  return next;
}

}  // namespace pto::ptoctl
