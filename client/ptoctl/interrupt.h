#pragma once

#include <csignal>

namespace pto::ptoctl {

// Notices the first Ctrl-C (SIGINT) or SIGTERM while it exists, so that a command can clean up;
// the second one ends the process as usual. One at a time.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  bool seen() const;

 private:
  struct sigaction old_int_ = {};
  struct sigaction old_term_ = {};
};

}  // namespace pto::ptoctl
