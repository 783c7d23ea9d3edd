#include "client/testing/fake_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <utility>

extern char** environ;

namespace pto::testing {
namespace {

// The path of the program, relative to the working directory of tests.
constexpr const char* kProgram = "client/testing/fake_daemon_main";

}  // namespace

FakeProcess::FakeProcess(const std::string& address, const std::string& boot_id) {
  int input[2];
  int output[2];
  if (pipe2(input, O_CLOEXEC) != 0 || pipe2(output, O_CLOEXEC) != 0) return;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output[1], STDOUT_FILENO);
  std::string program = kProgram;
  std::string address_arg = address;
  std::string boot_arg = boot_id;
  char* const argv[] = {program.data(), address_arg.data(), boot_arg.data(), nullptr};
  const int failed = posix_spawn(&pid_, kProgram, &actions, nullptr, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  close(input[0]);
  close(output[1]);
  input_ = input[1];
  if (failed != 0) pid_ = -1;
  char ready = 0;
  while (read(output[0], &ready, 1) == 1 && ready != '\n') {
  }
  if (ready != '\n') Kill();
  close(output[0]);
}

FakeProcess::~FakeProcess() {
  Kill();
  if (input_ >= 0) close(input_);
}

void FakeProcess::Freeze() {
  kill(pid_, SIGSTOP);
  // Waits until it has really stopped.
  int status = 0;
  waitpid(pid_, &status, WUNTRACED);
}

void FakeProcess::Thaw() { kill(pid_, SIGCONT); }

void FakeProcess::Kill() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  waitpid(std::exchange(pid_, -1), nullptr, 0);
}

}  // namespace pto::testing
