// A fake daemon in a separate process, which can be stopped and killed. Usage: fake_daemon ADDRESS
// BOOT_ID. Writes a line when it listens; ends at the end of its input.

#include <cstdio>

#include "client/testing/fake_daemon.h"

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  pto::testing::FakeDaemon daemon(argv[1], {.boot_id = argv[2]});
  std::puts("ready");
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  return 0;
}
