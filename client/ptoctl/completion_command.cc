#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "client/ptoctl/app.h"
#include "client/ptoctl/commands.h"
#include "client/ptoctl/completion_scripts.h"
#include "client/ptoctl/completion_words.h"

namespace pto::ptoctl {
namespace {

// Options that say which daemon to ask for names, as they stand on the line.
std::vector<std::string> TargetOptions(const std::vector<std::string>& words) {
  std::vector<std::string> options;
  for (size_t i = 0; i < words.size(); ++i) {
    for (const char* name : {"--address", "--context", "--tls-ca", "--tls-cert", "--tls-key",
                             "--tls-server-name", "--token-file"}) {
      if (words[i] == name && i + 1 < words.size()) {
        options.insert(options.end(), {words[i], words[i + 1]});
      } else if (words[i].rfind(std::string(name) + "=", 0) == 0) {
        options.push_back(words[i]);
      }
    }
  }
  return options;
}

// What `ptoctl NOUN ls -q` prints; nothing without a daemon. Whoever presses Tab waits for it.
std::vector<std::string> NamesOf(const std::string& noun, const std::vector<std::string>& words) {
  std::vector<std::string> args = {noun, "ls", "-q", "--timeout", "1s"};
  const std::vector<std::string> target = TargetOptions(words);
  args.insert(args.end(), target.begin(), target.end());
  std::ostringstream out, err;
  if (Main(args, out, err, false) != 0) return {};
  return absl::StrSplit(out.str(), '\n', absl::SkipEmpty());
}

absl::Status PrintNextWords(const Command& root, const std::vector<std::string>& words,
                            Context& context) {
  const auto names = [&](const std::string& noun) { return NamesOf(noun, words); };
  for (const CompletionWord& next : NextWords(root, words, names)) {
    context.out << next.word;
    if (!next.description.empty()) context.out << '\t' << next.description;
    context.out << '\n';
  }
  return absl::OkStatus();
}

void AddScript(Command& completion, const std::string& shell, const char* script,
               const std::string& examples, Context& context) {
  completion.AddCommand(shell, "Print a completion script for " + shell)
      .Footer("Examples:\n" + examples)
      .Action([script, &context] {
        context.out << script;
        return absl::OkStatus();
      });
}

}  // namespace

void AddCompletionCommand(Command& root, Context& context) {
  Command& completion = root.AddCommand("completion", "Generate shell completion scripts");
  AddScript(completion, "bash", kBashCompletion,
            "  source <(ptoctl completion bash)\n"
            "  ptoctl completion bash > /etc/bash_completion.d/ptoctl",
            context);
  AddScript(completion, "zsh", kZshCompletion,
            "  source <(ptoctl completion zsh)\n"
            "  ptoctl completion zsh > \"${fpath[1]}/_ptoctl\"",
            context);
  AddScript(completion, "fish", kFishCompletion,
            "  ptoctl completion fish | source\n"
            "  ptoctl completion fish > ~/.config/fish/completions/ptoctl.fish",
            context);

  const auto words = std::make_shared<std::vector<std::string>>();
  Command& next = completion.AddCommand("words", "Print the words that may follow a command line");
  next.AddOption("WORD", words.get(), "Words after `ptoctl`, behind --");
  next.Footer(
          "The completion scripts use it. One word per line, and a description behind a tab; "
          ":files\n"
          "stands for all files. Names of resources come from the daemon, if it answers within a\n"
          "second.\n\n"
          "Examples:\n  ptoctl completion words -- runs get")
      .Action([&root, &context, words] { return PrintNextWords(root, *words, context); });
}

}  // namespace pto::ptoctl
