// Each restriction is tried in a process of its own, before and after it is in force: an attempt
// that fails anyway would show nothing.

#include "runtime/host/sandbox.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>

namespace pto::host {
namespace {

// Both return whether the attempt succeeded, in a child.
enum class Result { kDone, kRefused, kDied };

Result InChild(const std::function<bool()>& run) {
  const pid_t child = fork();
  if (child == 0) {
    // Descriptors as a host has them.
    for (int i = 3; i <= 5; ++i) dup2(0, i);
    _exit(run() ? 10 : 11);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (!WIFEXITED(status)) return Result::kDied;
  return WEXITSTATUS(status) == 10 ? Result::kDone : Result::kRefused;
}

bool Provided(const SandboxReport& report, const std::string& name) {
  for (uint32_t i = 0; i < report.count; ++i) {
    if (name == report.items[i].name) return report.items[i].provided != 0;
  }
  ADD_FAILURE() << "no restriction " << name;
  return false;
}

struct Attempt {
  const char* name;
  const char* restriction;
  std::function<bool()> run;
};

SandboxLimits Limits() {
  SandboxLimits limits;
  limits.data_bytes = uint64_t{256} << 20;
  limits.address_bytes = uint64_t{4} << 30;
  limits.file_bytes = uint64_t{1} << 20;
  limits.files = 32;
  return limits;
}

class SandboxTest : public ::testing::TestWithParam<Attempt> {};

TEST_P(SandboxTest, IsRefused) {
  const Attempt& attempt = GetParam();
  EXPECT_EQ(InChild(attempt.run), Result::kDone) << "it must succeed without the sandbox";
  const Result result = InChild([&] {
    const SandboxReport report = ApplySandbox(Limits());
    // The machine of the test provides all.
    if (!Provided(report, attempt.restriction)) return true;
    return attempt.run();
  });
  EXPECT_EQ(result, Result::kRefused);
}

bool Writes(int file, size_t bytes) {
  const std::string block(65536, 'x');
  for (size_t done = 0; done < bytes; done += block.size()) {
    if (write(file, block.data(), block.size()) != static_cast<ssize_t>(block.size())) return false;
  }
  return true;
}

std::string Name(const ::testing::TestParamInfo<Attempt>& info) { return info.param.name; }

const Attempt kAttempts[] = {
    {"Socket", "network", [] { return socket(AF_INET, SOCK_STREAM, 0) >= 0; }},
    {"UnixSocket", "network", [] { return socket(AF_UNIX, SOCK_STREAM, 0) >= 0; }},
    {"Socketpair", "network",
     [] {
       int pair[2];
       return socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0;
     }},
    {"Fork", "processes",
     [] {
       const pid_t child = fork();
       if (child == 0) _exit(0);
       return child > 0;
     }},
    {"CloneThree", "processes",
     [] {
       // The size of the first version; the fields are flags, …, exit_signal at the fifth place.
       uint64_t arguments[8] = {0, 0, 0, 0, SIGCHLD, 0, 0, 0};
       const int64_t child = syscall(SYS_clone3, arguments, sizeof arguments);
       if (child == 0) _exit(0);
       return child > 0;
     }},
    {"Exec", "processes",
     [] {
       execl("/bin/sh", "sh", "-c", "exit 10", nullptr);
       return false;
     }},
    {"Kill", "system_calls", [] { return kill(getppid(), 0) == 0; }},
    {"SignalsThroughAPipe", "system_calls",
     [] {
       int ends[2];
       return pipe(ends) == 0 && fcntl(ends[0], F_SETOWN, getppid()) == 0;
     }},
    {"PinTheDaemon", "system_calls",
     [] {
       cpu_set_t all;
       sched_getaffinity(0, sizeof all, &all);
       return sched_setaffinity(getppid(), sizeof all, &all) == 0;
     }},
    {"Ptrace", "system_calls", [] { return ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) == 0; }},
    {"NewNamespace", "system_calls", [] { return unshare(CLONE_FILES | CLONE_NEWNS) == 0; }},
    {"SharedMemoryWithoutFile", "system_calls",
     [] {
       return mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0) !=
              MAP_FAILED;
     }},
    {"Undo", "system_calls", [] { return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0; }},
    {"RaiseLimit", "system_calls",
     [] {
       rlimit limit = {};
       getrlimit(RLIMIT_NOFILE, &limit);
       limit.rlim_cur = limit.rlim_max;
       return setrlimit(RLIMIT_NOFILE, &limit) == 0;
     }},
    {"CloseLifeline", "descriptors", [] { return close(3) == 0; }},
    {"CloseDoorbell", "descriptors", [] { return close(5) == 0; }},
    {"CloseByALargerNumber", "descriptors",
     [] { return syscall(SYS_close, (int64_t{1} << 32) + 3) == 0; }},
    {"CloseAll", "descriptors", [] { return syscall(SYS_close_range, 0, ~0U, 0) == 0; }},
    {"ReplaceLifeline", "descriptors", [] { return dup2(0, 3) == 3; }},
    {"ReadFile", "file_system", [] { return open("/etc/passwd", O_RDONLY) >= 0; }},
    {"ReadOwnStatus", "file_system", [] { return open("/proc/self/status", O_RDONLY) >= 0; }},
    {"CreateFile", "file_system",
     [] {
       char name[] = "/tmp/ptod-sandbox-XXXXXX";
       const int file = mkstemp(name);
       if (file >= 0) unlink(name);
       return file >= 0;
     }},
    {"SharedMemoryFolder", "file_system",
     [] {
       const int file = open("/dev/shm/ptod-sandbox-test", O_RDWR | O_CREAT, 0600);
       if (file >= 0) unlink("/dev/shm/ptod-sandbox-test");
       return file >= 0;
     }},
    {"MuchMemory", "resources",
     [] {
       return mmap(nullptr, size_t{300} << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                   -1, 0) != MAP_FAILED;
     }},
    {"MuchAddressSpace", "resources",
     [] {
       return mmap(nullptr, size_t{5} << 30, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0) != MAP_FAILED;
     }},
    {"LargeFile", "resources",
     [] {
       signal(SIGXFSZ, SIG_IGN);
       return Writes(memfd_create("large", 0), size_t{2} << 20);
     }},
    {"ManyFiles", "resources",
     [] {
       for (int i = 0; i < 64; ++i) {
         if (dup(0) < 0) return false;
       }
       return true;
     }},
};

INSTANTIATE_TEST_SUITE_P(All, SandboxTest, ::testing::ValuesIn(kAttempts), Name);

TEST(SandboxAllowedTest, ComputingGoesOn) {
  const Result result = InChild([] {
    ApplySandbox(Limits());
    bool ran = false;
    std::thread([&] { ran = true; }).join();
    void* const memory = malloc(10 << 20);
    std::memset(memory, 1, 10 << 20);
    free(memory);
    // A library of the system, as a kernel may need one.
    void* const library = dlopen("libm.so.6", RTLD_NOW);
    const int own = memfd_create("object", MFD_CLOEXEC);
    return ran && library != nullptr && own > 5 && Writes(own, 65536) && close(own) == 0;
  });
  EXPECT_EQ(result, Result::kDone);
}

TEST(SandboxAllowedTest, NothingGainsPrivileges) {
  const Result result = InChild([] {
    if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 0) return false;
    const SandboxReport report = ApplySandbox(Limits());
    // The call that would tell is forbidden now.
    return Provided(report, "no_new_privileges");
  });
  EXPECT_EQ(result, Result::kDone);
}

TEST(SandboxAllowedTest, WhatIsSwitchedOffIsReported) {
  const Result result = InChild([] {
    SandboxLimits limits = Limits();
    limits.system_calls = 0;
    limits.file_system = 0;
    const SandboxReport report = ApplySandbox(limits);
    return !Provided(report, "system_calls") && !Provided(report, "network") &&
           !Provided(report, "file_system") && Provided(report, "resources");
  });
  EXPECT_EQ(result, Result::kDone);
}

}  // namespace
}  // namespace pto::host
