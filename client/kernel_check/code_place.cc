#include "client/kernel_check/code_place.h"

#include <cxxabi.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/kernel_check/checked_kernel.h"

extern char** environ;

namespace pto::kernel_check {
namespace {

constexpr size_t kMaxOutput = 4096;

// What a program prints; empty if it fails or does not exist.
std::string OutputOf(const std::vector<std::string>& words) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return "";
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t child = 0;
  const int failed =
      posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  std::string output;
  if (failed == 0) {
    char buffer[512];
    ssize_t count = 0;
    while (output.size() < kMaxOutput && (count = read(ends[0], buffer, sizeof buffer)) > 0) {
      output.append(buffer, static_cast<size_t>(count));
    }
  }
  close(ends[0]);
  int status = 0;
  if (failed != 0 || waitpid(child, &status, 0) != child || status != 0) return "";
  return output;
}

std::string Demangled(const std::string& symbol) {
  int status = 0;
  char* const text = abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status);
  const std::string name = status == 0 && text != nullptr ? text : symbol;
  std::free(text);
  return name;
}

// Of a text in shared memory, which need not end.
template <size_t kBytes>
std::string Bounded(const char (&text)[kBytes]) {
  return std::string(text, strnlen(text, kBytes));
}

}  // namespace

std::string PlaceOfCrash(const std::string& file, const CrashRecord& record) {
  const std::string name = BaseName(file);
  const uint32_t count =
      std::min<uint32_t>(record.frame_count, static_cast<uint32_t>(CrashRecord::kMaxFrames));
  for (uint32_t i = 0; i < count; ++i) {
    const CrashRecord::Frame& frame = record.frames[i];
    if (Bounded(frame.object) != name) continue;
    const std::string offset = absl::StrCat("0x", absl::Hex(frame.offset));
    // Function and place of the innermost function that was inlined there come first.
    const std::vector<std::string> lines =
        absl::StrSplit(OutputOf({"addr2line", "-Cfi", "-e", file, offset}), '\n');
    // The author wants to see the kernel, not the view class that it uses.
    for (size_t line = 0; line + 1 < lines.size(); line += 2) {
      const std::string where = BaseName(lines[line + 1]);
      if (where.empty() || where[0] == '?') break;
      if (where.find("pto_kernel_cpp.h") != std::string::npos && line + 3 < lines.size()) continue;
      return absl::StrCat(lines[line], " at ", where.substr(0, where.find(' ')));
    }
    const std::string symbol = Demangled(Bounded(frame.symbol));
    return absl::StrCat(symbol.empty() ? "code" : symbol, " at ", offset, " of ", name);
  }
  return "";
}

}  // namespace pto::kernel_check
