#pragma once

#include <string>
#include <vector>

#include "google/protobuf/descriptor.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "pto/v1/error.pb.h"
#include "runtime/base/reason.h"
#include "tests/harness/api.h"
#include "tests/harness/daemon_process.h"
#include "tests/harness/sanitizer.h"

namespace pto::testing {

// All methods of ptod's services.
std::vector<const google::protobuf::MethodDescriptor*> AllMethods();
// For example `/pto.v1.RunService/GetRun`.
std::string PathOf(const google::protobuf::MethodDescriptor* method);
const google::protobuf::MethodDescriptor* FindMethod(const std::string& path);
// The bytes of a request in text protobuf.
std::string Serialize(const google::protobuf::MethodDescriptor* method, const std::string& text);

// Expects a complete error with this reason and field. An empty field means none.
void ExpectError(const v1::Status& status, const Reason& reason, const std::string& field);
void ExpectRefused(const grpc::Status& status, const Reason& reason, const std::string& field);

// A daemon with the environment of bad_request.h.
class BadRequestTest : public ::testing::Test {
 protected:
  BadRequestTest();

  Api& api() { return daemon_.api(); }

  // The daemon is unchanged.
  void ExpectHealthy();

  // Repeats an action, and checks that it costs neither memory nor files.
  template <typename Action>
  void ExpectFlat(int rounds, const Action& action) {
    action();  // one-time setup
    const uint64_t bytes = daemon_.ResidentBytes();
    const size_t files = daemon_.OpenFiles();
    for (int i = 0; i < rounds && !HasFailure(); ++i) action();
    EXPECT_LE(daemon_.OpenFiles(), files + 2);
    // A sanitizer keeps freed memory for a while.
    if (kAddressSanitizer) return;
    EXPECT_LE(daemon_.ResidentBytes(), bytes + kFlatBytes);
  }

  DaemonProcess daemon_;

 private:
  // Growth that is not a leak.
  static constexpr uint64_t kFlatBytes = 10 << 20;

  void Furnish();
};

}  // namespace pto::testing
