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

// CLI11 is header-only and slow to compile, so only command.cc includes it.

namespace pto::ptoctl {

// A handle of an option or positional argument. Cheap to copy; the command owns the option. The
// methods constrain the accepted values and can be chained.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  Option Required() const;
  // Accepts `first` to `last`, inclusive.
  Option Range(int first, int last) const;
  Option Range(uint64_t first, uint64_t last) const;
  Option Positive() const;
  Option OneOf(const std::vector<std::string>& words) const;
  // `validate` returns an error message, or an empty string for a valid value.
  Option Check(std::function<std::string(const std::string&)> validate) const;
  // For lists: each occurrence of the option takes one value.
  Option Repeated() const;
  // The named options must already exist.
  Option Excludes(const std::vector<std::string>& names) const;

  // Whether the next word on the command line is its value.
  bool TakesValue() const;
  // The words that it accepts as a value; empty if it accepts others too.
  std::vector<std::string> Words() const;
  std::string Description() const;

 private:
  CLI::Option* option_;
};

// A program or one of its commands, with options and subcommands. Owns its subcommands. The
// variables that receive option values must outlive it. Not thread-safe.
class Command {
 public:
  // The result of parsing a command line.
  struct Reading {
    enum Kind {
      kAction,        // valid; run `action`
      kQuestion,      // --help or --version
      kNotComplete,   // a required argument or command is missing
      kNotUnderstood  // any other error
    };
    Kind kind = kAction;
    // The help or version text, or the error message.
    std::string text = {};
    // Empty for a command without an action.
    std::function<absl::Status()> action = {};
  };

  // Creates the root command, the program.
  Command(const std::string& name, const std::string& description);
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;
  ~Command();

  // Adds a subcommand. A command with subcommands requires one of them. A subcommand also accepts
  // the options of its parents.
  Command& AddCommand(const std::string& name, const std::string& description);

  // `names` is, for example, `-o,--output`, or `FILE` for a positional argument. `*value` keeps its
  // initial value if the option is not given.
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
  // Accepts one of the words (case-insensitive) or its number.
  Option AddChoice(const std::string& names, const std::map<std::string, int>& words,
                   std::function<void(int)> set, const std::string& description);
  // Adds --version to the program.
  void AddVersion(const std::string& text);

  // Sets the text at the end of the help.
  Command& Footer(const std::string& text);
  // Sets what the command does.
  Command& Action(std::function<absl::Status()> action);

  const std::string& name() const { return name_; }
  std::string description() const;
  // nullptr for the program.
  const Command* parent() const { return parent_; }
  const std::vector<std::unique_ptr<Command>>& commands() const { return commands_; }
  // For example, --output and -o, in the order they were added; long names before short ones.
  std::vector<std::string> OptionNames() const;
  std::vector<std::string> PositionalNames() const;
  // Searches this command and its parents.
  absl::optional<Option> FindOption(const std::string& name) const;

  // The full command, for example `ptoctl runs submit`.
  std::string Path() const;
  std::string Help() const;

  // Parses a command line (without the program name) and sets the option values. Call it once, on
  // the program.
  Reading Parse(const std::vector<std::string>& args);

 private:
  Command(Command* parent, CLI::App* app);

  template <typename T>
  Option AddValue(const std::string& names, T* value, const std::string& description);
  Option AddDuration(const std::string& names, std::function<void(absl::Duration)> set,
                     const std::string& description);
  // The innermost command on the command line.
  const Command& Reached() const;

  // Set for the program only; it owns the CLI::App of every subcommand.
  std::unique_ptr<CLI::App> owned_;
  Command* const parent_;
  CLI::App* const app_;
  const std::string name_;
  std::vector<std::unique_ptr<Command>> commands_;
  std::function<absl::Status()> action_;
};

}  // namespace pto::ptoctl
