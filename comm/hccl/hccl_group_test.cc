// Communicators of the fake between real processes: this program starts itself once for each rank.

#include "comm/hccl/hccl_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "runtime/base/error.h"
#include "runtime/chip/ascend/cann/loader.h"

extern char** environ;

namespace pto::comm {
namespace {

using ::testing::HasSubstr;

// ---- one rank

struct Rank {
  uint32_t rank = 0;
  uint32_t size = 0;
  std::string folder;
  std::string mode;
};

// What the daemon does: hands the bytes of rank 0 to the others.
bool Relay(const Rank& rank, const cann::Functions& cann, cann::HcclRoot* root) {
  const std::string path = rank.folder + "/root";
  if (rank.rank == 0) {
    const absl::StatusOr<cann::HcclRoot> made = HcclGroup::MakeRoot(cann);
    if (!made.ok()) return false;
    *root = *made;
    std::ofstream(path + ".new", std::ios::binary)
        .write(reinterpret_cast<const char*>(root), sizeof *root);
    return rename((path + ".new").c_str(), path.c_str()) == 0;
  }
  while (access(path.c_str(), R_OK) != 0) std::this_thread::yield();
  std::ifstream(path, std::ios::binary).read(reinterpret_cast<char*>(root), sizeof *root);
  return true;
}

class RankProgram {
 public:
  explicit RankProgram(Rank rank) : rank_(std::move(rank)) {}

  // What went wrong; empty: nothing.
  std::string Run() {
    cann::SearchInput input;
    input.explicit_path = std::getenv("LD_LIBRARY_PATH");
    const absl::StatusOr<cann::Cann> loaded = cann::LoadCann(cann::FindCann(input));
    if (!loaded.ok()) return std::string(loaded.status().message());
    cann_ = loaded->functions;
    if (cann_.aclInit(nullptr) != 0) return "aclInit";
    if (cann_.aclrtSetDevice(static_cast<int32_t>(rank_.rank)) != 0) return "aclrtSetDevice";
    if (cann_.aclrtCreateStream(&stream_) != 0) return "aclrtCreateStream";
    cann::HcclRoot root = {};
    if (!Relay(rank_, cann_, &root)) return "the root";
    if (rank_.mode == "die before joining" && rank_.rank == 1) raise(SIGKILL);
    HcclOptions options;
    options.name = "test-1";
    options.buffer_mib = 4;
    options.warm_up_timeout = absl::Seconds(10);
    auto group = HcclGroup::Join(cann_, root, rank_.rank, rank_.size, stream_, options);
    if (!group.ok()) return std::string(group.status().message());
    std::string wrong = Use(**group);
    if (wrong.empty() && !(*group)->broken()) {
      const absl::Status left = (*group)->Leave();
      if (!left.ok()) wrong = std::string(left.message());
    }
    group->reset();
    for (void* const memory : memory_) cann_.aclrtFree(memory);
    if (wrong.empty()) {
      if (cann_.aclrtDestroyStream(stream_) != 0) return "aclrtDestroyStream";
      if (cann_.aclrtResetDeviceForce(static_cast<int32_t>(rank_.rank)) != 0) return "the reset";
      if (cann_.aclFinalize() != 0) return "aclFinalize";
    }
    return wrong;
  }

 private:
  uint64_t Put(const std::vector<float>& values) {
    void* memory = nullptr;
    const size_t bytes = values.size() * sizeof(float);
    cann_.aclrtMalloc(&memory, bytes, 0);
    memory_.push_back(memory);
    cann_.aclrtMemcpy(memory, bytes, values.data(), bytes, cann::kHostToDevice);
    return reinterpret_cast<uint64_t>(memory);
  }
  std::vector<float> Get(uint64_t address, size_t count) {
    std::vector<float> values(count);
    cann_.aclrtMemcpy(values.data(), count * sizeof(float), reinterpret_cast<void*>(address),
                      count * sizeof(float), cann::kDeviceToHost);
    return values;
  }

