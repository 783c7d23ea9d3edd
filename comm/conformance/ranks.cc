#include "comm/conformance/ranks.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <random>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace pto::comm {
namespace {

constexpr int kWatchdogMillis = 120'000;

class SharedBoard {
 public:
  SharedBoard()
      : board_(static_cast<Blackboard*>(mmap(nullptr, sizeof(Blackboard), PROT_READ | PROT_WRITE,
                                             MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}
  ~SharedBoard() { munmap(board_, sizeof(Blackboard)); }
  Blackboard& get() { return *board_; }

 private:
  Blackboard* const board_;
};

void RunThreads(const Backend& backend, uint32_t size, const std::function<void(Rank&)>& body,
                const std::string& job, Blackboard& board) {
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < size; ++i) {
    threads.emplace_back([&, i] {
      Rank rank(backend, job, i, size, board);
      body(rank);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Runs a rank's process; never returns.
[[noreturn]] void BeRank(const Backend& backend, uint32_t index, uint32_t size,
                         const std::function<void(Rank&)>& body, const std::string& job,
                         Blackboard& board) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  {
    Rank rank(backend, job, index, size, board);
    body(rank);
  }
  std::fflush(nullptr);
  _exit(testing::Test::HasFailure() ? 1 : 0);
}

// Waits until a process ends; kills it when the watchdog expires.
int Reap(pid_t pid, int64_t until) {
  const int fd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  pollfd entry{.fd = fd, .events = POLLIN, .revents = 0};
  const int64_t left = std::max<int64_t>(0, until - pto_comm_deadline_after(0)) / 1'000'000;
  if (poll(&entry, 1, static_cast<int>(left)) == 0) {
    ADD_FAILURE() << "a rank hangs";
    kill(pid, SIGKILL);
  }
  close(fd);
  int status = 0;
  waitpid(pid, &status, 0);
  return status;
}

void RunProcesses(const Backend& backend, uint32_t size, const std::function<void(Rank&)>& body,
                  const std::vector<uint32_t>& victims, const std::string& job, Blackboard& board) {
  std::fflush(nullptr);
  std::vector<pid_t> pids;
  for (uint32_t i = 0; i < size; ++i) {
    const pid_t pid = fork();
    if (pid == 0) BeRank(backend, i, size, body, job, board);
    pids.push_back(pid);
  }
  const int64_t until = pto_comm_deadline_after(int64_t{kWatchdogMillis} * 1'000'000);
  for (uint32_t i = 0; i < size; ++i) {
    const int status = Reap(pids[i], until);
    const bool victim = std::count(victims.begin(), victims.end(), i) > 0;
    if (victim) {
      EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "rank " << i;
    } else {
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
          << "rank " << i << " ended with status " << status;
    }
  }
}

}  // namespace

const char* Backend::label() const {
  if (absl::string_view(name) == "local") return "Local";
  return processes ? "ShmProcesses" : "ShmThreads";
}

Rank::Rank(const Backend& backend, std::string job, uint32_t rank, uint32_t size, Blackboard& board)
    : backend_(backend), job_(std::move(job)), rank_(rank), size_(size), board_(board) {}

Rank::~Rank() {
  if (comm_ != nullptr) {
    EXPECT_EQ(pto_comm_destroy(comm_), PTO_COMM_OK);
  }
}

pto_comm_options Rank::Options(int64_t nanos) const {
  pto_comm_options options{};
  options.struct_size = sizeof(options);
  options.rank = rank_;
  options.size = size_;
  options.backend = backend_.name;
  options.name = job_.c_str();
  options.generation = 7;
  options.deadline_ns = pto_comm_deadline_after(nanos);
  return options;
}

pto_comm* Rank::Join() {
  const pto_comm_options options = Options();
  EXPECT_EQ(pto_comm_init(&options, &comm_), PTO_COMM_OK) << ThreadError();
  return comm_;
}

pto_comm_window* Rank::MakeWindow(uint64_t id, uint64_t bytes, uint32_t signals,
                                  const std::vector<uint32_t>& ranks) {
  pto_comm_window_options options{};
  options.struct_size = sizeof(options);
  options.rank_count = static_cast<uint32_t>(ranks.size());
  options.ranks = ranks.data();
  options.id = id;
  options.bytes = bytes;
  options.signal_count = signals;
  // The minimum, so that collectives need many pieces.
  options.scratch_bytes = 1;
  pto_comm_window* window = nullptr;
  EXPECT_EQ(pto_comm_window_create(comm_, &options, pto_comm_deadline_after(kLong), &window),
            PTO_COMM_OK)
      << Error();
  return window;
}

std::string Rank::Error() const {
  char text[512];
  pto_comm_error(comm_, text, sizeof(text));
  return text;
}

std::string ThreadError() {
  char text[512];
  pto_comm_error(nullptr, text, sizeof(text));
  return text;
}

std::string UniqueJob() {
  static std::atomic<int> count{0};
  // Process ids restart in a sandbox, and leftovers of a killed test must not be found.
  static const unsigned int chance = std::random_device()();
  return absl::StrCat("test-", getpid(), "-", chance, "-", count++);
}

void RunRanks(const Backend& backend, uint32_t size, const std::function<void(Rank&)>& body,
              const std::vector<uint32_t>& victims, const std::string& job) {
  SharedBoard board;
  if (backend.processes) {
    RunProcesses(backend, size, body, victims, job, board.get());
  } else {
    RunThreads(backend, size, body, job, board.get());
  }
}

void KillWhenAsleep() {
  const std::string path = absl::StrCat("/proc/self/task/", gettid(), "/syscall");
  std::thread([path] {
    const std::string sleeping = absl::StrCat(SYS_futex, " ");
    while (true) {
      char text[64] = {};
      const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
      if (read(fd, text, sizeof(text) - 1) < 0) std::perror("syscall of a thread");
      close(fd);
      if (absl::StartsWith(text, sleeping)) kill(getpid(), SIGKILL);
      sched_yield();
    }
  }).detach();
}

}  // namespace pto::comm
