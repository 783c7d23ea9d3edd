#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

// CLI11 is all headers, and takes longer to compile than any command does. Only command.cc
// includes it.

namespace pto::ptoctl {

// Something that a command takes. A handle to copy as one likes; the command owns what it stands
// for. What it takes is narrowed by a chain of calls.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  Option Required() const;
  // From the first to the last.
  Option Range(int first, int last) const;
  Option Range(uint64_t first, uint64_t last) const;
  Option Positive() const;
  Option OneOf(const std::vector<std::string>& words) const;
  // `what_is_wrong` gives nothing for a value that is right.
  Option Check(std::function<std::string(const std::string&)> what_is_wrong) const;
  // For a list: to be given again for each value, as the help then says.
  Option Repeated() const;
  // Those, by name, must be there already.
  Option Excludes(const std::vector<std::string>& names) const;

  // Whether the word after it belongs to it.
  bool TakesValue() const;

 private:
  CLI::Option* option_;
};

// A program, or a noun or verb of its command line, with its options and the commands below it.
// Owns those commands; where values are written to must outlive it. One thread.
class Command {
 public:
  // What a command line turned out to be.
  struct Reading {
    enum Kind {
      kAction,        // complete
      kQuestion,      // for help or the version
      kNotComplete,   // something required is missing
      kNotUnderstood  // anything else
    };
    Kind kind = kAction;
    // The answer to a question, or what is wrong.
    std::string text = {};
    // What to do; nothing for a command that has nothing to do.
    std::function<absl::Status()> action = {};
  };

  // The program.
  Command(const std::string& name, const std::string& description);
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;
  ~Command();

  // A command below this one, which from then on needs one of them. It also understands the
  // options of those above.
  Command& AddCommand(const std::string& name, const std::string& description);

  // `names` is such as `-o,--output`, or `FILE` for a positional. The value is left alone when
  // the command line has none.
  Option AddFlag(const std::string& names, bool* value, const std::string& description);
  Option AddOption(const std::string& names, std::string* value, const std::string& description);
  Option AddOption(const std::string& names, std::vector<std::string>* values,
                   const std::string& description);
  Option AddOption(const std::string& names, int* value, const std::string& description);
  Option AddOption(const std::string& names, int64_t* value, const std::string& description);
  Option AddOption(const std::string& names, uint32_t* value, const std::string& description);
  Option AddOption(const std::string& names, uint64_t* value, const std::string& description);
  Option AddOption(const std::string& names, absl::optional<uint32_t>* value,
                   const std::string& description);
  Option AddOption(const std::string& names, absl::Duration* value, const std::string& description);
  Option AddOption(const std::string& names, absl::optional<absl::Duration>* value,
                   const std::string& description);
  // One of some words, in small or capital letters, or the number that it stands for.
  Option AddChoice(const std::string& names, const std::map<std::string, int>& words,
                   std::function<void(int)> set, const std::string& description);
  // The program's --version.
  void AddVersion(const std::string& text);

  // The end of the help text.
  Command& Footer(const std::string& text);
  // What to do when a command line ends in this command.
  Command& Action(std::function<absl::Status()> action);

  const std::string& name() const { return name_; }
  // Nothing for the program.
  const Command* parent() const { return parent_; }
  const std::vector<std::unique_ptr<Command>>& commands() const { return commands_; }
  // Such as --output and -o, in the order of their adding; those that are long first in each.
  std::vector<std::string> OptionNames() const;
  std::vector<std::string> PositionalNames() const;
  // Here or in a command above.
  absl::optional<Option> FindOption(const std::string& name) const;

  // As one would type it: `ptoctl runs submit`.
  std::string Path() const;
  std::string Help() const;

  // For the program, once: reads a command line without the program's name. Sets the values.
  Reading Parse(const std::vector<std::string>& args);

 private:
  Command(Command* parent, CLI::App* app);

  template <typename T>
  Option AddValue(const std::string& names, T* value, const std::string& description);
  Option AddDuration(const std::string& names, std::function<void(absl::Duration)> set,
                     const std::string& description);
  // The one that the command line ended in.
  const Command& Reached() const;

  // Only the program's; it owns those of the commands.
  std::unique_ptr<CLI::App> owned_;
  Command* const parent_;
  CLI::App* const app_;
  const std::string name_;
  std::vector<std::unique_ptr<Command>> commands_;
  std::function<absl::Status()> action_;
};

}  // namespace pto::ptoctl
