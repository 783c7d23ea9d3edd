#include "client/ptoctl/bash_completion.h"

#include <set>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/base/reason.h"

namespace pto::ptoctl {
namespace {

std::vector<std::string> Words(const CLI::App& app, const CLI::App& root) {
  std::vector<std::string> words;
  for (const CLI::App* sub : app.get_subcommands({})) words.push_back(sub->get_name());
  // Global options are understood after every command.
  std::set<std::string> options;
  for (const CLI::App* from : {&app, &root}) {
    for (const CLI::Option* option : from->get_options({})) {
      for (const std::string& name : option->get_lnames()) options.insert("--" + name);
      for (const std::string& name : option->get_snames()) options.insert("-" + name);
    }
  }
  words.insert(words.end(), options.begin(), options.end());
  for (const CLI::Option* option : app.get_options({})) {
    if (!option->get_positional() || option->get_name() != "REASON") continue;
    for (const Reason* reason : AllReasons()) words.emplace_back(reason->name);
  }
  return words;
}

bool TakesFile(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options({})) {
    if (option->get_positional() && option->get_name() == "FILE") return true;
  }
  return false;
}

struct Cases {
  std::string descend;
  std::string complete;
};

void Collect(const CLI::App& app, const CLI::App& root, const std::string& path, Cases* cases) {
  absl::StrAppend(&cases->complete, "    \"", path, "\") words=\"",
                  absl::StrJoin(Words(app, root), " "), "\"", TakesFile(app) ? "; files=1" : "",
                  " ;;\n");
  for (const CLI::App* sub : app.get_subcommands({})) {
    const std::string below = absl::StrCat(path, " ", sub->get_name());
    absl::StrAppend(&cases->descend, cases->descend.empty() ? "" : " | ", "\"", below, "\"");
    Collect(*sub, root, below, cases);
  }
}

}  // namespace

std::string BashCompletion(const CLI::App& app) {
  Cases cases;
  Collect(app, app, "", &cases);
  return absl::StrCat(R"(# Completion of ptoctl for bash. Made by `ptoctl completion bash`.
_ptoctl() {
  local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}"
  local path="" word words="" files=""
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "$path $word" in
      )",
                      cases.descend, R"() path="$path $word" ;;
    esac
  done
  case "$previous" in
    -o | --output) COMPREPLY=($(compgen -W "table json" -- "$current")); return ;;
    --out) compopt -o nospace; COMPREPLY=(); return ;;
  esac
  case "$path" in
)",
                      cases.complete, R"(  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  if [[ -n "$files" && "$current" != -* ]]; then
    compopt -o filenames
    COMPREPLY=($(compgen -f -- "$current"))
  fi
}
complete -F _ptoctl ptoctl
)");
}

}  // namespace pto::ptoctl