  std::string Use(HcclGroup& group) {
    if (rank_.mode == "die in a barrier") {
      if (rank_.rank == 1) raise(SIGKILL);
      const absl::Status late = group.Barrier(absl::Milliseconds(300));
      if (late.ok()) return "a barrier without all ranks";
      if (!group.broken()) return "the group is not broken";
      return absl::StrCat("as expected: ", std::string(late.message()));
    }
    if (rank_.mode == "cannot begin") {
      const uint64_t data = Put(std::vector<float>(8, 1));
      const absl::Status begun = group.AllReduce(data, data, 8, cann::kHcclF32, cann::kHcclSum);
      if (begun.ok()) return "an operator that fails";
      if (!group.broken()) return "the group is not broken";
      const absl::Status next = group.Barrier(absl::Seconds(1));
      return next == begun ? "as expected" : "it goes on";
    }
    if (rank_.mode == "disagree") {
      const uint64_t data = Put(std::vector<float>(8, 1));
      (void)group.AllReduce(data, data, 4 + rank_.rank, cann::kHcclF32, cann::kHcclSum);
      const absl::Status disagree = group.Await(absl::Seconds(10));
      return disagree.ok() ? "ranks that disagree"
                           : absl::StrCat("as expected: ", std::string(disagree.message()));
    }
    return Collectives(group);
  }

  std::string Collectives(HcclGroup& group) {
    const uint32_t n = rank_.size;
    const auto own = static_cast<float>(rank_.rank + 1);
    const float all = static_cast<float>(n * (n + 1)) / 2;
    constexpr absl::Duration kTime = absl::Seconds(20);
    constexpr size_t kCount = 1000;
    const uint64_t in = Put(std::vector<float>(kCount, own));
    const uint64_t out = Put(std::vector<float>(kCount, -1));
    if (!group.AllReduce(in, out, kCount, cann::kHcclF32, cann::kHcclSum).ok()) return "begin";
    if (!group.Await(kTime).ok()) return "await";
    if (Get(out, kCount) != std::vector<float>(kCount, all)) return "all-reduce";
    // In place, and several in a row before anybody waits.
    for (int i = 0; i < 3; ++i) {
      (void)group.AllReduce(out, out, kCount, cann::kHcclF32, cann::kHcclMax);
    }
    if (!group.Await(kTime).ok() || Get(out, 1)[0] != all) return "all-reduce in place";
    const uint64_t word = Put({own});
    (void)group.Broadcast(word, 1, cann::kHcclF32, n - 1);
    const uint64_t gathered = Put(std::vector<float>(n, -1));
    (void)group.AllGather(in, gathered, 1, cann::kHcclF32);
    if (!group.Await(kTime).ok()) return "await";
    if (Get(word, 1)[0] != static_cast<float>(n)) return "broadcast";
    for (uint32_t r = 0; r < n; ++r) {
      if (Get(gathered, n)[r] != static_cast<float>(r + 1)) return "all-gather";
    }
    std::vector<float> parts;
    for (uint32_t r = 0; r < n; ++r) parts.push_back(own * static_cast<float>(r + 1));
    const uint64_t scattered = Put({-1});
    const uint64_t from = Put(parts);
    (void)group.ReduceScatter(from, scattered, 1, cann::kHcclF32, cann::kHcclSum);
    const uint64_t exchanged = Put(std::vector<float>(n, -1));
    std::vector<uint64_t> counts(n, 1);
    std::vector<uint64_t> places;
    for (uint32_t r = 0; r < n; ++r) places.push_back(r);
    (void)group.AllToAll(from, counts, places, exchanged, counts, places, cann::kHcclF32);
    if (!group.Await(kTime).ok()) return "await";
    if (Get(scattered, 1)[0] != all * own) return "reduce-scatter";
    for (uint32_t r = 0; r < n; ++r) {
      if (Get(exchanged, n)[r] != static_cast<float>(r + 1) * own) return "all-to-all";
    }
    if (!group.Health().ok()) return "health";
    return group.Barrier(kTime).ok() ? "" : "barrier";
  }

