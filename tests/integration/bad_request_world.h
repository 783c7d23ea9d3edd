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
// Such as `/pto.v1.RunService/GetRun`.
std::string PathOf(const google::protobuf::MethodDescriptor* method);
const google::protobuf::MethodDescriptor* FindMethod(const std::string& path);
// The bytes of a request in text protobuf.
std::string Serialize(const google::protobuf::MethodDescriptor* method, const std::string& text);

// The error is complete, has this reason and blames this field. Empty: none is named.
void ExpectError(const v1::Status& status, const Reason& reason, const std::string& field);
void ExpectRefused(const grpc::Status& status, const Reason& reason, const std::string& field);

// A daemon with what bad_request.h describes.
class BadRequestTest : public ::testing::Test {
 protected:
  BadRequestTest();

  Api& api() { return daemon_.api(); }

  // The daemon is as it was before.
  void ExpectHealthy();

  // Does something often, and looks whether that costs memory or files.
  template <typename Action>
  void ExpectFlat(int rounds, const Action& action) {
    action();  // what is set up once
    const uint64_t bytes = daemon_.ResidentBytes();
    const size_t files = daemon_.OpenFiles();
    for (int i = 0; i < rounds && !HasFailure(); ++i) action();
    EXPECT_LE(daemon_.OpenFiles(), files + 2);
    // A sanitizer keeps what was freed for a while.
    if (kAddressSanitizer) return;
    EXPECT_LE(daemon_.ResidentBytes(), bytes + kFlatBytes);
  }

  DaemonProcess daemon_;

 private:
  // What a daemon may grow by that loses nothing.
  static constexpr uint64_t kFlatBytes = 10 << 20;

  void Furnish();
};

}  // namespace pto::testing
