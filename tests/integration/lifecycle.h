#pragma once

#include <string>

#include "gtest/gtest.h"
#include "tests/harness/daemon_process.h"
#include "tests/integration/world.h"

namespace pto::testing {

// Tests that share one daemon with two chips; each has its own session.
class LifecycleTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    daemon_ = new DaemonProcess({"--sim-chips=2", "--session-min-ttl=10ms"});
  }
  static void TearDownTestSuite() {
    delete daemon_;
    daemon_ = nullptr;
  }
  LifecycleTest() : session_(MakeSession(api())) {}
  ~LifecycleTest() override { DeleteSession(api(), session_); }

  static DaemonProcess& daemon() { return *daemon_; }
  static Api& api() { return daemon_->api(); }
  // The name of an object in the session: Name("runs", "r1").
  std::string Name(const std::string& kind, const std::string& id) const {
    return session_ + "/" + kind + "/" + id;
  }

  const std::string session_;

 private:
  inline static DaemonProcess* daemon_ = nullptr;
};

// A run's first error, as the client library would return it.
absl::Status ErrorOf(const v1::Run& run);

// Contents of a buffer as floats.
std::vector<float> ReadFloats(Api& api, const std::string& buffer);
// Writes bytes to the start of a buffer.
absl::Status WriteBytes(Api& api, const std::string& buffer, const std::string& bytes);

}  // namespace pto::testing
