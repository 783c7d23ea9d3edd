#include <dirent.h>
#include <gmock/gmock.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "comm/collectives.h"
#include "comm/conformance/ranks.h"

// A rank is killed, and all others learn which one, long before their deadline.
namespace pto::comm {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

// Rank 1, alone or among ranks that have left because of it.
constexpr char kNamesVictim[] = "ranks? ([02](,| and) )*1[^0-9]";

constexpr Backend kShm = {.name = "shm", .processes = true};
constexpr uint32_t kVictim = 1;
// Far below the deadlines of the calls.
constexpr int64_t kPrompt = 10 * kSecond;

[[noreturn]] void Die() {
  kill(getpid(), SIGKILL);
  while (true) pause();
}

int64_t Soon() { return pto_comm_deadline_after(kLong); }

// Runs three ranks. `victim` must not return; `survivor` returns the status of a call that must
// fail in time because of the victim.
void ExpectNoticed(const std::function<void(Rank&)>& victim,
                   const std::function<int(Rank&)>& survivor) {
  RunRanks(kShm, 3,
           [&](Rank& rank) {
             if (rank.rank() == kVictim) {
               victim(rank);
               ADD_FAILURE() << "the victim lives";
               return;
             }
             const int64_t start = pto_comm_deadline_after(0);
             EXPECT_EQ(survivor(rank), PTO_COMM_RANK_LOST) << ThreadError();
             EXPECT_THAT(ThreadError(), ContainsRegex(kNamesVictim));
             EXPECT_LT(pto_comm_deadline_after(0) - start, kPrompt);
           },
           {kVictim});
}

int TryJoin(Rank& rank, int64_t nanos) {
  const pto_comm_options options = rank.Options(nanos);
  pto_comm* comm = nullptr;
  const int status = pto_comm_init(&options, &comm);
  EXPECT_EQ(comm, nullptr);
  return status;
}

TEST(Kill, BeforeItCame) {
  RunRanks(kShm, 3,
           [](Rank& rank) {
             if (rank.rank() == kVictim) Die();
             // No rank has ever seen it, so only the deadline ends the call.
             EXPECT_EQ(TryJoin(rank, kSecond / 10), PTO_COMM_TIMED_OUT);
             EXPECT_THAT(ThreadError(), ContainsRegex(kNamesVictim));
           },
           {kVictim});
}

TEST(Kill, WhileItWaitsForOthersToCome) {
  RunRanks(kShm, 3,
           [](Rank& rank) {
             if (rank.rank() == kVictim) {
               KillWhenAsleep();
               rank.Join();
             } else if (rank.rank() == 0) {
               // Rank 0 joined before the victim died, or finds its remains: rank 2 does not join.
               const int status = TryJoin(rank, kSecond);
               EXPECT_TRUE(status == PTO_COMM_RANK_LOST || status == PTO_COMM_TIMED_OUT);
               EXPECT_THAT(ThreadError(), ContainsRegex(kNamesVictim));
             }
           },
           {kVictim});
}

TEST(Kill, RightAfterItCame) {
  ExpectNoticed(
      [](Rank& rank) {
        rank.Join();
        Die();
      },
      [](Rank& rank) {
        rank.Join();
        return pto_comm_barrier(rank.comm(), Soon());
      });
}

// All three ranks have joined; the victim executes `doom` while the others wait for it.
void ExpectNoticedIn(const std::function<void(Rank&, pto_comm_window*)>& doom,
                     const std::function<int(Rank&, pto_comm_window*)>& survivor) {
  ExpectNoticed(
      [&](Rank& rank) {
        rank.Join();
        doom(rank, rank.MakeWindow(1, 1 << 20, 4));
      },
      [&](Rank& rank) {
        rank.Join();
        return survivor(rank, rank.MakeWindow(1, 1 << 20, 4));
      });
}

int Barrier(Rank&, pto_comm_window* window) { return pto_comm_window_barrier(window, Soon()); }

TEST(Kill, WhileAWindowIsMade) {
  ExpectNoticed(
      [](Rank& rank) {
        rank.Join();
        KillWhenAsleep();
        // Rank 0 never creates this window.
        rank.MakeWindow(1, 64, 0, {0, 1});
      },
      [](Rank& rank) {
        rank.Join();
        const uint32_t ranks[] = {rank.rank(), 1};
        pto_comm_window_options options{};
        options.struct_size = sizeof(options);
        options.id = 100 + rank.rank();
        options.ranks = ranks;
        options.rank_count = 2;
        pto_comm_window* window = nullptr;
        return pto_comm_window_create(rank.comm(), &options, Soon(), &window);
      });
}

TEST(Kill, WhilePutting) {
  ExpectNoticedIn(
      [](Rank& rank, pto_comm_window* window) {
        std::atomic<int64_t>& puts = rank.board().cells[0];
        std::thread([&] {
          while (puts.load() < 50) sched_yield();
          Die();
        }).detach();
        const std::vector<char> bytes(1 << 20, 'x');
        while (true) {
          pto_comm_put(window, 0, 0, bytes.data(), bytes.size());
          puts.fetch_add(1);
        }
      },
      Barrier);
}

TEST(Kill, WhileNotifying) {
  ExpectNoticedIn(
      [](Rank& rank, pto_comm_window* window) {
        std::atomic<int64_t>& count = rank.board().cells[0];
        std::thread([&] {
          while (count.load() < 1000) sched_yield();
          Die();
        }).detach();
        while (true) {
          pto_comm_notify(window, 0, 0, PTO_ADD, 1);
          pto_comm_notify(window, 2, 0, PTO_ADD, 1);
          count.fetch_add(1);
        }
      },
      [](Rank&, pto_comm_window* window) {
        return pto_comm_wait(window, 0, PTO_LT, 0, Soon(), nullptr);
      });
}

TEST(Kill, WhileWaitingForASignal) {
  ExpectNoticedIn(
      [](Rank&, pto_comm_window* window) {
        KillWhenAsleep();
        pto_comm_wait(window, 0, PTO_GE, 1, Soon(), nullptr);
      },
      [](Rank&, pto_comm_window* window) {
        return pto_comm_wait(window, 1, PTO_GE, 1, Soon(), nullptr);
      });
}

TEST(Kill, InABarrier) {
  // The victim was already counted when it died.
  ExpectNoticedIn(
      [](Rank&, pto_comm_window* window) {
        KillWhenAsleep();
        pto_comm_window_barrier(window, Soon());
      },
      [](Rank& rank, pto_comm_window* window) {
        // Rank 2 arrives only after rank 0 has noticed the death.
        if (rank.rank() == 2) {
          while (rank.board().cells[0].load() == 0) sched_yield();
        }
        const int status = pto_comm_window_barrier(window, Soon());
        rank.board().cells[0].store(1);
        return status;
      });
}

// A collective that all ranks call repeatedly; `in` and `out` have room for 3 x `count` floats.
struct CollectiveCase {
  const char* name;
  int (*call)(pto_comm_window* window, float* in, float* out, uint64_t count);
};

const CollectiveCase kCollectives[] = {
    {"AllReduce",
     [](pto_comm_window* window, float* in, float* out, uint64_t count) {
       return pto_comm_all_reduce(window, in, out, count, PTO_F32, PTO_COMM_SUM, Soon());
     }},
    {"BroadcastFromAnother",
     [](pto_comm_window* window, float* in, float*, uint64_t count) {
       return pto_comm_broadcast(window, in, count * sizeof(float), 0, Soon());
     }},
    {"BroadcastFromTheVictim",
     [](pto_comm_window* window, float* in, float*, uint64_t count) {
       return pto_comm_broadcast(window, in, count * sizeof(float), kVictim, Soon());
     }},
    {"AllGather",
     [](pto_comm_window* window, float* in, float* out, uint64_t count) {
       return pto_comm_all_gather(window, in, out, count * sizeof(float), Soon());
     }},
    {"ReduceScatter",
     [](pto_comm_window* window, float* in, float* out, uint64_t count) {
       return pto_comm_reduce_scatter(window, in, out, count, PTO_F32, PTO_COMM_SUM, Soon());
     }},
    {"AllToAll",
     [](pto_comm_window* window, float* in, float* out, uint64_t count) {
       return pto_comm_all_to_all(window, in, out, count * sizeof(float), Soon());
     }},
};

class KillInACollective
    : public testing::TestWithParam<std::tuple<CollectiveCase, uint64_t /*count*/>> {};

TEST_P(KillInACollective, IsNoticed) {
  const auto& [collective, count] = GetParam();
  const auto call = [&](pto_comm_window* window) {
    std::vector<float> in(3 * count), out(3 * count);
    return collective.call(window, in.data(), out.data(), count);
  };
  ExpectNoticedIn(
      [&](Rank& rank, pto_comm_window* window) {
        std::atomic<int64_t>& calls = rank.board().cells[0];
        std::thread([&] {
          while (calls.load() < 20) sched_yield();
          Die();
        }).detach();
        while (true) {
          call(window);
          calls.fetch_add(1);
        }
      },
      [&](Rank&, pto_comm_window* window) {
        int status = PTO_COMM_OK;
        while (status == PTO_COMM_OK) status = call(window);
        return status;
      });
}

// Messages that go along with the call, and messages that take many steps.
INSTANTIATE_TEST_SUITE_P(Kill, KillInACollective,
                         testing::Combine(testing::ValuesIn(kCollectives),
                                          testing::Values(4, 100'000)),
                         [](const auto& info) {
                           return absl::StrCat(std::get<0>(info.param).name, "Of",
                                               std::get<1>(info.param));
                         });

TEST(Kill, WhileLeaving) {
  ExpectNoticed(
      [](Rank& rank) {
        rank.Join();
        rank.MakeWindow(1, 64, 0);
        std::atomic<int64_t>& begun = rank.board().cells[0];
        std::thread([&] {
          while (begun.load() == 0) sched_yield();
          Die();
        }).detach();
        begun.store(1);
        pto_comm_destroy(rank.comm());
        rank.Forget();
        pause();
      },
      [](Rank& rank) {
        rank.Join();
        return Barrier(rank, rank.MakeWindow(1, 64, 0));
      });
}

// Files of the job in /dev/shm.
int CountFiles(absl::string_view job) {
  int count = 0;
  DIR* directory = opendir("/dev/shm");
  while (const dirent* entry = readdir(directory)) {
    if (absl::StrContains(entry->d_name, absl::StrCat("@", job))) ++count;
  }
  closedir(directory);
  return count;
}

// What all ranks do repeatedly, so that kills at different times hit different calls.
int DoEverything(Rank& rank) {
  const pto_comm_options options = rank.Options(2 * kSecond);
  pto_comm* comm = nullptr;
  int status = pto_comm_init(&options, &comm);
  for (uint64_t id = 1; status == PTO_COMM_OK && id < 1000; ++id) {
    pto_comm_window_options made{};
    made.struct_size = sizeof(made);
    made.id = id;
    made.bytes = 4096;
    made.signal_count = 1;
    pto_comm_window* window = nullptr;
    status = pto_comm_window_create(comm, &made, Soon(), &window);
    for (int64_t i = 1; status == PTO_COMM_OK && i < 20; ++i) {
      pto_comm_put(window, (rank.rank() + 1) % 3, 0, &i, 8);
      pto_comm_notify(window, (rank.rank() + 1) % 3, 0, PTO_ADD, 1);
      status = pto_comm_wait(window, 0, PTO_GE, i, Soon(), nullptr);
      int64_t sum = 1;
      if (status == PTO_COMM_OK) {
        status = pto_comm_all_reduce(window, &sum, &sum, 1, PTO_I64, PTO_COMM_SUM, Soon());
      }
      if (status == PTO_COMM_OK) status = pto_comm_window_barrier(window, Soon());
    }
    if (window != nullptr) pto_comm_window_destroy(window);
  }
  if (comm != nullptr) pto_comm_destroy(comm);
  return status;
}

TEST(Kill, AtAnyTime) {
  std::mt19937 random(42);
  const std::string job = UniqueJob();
  for (int round = 0; round < 40; ++round) {
    // From before the first call to deep in the middle.
    const int64_t delay = static_cast<int64_t>(random() % 3000) * 1000;
    RunRanks(
        kShm, 3,
        [&](Rank& rank) {
          if (rank.rank() == kVictim) {
            const int64_t at = pto_comm_deadline_after(delay);
            std::thread([at] {
              while (pto_comm_deadline_after(0) < at) sched_yield();
              Die();
            }).detach();
            DoEverything(rank);
            pause();
          }
          const int64_t start = pto_comm_deadline_after(0);
          const int status = DoEverything(rank);
          if (status == PTO_COMM_TIMED_OUT) {
            EXPECT_THAT(ThreadError(), HasSubstr("did not join in time"));
          } else {
            EXPECT_EQ(status, PTO_COMM_RANK_LOST) << ThreadError();
            EXPECT_LT(pto_comm_deadline_after(0) - start, kPrompt);
          }
          EXPECT_THAT(ThreadError(), ContainsRegex(kNamesVictim));
        },
        {kVictim}, job);
    if (HasFailure()) return;
  }
  // The next job of that name is not disturbed, and cleans up.
  RunRanks(
      kShm, 3,
      [](Rank& rank) {
        rank.Join();
        EXPECT_EQ(pto_comm_barrier(rank.comm(), Soon()), PTO_COMM_OK);
      },
      {}, job);
  EXPECT_EQ(CountFiles(job), 0);
}

// A job left behind by a crash is removed when any other job of the user starts.
TEST(Kill, LeftoversAreSwept) {
  const std::string job = UniqueJob();
  RunRanks(
      kShm, 2,
      [](Rank& rank) {
        rank.Join();
        pto_comm_barrier(rank.comm(), Soon());
        Die();
      },
      {0, 1}, job);
  EXPECT_EQ(CountFiles(job), 1);
  RunRanks(kShm, 1, [](Rank& rank) { rank.Join(); });
  EXPECT_EQ(CountFiles(job), 0);
}

// But not one whose ranks are still alive.
TEST(Kill, TheLivingAreNotSwept) {
  const std::string job = UniqueJob();
  RunRanks(
      kShm, 2,
      [&](Rank& rank) {
        rank.Join();
        pto_comm_barrier(rank.comm(), Soon());
        if (rank.rank() == kVictim) Die();
        EXPECT_EQ(pto_comm_barrier(rank.comm(), Soon()), PTO_COMM_RANK_LOST);
        Rank other(kShm, UniqueJob(), 0, 1, rank.board());
        other.Join();
        EXPECT_EQ(CountFiles(job), 1);
      },
      {kVictim}, job);
  EXPECT_EQ(CountFiles(job), 0);
}

// Waits until a process of this test has died; its parent may not have noticed.
void AwaitDeath(pid_t pid) {
  while (true) {
    std::ifstream file(absl::StrCat("/proc/", pid, "/stat"));
    std::string number, name, state;
    if (!(file >> number >> name >> state) || state == "Z") return;
    sched_yield();
  }
}

// A rank that ends because another one has aborted is not the cause.
TEST(Kill, AnAbortCountsMoreThanTheDeathsThatFollow) {
  RunRanks(kShm, 3,
           [](Rank& rank) {
             rank.Join();
             pto_comm_window* const window = rank.MakeWindow(1, 0, 1);
             if (rank.rank() == 2) {
               pto_comm_abort(rank.comm(), "chip 2 is on fire");
             } else if (rank.rank() == kVictim) {
               rank.board().cells[0].store(getpid());
               pto_comm_wait(window, 0, PTO_GE, 1, Soon(), nullptr);
               Die();
             } else {
               while (rank.board().cells[0].load() == 0) sched_yield();
               AwaitDeath(static_cast<pid_t>(rank.board().cells[0].load()));
               EXPECT_EQ(pto_comm_window_barrier(window, Soon()), PTO_COMM_RANK_LOST);
               EXPECT_THAT(rank.Error(), HasSubstr("aborted: chip 2 is on fire"));
             }
           },
           {kVictim});
}

}  // namespace
}  // namespace pto::comm
