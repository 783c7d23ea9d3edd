#include "tests/harness/doomed_client.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <new>
#include <random>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "tests/harness/doomed_life.h"

namespace pto::testing {
namespace {

constexpr char kFlag[] = "--doomed-clients=";
// A client that is not killed in time hangs.
constexpr absl::Duration kPatience = absl::Seconds(60);
constexpr absl::Duration kStep = absl::Microseconds(500);

struct Child {
  pid_t pid = 0;
  absl::Time kill_at;
};

// A counter that all children increment, and that survives them.
std::atomic<uint64_t>* SharedNumber() {
  void* const memory = mmap(nullptr, sizeof(std::atomic<uint64_t>), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : new (memory) std::atomic<uint64_t>(0);
}

Child Start(const DoomedClients& clients, uint64_t seed, std::mt19937_64& random,
            std::atomic<uint64_t>& steps) {
  Child child;
  child.kill_at =
      absl::Now() + clients.longest * std::uniform_real_distribution<double>(0, 1)(random);
  const pid_t parent = getpid();
  child.pid = fork();
  if (child.pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    LiveUntilKilled(clients.address, seed, clients.ttl, steps);
  }
  return child;
}

// Whether it ended as expected.
bool Check(int status) {
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) return true;
  std::fprintf(stderr, "a client ended by itself: wait status %d\n", status);
  return false;
}

int KillAll(const DoomedClients& clients) {
  std::mt19937_64 random(clients.seed);
  std::atomic<uint64_t>* const steps = SharedNumber();
  if (steps == nullptr) return 1;
  std::vector<Child> children;
  int started = 0;
  int bad = 0;
  while (started < clients.kills || !children.empty()) {
    while (started < clients.kills && static_cast<int>(children.size()) < clients.at_once) {
      const Child child = Start(clients, random(), random, *steps);
      if (child.pid < 0) {
        std::perror("fork");
        return 1;
      }
      children.push_back(child);
      ++started;
    }
    for (size_t i = 0; i < children.size();) {
      int status = 0;
      if (absl::Now() >= children[i].kill_at) kill(children[i].pid, SIGKILL);
      const pid_t ended = waitpid(children[i].pid, &status, WNOHANG);
      if (ended == 0 && absl::Now() < children[i].kill_at + kPatience) {
        ++i;
        continue;
      }
      bad += ended == children[i].pid && Check(status) ? 0 : 1;
      children[i] = children.back();
      children.pop_back();
    }
    absl::SleepFor(kStep);
  }
  std::printf("%llu\n", static_cast<unsigned long long>(steps->load()));
  return bad == 0 ? 0 : 1;
}

}  // namespace

std::vector<std::string> CommandOf(const DoomedClients& clients) {
  return {"/proc/self/exe",
          absl::StrCat(kFlag, clients.seed, ",", clients.kills, ",", clients.at_once, ",",
                       absl::FormatDuration(clients.ttl), ",",
                       absl::FormatDuration(clients.longest), ",", clients.address)};
}

absl::optional<int> MaybeKillClients(int argc, char** argv) {
  if (argc != 2) return absl::nullopt;
  absl::string_view argument = argv[1];
  if (!absl::ConsumePrefix(&argument, kFlag)) return absl::nullopt;
  const std::vector<std::string> parts = absl::StrSplit(argument, absl::MaxSplits(',', 5));
  DoomedClients clients;
  if (parts.size() != 6 || !absl::SimpleAtoi(parts[0], &clients.seed) ||
      !absl::SimpleAtoi(parts[1], &clients.kills) ||
      !absl::SimpleAtoi(parts[2], &clients.at_once) ||
      !absl::ParseDuration(parts[3], &clients.ttl) ||
      !absl::ParseDuration(parts[4], &clients.longest)) {
    std::fprintf(stderr, "%s makes no sense\n", argv[1]);
    return 2;
  }
  clients.address = parts[5];
  return KillAll(clients);
}

}  // namespace pto::testing
