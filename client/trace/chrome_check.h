#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace pto::trace {

// The contents of a text in Chrome's trace event format.
struct ChromeContents {
  size_t slices = 0;
  size_t flows = 0;
  size_t async = 0;
  size_t counters = 0;
  size_t processes = 0;
  size_t threads = 0;
};

// Checks a text against the rules by which Perfetto reads the trace event format:
// - a JSON object with `traceEvents`; every event has the fields that its phase needs, with the
// right
//   types; no phase that we do not write;
// - names for all processes and threads that have slices;
// - the slices of a thread do not overlap, and none has a negative duration;
// - a flow begins once and ends once with the same id, each inside a slice of its thread;
// - an async event begins and then ends with the same category, id and process.
// INVALID_ARGUMENT names the event and the error.
absl::Status CheckChromeTrace(absl::string_view text, ChromeContents* contents);

}  // namespace pto::trace
