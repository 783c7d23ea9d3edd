#pragma once

#include <sys/types.h>

#include <string>

namespace pto::testing {

// A fake daemon in a separate process, for tests in which a daemon is stopped or killed. The
// process ends with this object.
class FakeProcess {
 public:
  // Returns when it listens.
  FakeProcess(const std::string& address, const std::string& boot_id);
  ~FakeProcess();
  FakeProcess(const FakeProcess&) = delete;
  FakeProcess& operator=(const FakeProcess&) = delete;

  bool ok() const { return pid_ > 0; }
  // Stops it, as if it hung.
  void Freeze();
  // Lets it continue.
  void Thaw();
  // Kills it. Returns when it has ended.
  void Kill();

 private:
  pid_t pid_ = -1;
  // Its input: it ends when this is closed, also if the test dies.
  int input_ = -1;
};

}  // namespace pto::testing
