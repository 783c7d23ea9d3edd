#include "client/ptoctl/completion_scripts.h"

namespace pto::ptoctl {

const char kBashCompletion[] =
    R"sh(# Bash completion for ptoctl. Written by `ptoctl completion bash`.
_ptoctl() {
  local current="${COMP_WORDS[COMP_CWORD]}" line files="" words=()
  while IFS= read -r line; do
    line=${line%%$'\t'*}
    if [[ $line == :files ]]; then files=1; else words+=("$line"); fi
  done < <("${COMP_WORDS[0]}" completion words -- "${COMP_WORDS[@]:1:COMP_CWORD-1}" 2>/dev/null)
  COMPREPLY=($(compgen -W "${words[*]}" -- "$current"))
  if [[ -n $files && $current != -* ]]; then
    compopt -o filenames
    COMPREPLY+=($(compgen -f -- "$current"))
  fi
}
complete -F _ptoctl ptoctl
)sh";

const char kZshCompletion[] = R"sh(#compdef ptoctl
# Zsh completion for ptoctl. Written by `ptoctl completion zsh`.
_ptoctl() {
  local line word files=0
  local -a candidates
  while IFS= read -r line; do
    word=${line%%$'\t'*}
    if [[ $word == :files ]]; then
      files=1
    elif [[ $line == *$'\t'* ]]; then
      candidates+=("${word//:/\\:}:${line#*$'\t'}")
    else
      candidates+=("${word//:/\\:}")
    fi
  done < <("${words[1]}" completion words -- "${(@)words[2,CURRENT-1]}" 2>/dev/null)
  _describe ptoctl candidates
  if (( files )); then _files; fi
}
# zsh runs this file as the function, or a user sources it.
if [[ ${funcstack[1]} == _ptoctl ]]; then _ptoctl "$@"; else compdef _ptoctl ptoctl; fi
)sh";

const char kFishCompletion[] =
    R"sh(# Fish completion for ptoctl. Written by `ptoctl completion fish`.
function __ptoctl_words
    set -l words (commandline --tokenize --cut-at-cursor --current-process)
    $words[1] completion words -- $words[2..-1] 2>/dev/null
end
complete --command ptoctl --no-files --arguments '(__ptoctl_words | string match --invert :files)'
complete --command ptoctl --condition '__ptoctl_words | string match --quiet :files' --force-files
)sh";

}  // namespace pto::ptoctl
