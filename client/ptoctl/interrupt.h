#pragma once

#include <csignal>

namespace pto::ptoctl {

// Catches the first SIGINT (Ctrl-C) or SIGTERM during its lifetime, so that a command can clean up.
// A second signal ends the process as usual. Only one object may exist at a time.
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
