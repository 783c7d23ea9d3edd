#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "client/ptoctl/app.h"

namespace pto::ptoctl {

// The output and the exit code of a command line.
struct Result {
  int code = 0;
  std::string out;
  std::string err;
};

inline Result Ptoctl(const std::vector<std::string>& args) {
  std::ostringstream out, err;
  Result result;
  result.code = Main(args, out, err, false);
  result.out = out.str();
  result.err = err.str();
  return result;
}

}  // namespace pto::ptoctl
