// Serves pto.bench.Bare on the address of its argument, for benchmarks in other languages.

#include <cstdio>

#include "absl/status/status.h"
#include "tests/bench/bare_server.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: bare_peer ADDRESS\n");
    return 2;
  }
  const absl::Status status = pto::bench::ServeBare(argv[1]);
  std::fprintf(stderr, "bare_peer: %s\n", status.ToString().c_str());
  return 1;
}
