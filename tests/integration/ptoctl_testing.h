#pragma once

#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "google/protobuf/util/json_util.h"
#include "gtest/gtest.h"
#include "tests/harness/daemon_process.h"
#include "tests/harness/ptoctl.h"
#include "tests/integration/world.h"

namespace pto::testing {

// Parses JSON as a message of this type; fails the test if it is invalid.
template <typename Message>
Message FromJson(const std::string& json) {
  Message message;
  const auto status = google::protobuf::util::JsonStringToMessage(json, &message);
  EXPECT_TRUE(status.ok()) << status << "\n" << json;
  return message;
}

// The same for a list, which is the field of that name in a response.
template <typename Message>
Message ListFromJson(const std::string& field, const std::string& json) {
  return FromJson<Message>(absl::StrCat("{\"", field, "\":", json, "}"));
}

inline std::vector<std::string> Lines(const std::string& text) {
  return absl::StrSplit(text, '\n', absl::SkipEmpty());
}

class PtoctlTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { daemon_ = new DaemonProcess({"--sim-chips=4"}); }
  static void TearDownTestSuite() {
    delete daemon_;
    daemon_ = nullptr;
  }

  static Api& api() { return daemon_->api(); }
  static ProgramResult Ptoctl(const std::vector<std::string>& args) {
    return RunPtoctl(daemon_->address(), args);
  }
  // The output of a command that must succeed.
  static std::string Output(const std::vector<std::string>& args) {
    const ProgramResult result = Ptoctl(args);
    EXPECT_EQ(result.exit_code, 0) << args[0] << ": " << result.err;
    return result.out;
  }
  static std::string Example(const std::string& name) { return Runfile("client/examples/" + name); }
  // Writes a file next to the daemon's socket.
  static std::string File(const std::string& name, const std::string& text) {
    const std::string path = daemon_->directory() + "/" + name;
    WriteFile(path, text);
    return path;
  }
  static std::string SpinJob() {
    return File("spin.json", R"({"graph": {"tasks": [
        {"name": "forever", "kernel": "spin", "scalars": [{"i64": 3600000000}]}]}})");
  }
  // Submits a job without waiting; returns the run's name.
  static std::string Detach(const std::string& job) {
    return std::string(
        absl::StripAsciiWhitespace(Output({"runs", "submit", job, "--detach", "-q"})));
  }

  inline static DaemonProcess* daemon_ = nullptr;
};

}  // namespace pto::testing
