#include "client/ptoctl/command.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "client/ptoctl/duration_text.h"

namespace pto::ptoctl {
namespace {

template <typename T>
std::string RangeText(T first, T last) {
  return absl::StrCat(first, "-", last);
}

// How the help names a value. The name of a positional argument says enough.
std::string ValueName(const std::string& names, absl::string_view name) {
  return absl::StartsWith(names, "-") ? std::string(name) : "";
}

constexpr absl::string_view kNumber = "N";

template <typename T>
constexpr absl::string_view kValueName = kNumber;
template <>
constexpr absl::string_view kValueName<std::string> = "STRING";
template <>
constexpr absl::string_view kValueName<std::vector<std::string>> = "STRING";

}  // namespace

// ---- Option

Option Option::Required() const { return Option(option_->required()); }

Option Option::Range(int first, int last) const {
  return Option(option_->check(CLI::Range(first, last).description(RangeText(first, last))));
}

Option Option::Range(uint64_t first, uint64_t last) const {
  return Option(option_->check(CLI::Range(first, last).description(RangeText(first, last))));
}

Option Option::Positive() const {
  // CLI11's own check prints the full range of a double, with 309 digits, in its error message.
  const auto more_than_zero = [](const std::string& text) {
    double value = 0;
    return CLI::detail::lexical_cast(text, value) && value > 0
               ? std::string()
               : absl::StrCat("expected a number above 0, got '", text, "'");
  };
  return Option(option_->check(more_than_zero, ""));
}

Option Option::OneOf(const std::vector<std::string>& words) const {
  option_->type_name(absl::StrJoin(words, "|"));
  return Option(option_->check(CLI::IsMember(words).description("")));
}

Option Option::Check(std::function<std::string(const std::string&)> validate) const {
  return Option(option_->check(std::move(validate)));
}

Option Option::Repeated() const {
  option_->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  // Otherwise each occurrence also consumes the following words.
  option_->allow_extra_args(false);
  return *this;
}

Option Option::Excludes(const std::vector<std::string>& names) const {
  for (const std::string& name : names) option_->excludes(name);
  return *this;
}

bool Option::TakesValue() const { return option_->get_items_expected_max() > 0; }

std::vector<std::string> Option::Words() const {
  const std::string type = option_->get_type_name();
  if (!absl::StrContains(type, '|')) return {};
  return absl::StrSplit(type, '|');
}

std::string Option::Description() const { return option_->get_description(); }

// ---- Command: definition

Command::Command(const std::string& name, const std::string& description)
    : owned_(std::make_unique<CLI::App>(description, name)),
      parent_(nullptr),
      app_(owned_.get()),
      name_(name) {
  // Subcommands share this formatter.
  app_->get_formatter()->label("Positionals", "Arguments");
  app_->get_formatter()->label("SUBCOMMAND", "COMMAND");
  app_->get_formatter()->label("REQUIRED", "(required)");
  app_->set_help_flag("-h,--help", "Show this help");
}

Command::Command(Command* parent, CLI::App* app)
    : parent_(parent), app_(app), name_(app->get_name()) {}

Command::~Command() = default;

Command& Command::AddCommand(const std::string& name, const std::string& description) {
  CLI::App* const below = app_->add_subcommand(name, description);
  below->fallthrough();
  below->group("Commands");
  // By default a subcommand inherits its parent's footer.
  below->footer("");
  app_->require_subcommand(1);
  commands_.emplace_back(new Command(this, below));
  return *commands_.back();
}

Option Command::AddFlag(const std::string& names, bool* value, const std::string& description) {
  return Option(app_->add_flag(names, *value, description));
}

template <typename T>
Option Command::AddValue(const std::string& names, T* value, const std::string& description) {
  return Option(
      app_->add_option(names, *value, description)->type_name(ValueName(names, kValueName<T>)));
}

Option Command::AddOption(const std::string& names, std::string* value,
                          const std::string& description) {
  return AddValue(names, value, description);
}

Option Command::AddOption(const std::string& names, std::vector<std::string>* values,
                          const std::string& description) {
  return AddValue(names, values, description);
}

Option Command::AddOption(const std::string& names, int* value, const std::string& description) {
  return AddValue(names, value, description);
}

Option Command::AddOption(const std::string& names, int64_t* value,
                          const std::string& description) {
  return AddValue(names, value, description);
}

Option Command::AddOption(const std::string& names, uint32_t* value,
                          const std::string& description) {
  return AddValue(names, value, description);
}

Option Command::AddOption(const std::string& names, uint64_t* value,
                          const std::string& description) {
  return AddValue(names, value, description);
}

Option Command::AddOption(const std::string& names, absl::optional<uint32_t>* value,
                          const std::string& description) {
  const auto set = [value](const uint32_t& given) { *value = given; };
  return Option(app_->add_option_function<uint32_t>(names, set, description)
                    ->type_name(ValueName(names, kNumber)));
}

Option Command::AddOption(const std::string& names, absl::Duration* value,
                          const std::string& description) {
  return AddDuration(names, [value](absl::Duration given) { *value = given; }, description);
}

Option Command::AddOption(const std::string& names, absl::optional<absl::Duration>* value,
                          const std::string& description) {
  return AddDuration(names, [value](absl::Duration given) { *value = given; }, description);
}

Option Command::AddDuration(const std::string& names, std::function<void(absl::Duration)> set,
                            const std::string& description) {
  const auto read = [names, set = std::move(set)](const std::string& text) {
    absl::Duration duration;
    if (!ParseDurationText(text, &duration)) {
      throw CLI::ValidationError(
          names, absl::StrCat("expected a duration such as 30s or 500ms, got '", text, "'"));
    }
    set(duration);
  };
  return Option(
      app_->add_option_function<std::string>(names, read, description)->type_name("DURATION"));
}

Option Command::AddChoice(const std::string& names, const std::map<std::string, int>& words,
                          std::function<void(int)> set, const std::string& description) {
  std::vector<std::pair<int, std::string>> by_number;
  for (const auto& [word, number] : words) by_number.emplace_back(number, word);
  std::sort(by_number.begin(), by_number.end());
  const std::string choices =
      absl::StrJoin(by_number, "|", [](std::string* out, const std::pair<int, std::string>& entry) {
        out->append(entry.second);
      });
  const auto read = [names, choices, by_number, set = std::move(set)](const std::string& text) {
    for (const auto& [number, word] : by_number) {
      if (absl::EqualsIgnoreCase(text, word) || text == absl::StrCat(number)) return set(number);
    }
    throw CLI::ValidationError(names, absl::StrCat("expected ", choices, ", got '", text, "'"));
  };
  return Option(
      app_->add_option_function<std::string>(names, read, description)->type_name(choices));
}

void Command::AddVersion(const std::string& text) {
  app_->set_version_flag("--version", text, "Show the version");
}

Command& Command::Footer(const std::string& text) {
  app_->footer(text);
  return *this;
}

Command& Command::Action(std::function<absl::Status()> action) {
  action_ = std::move(action);
  return *this;
}

// ---- Command: introspection

std::vector<std::string> Command::OptionNames() const {
  std::vector<std::string> names;
  for (const CLI::Option* option : app_->get_options({})) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

std::vector<std::string> Command::PositionalNames() const {
  std::vector<std::string> names;
  for (const CLI::Option* option : app_->get_options({})) {
    if (option->get_positional()) names.push_back(option->get_name());
  }
  return names;
}

absl::optional<Option> Command::FindOption(const std::string& name) const {
  for (const Command* command = this; command != nullptr; command = command->parent_) {
    CLI::Option* const option = command->app_->get_option_no_throw(name);
    if (option != nullptr) return Option(option);
  }
  return absl::nullopt;
}

std::string Command::description() const { return app_->get_description(); }

std::string Command::Path() const {
  return parent_ == nullptr ? name_ : absl::StrCat(parent_->Path(), " ", name_);
}

std::string Command::Help() const { return app_->help(parent_ == nullptr ? "" : parent_->Path()); }

// ---- Command: parsing

const Command& Command::Reached() const {
  for (const std::unique_ptr<Command>& command : commands_) {
    if (command->app_->parsed()) return command->Reached();
  }
  return *this;
}

// CLI11 reports errors as exceptions; none leaves this function.
Command::Reading Command::Parse(const std::vector<std::string>& args) {
  try {
    // CLI11 expects the arguments in reverse order.
    std::vector<std::string> reversed(args.rbegin(), args.rend());
    app_->parse(reversed);
  } catch (const CLI::Success& question) {
    std::ostringstream answer, no_error;
    app_->exit(question, answer, no_error);
    return {Reading::kQuestion, answer.str()};
  } catch (const CLI::RequiredError& missing) {
    return {Reading::kNotComplete, missing.what()};
  } catch (const CLI::Error& error) {
    return {Reading::kNotUnderstood, error.what()};
  }
  return {Reading::kAction, "", Reached().action_};
}

}  // namespace pto::ptoctl