  const Rank rank_;
  cann::Functions cann_;
  cann::AclStream stream_ = nullptr;
  std::vector<void*> memory_;
};

// ---- the test

struct Ended {
  int status = 0;
  std::string text;
};

class HcclGroupTest : public ::testing::Test {
 protected:
  std::vector<Ended> RunRanks(uint32_t size, const std::string& mode,
                              const std::string& environment = "") {
    static int number = 0;
    const std::string folder = absl::StrCat(std::getenv("TEST_TMPDIR"), "/ranks-", ++number);
    mkdir(folder.c_str(), 0700);
    setenv("FAKE_CANN_DIR", folder.c_str(), 1);
    setenv("FAKE_CANN_DEVICES", absl::StrCat(size).c_str(), 1);
    setenv("FAKE_CANN_HBM_MIB", "64", 1);
    setenv("FAKE_CANN_TIME_SCALE", "0.05", 1);
    setenv("FAKE_CANN_JITTER_US", "300", 1);
    setenv("FAKE_CANN_TRACE", (folder + "/trace").c_str(), 1);
    setenv("FAKE_CANN_PLAN", environment.c_str(), 1);
    setenv("HCCL_CONNECT_TIMEOUT", "10", 1);
    std::vector<pid_t> pids;
    for (uint32_t rank = 0; rank < size; ++rank) {
      setenv("PTO_TEST_RANK", absl::StrCat(rank, ",", size, ",", folder, ",", mode).c_str(), 1);
      char program[] = "/proc/self/exe";
      char* const argv[] = {program, nullptr};
      pid_t pid = -1;
      EXPECT_EQ(posix_spawn(&pid, program, nullptr, nullptr, argv, environ), 0);
      pids.push_back(pid);
    }
    unsetenv("PTO_TEST_RANK");
    std::vector<Ended> ended(size);
    for (uint32_t rank = 0; rank < size; ++rank) {
      waitpid(pids[rank], &ended[rank].status, 0);
      std::getline(std::ifstream(absl::StrCat(folder, "/result-", rank)), ended[rank].text);
    }
    std::ifstream trace(folder + "/trace");
    for (std::string line; std::getline(trace, line);) {
      EXPECT_THAT(line, ::testing::Not(HasSubstr("VIOLATION")));
    }
    return ended;
  }
};

TEST_F(HcclGroupTest, CollectivesOfManySizes) {
  for (const uint32_t size : {1u, 2u, 3u, 8u}) {
    for (const Ended& rank : RunRanks(size, "collectives")) {
      EXPECT_EQ(rank.status, 0);
      EXPECT_EQ(rank.text, "") << size << " ranks";
    }
  }
}

TEST_F(HcclGroupTest, ARankThatNeverJoinsIsNamed) {
  const std::vector<Ended> ranks = RunRanks(3, "die before joining");
  EXPECT_TRUE(WIFSIGNALED(ranks[1].status));
  for (const uint32_t rank : {0, 2}) {
    EXPECT_THAT(ranks[rank].text, HasSubstr("HCCL_E_TIMEOUT 9"));
    EXPECT_THAT(ranks[rank].text, HasSubstr("EI0015: these ranks have not come: 1"));
  }
}

TEST_F(HcclGroupTest, ARankThatDiesEndsTheWaitOfTheOthersInTime) {
  const std::vector<Ended> ranks = RunRanks(3, "die in a barrier");
  for (const uint32_t rank : {0, 2}) {
    EXPECT_THAT(ranks[rank].text, HasSubstr("as expected"));
    EXPECT_THAT(ranks[rank].text, HasSubstr("STREAM_SYNC_TIMEOUT 507046"));
  }
}

TEST_F(HcclGroupTest, AnOperatorThatCannotBeginBreaksTheGroup) {
  // The first is the warm-up.
  for (const Ended& rank : RunRanks(2, "cannot begin", "HcclAllReduce:2=4")) {
    EXPECT_EQ(rank.text, "as expected");
  }
}

TEST_F(HcclGroupTest, WhatAStreamMayStillUseIsNotFreed) {
  // The fake tells of memory that is freed under an operator.
  const std::vector<Ended> ranks = RunRanks(2, "die in a barrier", "aclrtStreamAbort:*=207000");
  EXPECT_THAT(ranks[0].text, HasSubstr("as expected"));
}

TEST_F(HcclGroupTest, RanksThatDisagreeAreTold) {
  for (const Ended& rank : RunRanks(2, "disagree")) {
    EXPECT_THAT(rank.text, HasSubstr("as expected"));
    EXPECT_THAT(rank.text, HasSubstr("EI0005"));
  }
}

TEST_F(HcclGroupTest, MemoryThatDoesNotSufficeIsNamed) {
  const std::vector<Ended> ranks = RunRanks(1, "collectives", "HcclCommInitRootInfoConfig:1=24");
  EXPECT_THAT(ranks[0].text, HasSubstr("HCCL_E_OOM 24"));
}

}  // namespace
}  // namespace pto::comm

int main(int argc, char** argv) {
  if (const char* const rank = std::getenv("PTO_TEST_RANK")) {
    const std::vector<std::string> parts = absl::StrSplit(rank, ',');
    const std::string result =
        pto::comm::RankProgram({static_cast<uint32_t>(std::stoi(parts[0])),
                                static_cast<uint32_t>(std::stoi(parts[1])), parts[2], parts[3]})
            .Run();
    std::ofstream(parts[2] + "/result-" + parts[0]) << result << std::endl;
    // As a host ends: without waiting for what hangs.
    _exit(0);
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
