#include "client/ptoctl/bash_completion.h"

#include <algorithm>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/base/reason.h"

namespace pto::ptoctl {
namespace {

bool Takes(const Command& command, const std::string& positional) {
  const std::vector<std::string> names = command.PositionalNames();
  return std::find(names.begin(), names.end(), positional) != names.end();
}

std::vector<std::string> Words(const Command& command, const Command& root) {
  std::vector<std::string> words;
  for (const auto& below : command.commands()) words.push_back(below->name());
  // Global options are understood after every command.
  std::set<std::string> options;
  for (const Command* from : {&command, &root}) {
    for (const std::string& name : from->OptionNames()) options.insert(name);
  }
  words.insert(words.end(), options.begin(), options.end());
  if (Takes(command, "REASON")) {
    for (const Reason* reason : AllReasons()) words.emplace_back(reason->name);
  }
  return words;
}

struct Cases {
  std::string descend;
  std::string complete;
};

void Collect(const Command& command, const Command& root, const std::string& path, Cases* cases) {
  absl::StrAppend(&cases->complete, "    \"", path, "\") words=\"",
                  absl::StrJoin(Words(command, root), " "), "\"",
                  Takes(command, "FILE") ? "; files=1" : "", " ;;\n");
  for (const auto& below : command.commands()) {
    const std::string longer = absl::StrCat(path, " ", below->name());
    absl::StrAppend(&cases->descend, cases->descend.empty() ? "" : " | ", "\"", longer, "\"");
    Collect(*below, root, longer, cases);
  }
}

}  // namespace

std::string BashCompletion(const Command& root) {
  Cases cases;
  Collect(root, root, "", &cases);
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
