#include <unistd.h>

#include <iostream>
#include <string>
#include <vector>

#include "client/ptoctl/app.h"

int main(int argc, char** argv) {
  const std::vector<std::string> args(argv + 1, argv + argc);
  return pto::ptoctl::Main(args, std::cout, std::cerr, isatty(STDERR_FILENO) == 1);
}
