#pragma once

#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "runtime/base/failpoint.h"

namespace pto::daemon::testing {

// Stops the first thread that comes to a failpoint, until the test lets it go on. For one test
// thread, and for builds with failpoints.
class HeldFailpoint {
 public:
  explicit HeldFailpoint(std::string name)
      : name_(std::move(name)),
        path_(absl::StrCat(::testing::TempDir(), "/", name_, ".", getpid())) {
    std::remove(path_.c_str());
    EXPECT_TRUE(failpoint::Set(absl::StrCat(name_, "=hold:", path_, "*1")).ok());
  }
  ~HeldFailpoint() {
    EXPECT_TRUE(failpoint::Set("").ok());
    std::remove(path_.c_str());
  }
  HeldFailpoint(const HeldFailpoint&) = delete;
  HeldFailpoint& operator=(const HeldFailpoint&) = delete;

  // Returns when a thread is there.
  void Await() const {
    while (failpoint::Hits(name_) == 0) std::this_thread::yield();
  }
  void Release() const { std::ofstream(path_) << "go"; }

 private:
  const std::string name_;
  const std::string path_;
};

}  // namespace pto::daemon::testing
