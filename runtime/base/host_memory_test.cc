#include "runtime/base/host_memory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "gtest/gtest.h"

namespace pto {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

class HostMemoryTest : public ::testing::Test {
 protected:
  HostMemoryTest() {
    char name[] = "/tmp/host_memory_XXXXXX";
    root_ = mkdtemp(name);
  }
  ~HostMemoryTest() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) const {
    const std::filesystem::path full = root_ + path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text;
  }

  std::string root_;
};

TEST_F(HostMemoryTest, WithoutGroupsItIsTheMachines) {
  Write("/proc/meminfo", "MemFree:  12 kB\nMemTotal:       8388608 kB\nMemAvailable: 1 kB\n");
  EXPECT_EQ(HostMemoryBytes(root_), 8 * kGiB);
  Write("/proc/self/cgroup", "0::/\n");
  Write("/sys/fs/cgroup/memory.max", "max\n");
  EXPECT_EQ(HostMemoryBytes(root_), 8 * kGiB);
}

TEST_F(HostMemoryTest, TheSmallestLimitOnTheWayUpCounts) {
  Write("/proc/meminfo", "MemTotal:       8388608 kB\n");
  Write("/proc/self/cgroup", "0::/system.slice/ptod.service\n");
  Write("/sys/fs/cgroup/system.slice/ptod.service/memory.max", "4294967296\n");
  EXPECT_EQ(HostMemoryBytes(root_), 4 * kGiB);
  Write("/sys/fs/cgroup/system.slice/memory.max", "2147483648\n");
  EXPECT_EQ(HostMemoryBytes(root_), 2 * kGiB);
  Write("/sys/fs/cgroup/memory.max", "max\n");
  EXPECT_EQ(HostMemoryBytes(root_), 2 * kGiB);
}

TEST_F(HostMemoryTest, VersionOneCountsToo) {
  Write("/proc/meminfo", "MemTotal:       8388608 kB\n");
  Write("/proc/self/cgroup", "9:name=systemd:/\n5:cpu,memory:/docker/12\n0::/\n");
  Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "3221225472\n");
  EXPECT_EQ(HostMemoryBytes(root_), 3 * kGiB);
  // No limit is a number larger than any machine.
  Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(HostMemoryBytes(root_), 8 * kGiB);
}

TEST_F(HostMemoryTest, ThisMachineHasSome) {
  EXPECT_GT(HostMemoryBytes(), uint64_t{64} << 20);
  EXPECT_LT(HostMemoryBytes(), uint64_t{1} << 60);
  EXPECT_GT(MaxMappings(), 1000u);
}

TEST_F(HostMemoryTest, MappingsAreTheUsualNumberWhereNobodySays) {
  EXPECT_EQ(MaxMappings(root_), 65'530u);
  Write("/proc/sys/vm/max_map_count", "262144\n");
  EXPECT_EQ(MaxMappings(root_), 262'144u);
}

}  // namespace
}  // namespace pto
