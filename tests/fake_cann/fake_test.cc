// That the fake notices what it is there to notice.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <utility>

#include "runtime/chip/ascend/cann/cann_functions.h"
#include "tests/fake_cann/testing/fake_machine.h"
#include "tests/fake_cann/testing/trace_check.h"

namespace pto::ascend::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class FakeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    SetPlan("");
    ASSERT_EQ(acl_.aclInit(nullptr), 0);
    ASSERT_EQ(acl_.aclrtSetDevice(0), 0);
    ASSERT_EQ(acl_.aclrtCreateStream(&stream_), 0);
    TakeBreaches(true);
  }
  void TearDown() override {
    SetPlan("");
    acl_.aclrtResetDeviceForce(0);
    acl_.aclFinalize();
  }

  void* Allocate(size_t bytes) {
    void* memory = nullptr;
    EXPECT_EQ(acl_.aclrtMalloc(&memory, bytes, 0), 0);
    return memory;
  }

  // Does something on a second thread that has the device.
  template <typename Use>
  void Elsewhere(Use use) {
    std::thread([&] {
      acl_.aclrtSetDevice(0);
      use();
    }).join();
  }

  const cann::Functions& acl_ = FakeCann().functions;
  cann::AclStream stream_ = nullptr;
};

TEST_F(FakeTest, ASecondThreadIsNoticedInEveryCall) {
  void* host = nullptr;
  ASSERT_EQ(acl_.aclrtMallocHost(&host, 64), 0);
  cann::AclEvent event = nullptr;
  ASSERT_EQ(acl_.aclrtCreateEventExWithFlag(&event, cann::kEventSync), 0);
  TakeBreaches(true);
  int32_t status = 0;
  cann::HcclRoot root;
  const std::pair<const char*, std::function<void()>> calls[] = {
      {"aclrtSynchronizeStreamWithTimeout",
       [&] { acl_.aclrtSynchronizeStreamWithTimeout(stream_, 10); }},
      {"aclrtStreamQuery", [&] { acl_.aclrtStreamQuery(stream_, &status); }},
      {"aclrtStreamAbort", [&] { acl_.aclrtStreamAbort(stream_); }},
      {"aclrtQueryEventStatus", [&] { acl_.aclrtQueryEventStatus(event, &status); }},
      {"aclrtFreeHost", [&] { acl_.aclrtFreeHost(host); }},
      {"HcclGetRootInfo", [&] { acl_.HcclGetRootInfo(&root); }},
  };
  for (const auto& [name, call] : calls) {
    Elsewhere(call);
    EXPECT_THAT(TakeBreaches(true),
                Contains(HasSubstr(std::string("VIOLATION ") + name + " from a second thread")));
  }
}

TEST_F(FakeTest, TheTraceTellsThreadsApart) {
  const auto line = [](const std::string& thread, const std::string& what) {
    return "1.0 100 " + thread + " dev0 " + what + " = 0";
  };
  EXPECT_THAT(FindBreaches({line("100", "aclrtFree()"), line("101", "aclrtFree()")}, true),
              Contains(HasSubstr("from a second thread")));
  EXPECT_THAT(FindBreaches({line("100", "aclrtFree()"), line("100", "aclrtResetDeviceForce()"),
                            line("101", "aclrtFree()")},
                           true),
              IsEmpty());
}

TEST_F(FakeTest, MemoryOfAKernelThatRunsIsInUse) {
  if (!acl_.Has(cann::Capability::kLaunch)) GTEST_SKIP();
  char folder[4096];
  ASSERT_NE(getcwd(folder, sizeof folder), nullptr);
  const std::string path = std::string(folder) + "/tests/fake_cann/kernels/pto_faulty_gcc.so";
  cann::AclBinary binary = nullptr;
  cann::AclFunction function = nullptr;
  ASSERT_EQ(acl_.aclrtBinaryLoadFromFile(path.c_str(), nullptr, &binary), 0);
  ASSERT_EQ(acl_.aclrtBinaryGetFunction(binary, "kernel_entry", &function), 0);
  void* const named = Allocate(64);
  void* const other = Allocate(64);
  // The kernel does not end, and its second word points to memory.
  uint64_t words[64] = {1, reinterpret_cast<uint64_t>(named)};
  void* payload = Allocate(sizeof words);
  ASSERT_EQ(acl_.aclrtMemcpy(payload, sizeof words, words, sizeof words, cann::kHostToDevice), 0);
  ASSERT_EQ(acl_.aclrtLaunchKernelWithHostArgs(function, 1, stream_, nullptr, &payload,
                                               sizeof payload, nullptr, 0),
            0);
  int32_t status = cann::kStreamComplete;
  ASSERT_EQ(acl_.aclrtStreamQuery(stream_, &status), 0);
  ASSERT_EQ(status, cann::kStreamNotReady);
  // It is taken out of the queue at once.
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  TakeBreaches(true);
  acl_.aclrtFree(other);
  EXPECT_THAT(TakeBreaches(true), IsEmpty());
  acl_.aclrtFree(named);
  EXPECT_THAT(TakeBreaches(true), Contains(HasSubstr("that a stream still uses")));
  acl_.aclrtStreamAbort(stream_);
}

TEST_F(FakeTest, TheFirstReleaseKnowsFewerFieldsOfAConfiguration) {
  const bool first = std::string(getenv("LD_LIBRARY_PATH")).find("8.1") != std::string::npos;
  EXPECT_EQ(acl_.HcclGetCommConfigCapability(), first ? 5u : 12u);
}

}  // namespace
}  // namespace pto::ascend::testing
