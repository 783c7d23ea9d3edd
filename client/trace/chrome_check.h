#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace pto::trace {

// What a text in Chrome's trace event format has in it.
struct ChromeContents {
  size_t slices = 0;
  size_t flows = 0;
  size_t async = 0;
  size_t counters = 0;
  size_t processes = 0;
  size_t threads = 0;
};

// Checks a text against the rules by which Perfetto reads the trace event format:
// - a JSON object with `traceEvents`, and every event with the fields that its phase needs, each
//   of its type; no phase that we do not write;
// - names for all processes and threads that have slices;
// - slices of a thread are one after the other, and none has a negative duration;
// - a flow begins once and ends once with the same id, each inside of a slice of its thread;
// - an async event begins and then ends with the same category, id and process.
// INVALID_ARGUMENT says what is wrong with which event.
absl::Status CheckChromeTrace(absl::string_view text, ChromeContents* contents);

}  // namespace pto::trace
