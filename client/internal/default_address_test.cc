#include "client/internal/default_address.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "client/options.h"
#include "gtest/gtest.h"

namespace pto::internal {
namespace {

TEST(DefaultAddressTest, PrefersAUsersOwnDaemonWhenItIsThere) {
  char dir[] = "/tmp/pto.XXXXXX";
  ASSERT_NE(mkdtemp(dir), nullptr);
  const std::string path = std::string(dir) + "/ptod.sock";
  EXPECT_EQ(DefaultAddress(/*is_root=*/false, dir), kDefaultAddress);
  close(open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  EXPECT_EQ(DefaultAddress(/*is_root=*/false, dir), "unix:" + path);
  EXPECT_EQ(DefaultAddress(/*is_root=*/true, dir), kDefaultAddress);
  EXPECT_EQ(DefaultAddress(/*is_root=*/false, nullptr), kDefaultAddress);
  EXPECT_EQ(DefaultAddress(/*is_root=*/false, ""), kDefaultAddress);
  unlink(path.c_str());
  rmdir(dir);
}

TEST(DefaultAddressTest, ObeysTheCallerFirstAndTheEnvironmentNext) {
  setenv("PTOD_ADDRESS", "unix:/from/env", 1);
  EXPECT_EQ(ResolveAddress("unix:/given"), "unix:/given");
  EXPECT_EQ(ResolveAddress(""), "unix:/from/env");
  unsetenv("PTOD_ADDRESS");
}

}  // namespace
}  // namespace pto::internal
