#pragma once

#include <cstddef>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/file_descriptor.h"

namespace pto::host {

// The socket between daemon and host. It brings messages with descriptors, and its end tells each
// side that the other is gone.

enum class LifelineResult {
  kDone,
  kLater,  // it would have to wait
  kGone,   // the other side has ended, or has closed it
};

// Sends one message, with a descriptor unless it is -1. Never waits.
LifelineResult SendMessage(int socket, absl::Span<const std::byte> message, int descriptor);

// Receives one message, with the first of its descriptors, if it has any. Does not wait if the
// socket or the caller says so. A message of more than `max_bytes` is cut, so that nothing parses
// it.
LifelineResult ReceiveMessage(int socket, size_t max_bytes, bool wait,
                              std::vector<std::byte>* message, FileDescriptor* descriptor);

}  // namespace pto::host
