#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"
#include "tests/harness/daemon_process.h"
#include "tests/integration/world.h"

namespace pto::testing {

// A daemon with a state directory.
class RestartTest : public ::testing::Test {
 protected:
  Api& api() { return daemon_.api(); }

  void KillAndRestart() {
    daemon_.Kill();
    daemon_.Restart();
  }

  // A session with this id; a new boot may reuse it.
  std::string CreateSession(const std::string& id) {
    v1::CreateSessionRequest request;
    request.set_session_id(id);
    request.mutable_ttl()->set_seconds(300);
    const auto session = Call(*api().session, &v1::SessionService::Stub::CreateSession, request);
    EXPECT_THAT(session, IsOk());
    return absl::StrCat("sessions/", id);
  }

  std::vector<std::string> JournalFiles() const {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(state_)) {
      if (entry.path().filename().string().starts_with("journal-")) files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    return files;
  }

  const Directory directory_;
  const std::string state_ = directory_.path() + "/state";
  DaemonProcess daemon_{{"--sim-chips=1", "--state-dir=" + state_}};
};

}  // namespace pto::testing
