#pragma once

#include <unistd.h>

#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"

namespace pto::testing {

// The address of a unix socket in a separate directory, which is removed with this object. The path
// is short enough for unix sockets.
class TempSocket {
 public:
  TempSocket() {
    char dir[] = "/tmp/pto.XXXXXX";
    dir_ = mkdtemp(dir);
  }
  ~TempSocket() {
    unlink(path().c_str());
    rmdir(dir_.c_str());
  }
  TempSocket(const TempSocket&) = delete;
  TempSocket& operator=(const TempSocket&) = delete;

  std::string path() const { return absl::StrCat(dir_, "/s"); }
  std::string address() const { return absl::StrCat("unix:", path()); }

 private:
  std::string dir_;
};

}  // namespace pto::testing
