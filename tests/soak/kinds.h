#pragma once

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "tests/soak/visit.h"

// The kinds of clients. Each round is one life of a client, with random contents: it connects,
// works, checks and leaves. Returns OK, DATA_LOSS for a wrong result, or the first error.
namespace pto::soak {

struct Kind {
  const char* name;
  absl::Status (*round)(Visit& visit);
  // How many of 50 clients are of this kind.
  int weight;
};

absl::Span<const Kind> AllKinds();

absl::Status SubmitRound(Visit& visit);      // graphs with names and in columns
absl::Status LaunchRound(Visit& visit);      // a registered graph, with bindings
absl::Status StreamRound(Visit& visit);      // launches on one stream
absl::Status OpenRunRound(Visit& visit);     // tasks that are appended to a run
absl::Status CollectiveRound(Visit& visit);  // domains, signals and collectives
absl::Status BufferRound(Visit& visit);      // contents, over gRPC and through shared memory
absl::Status CancelRound(Visit& visit);      // runs that are stopped
absl::Status EventRound(Visit& visit);       // a slow reader of events
absl::Status DisconnectRound(Visit& visit);  // leaves without closing
absl::Status KilledRound(Visit& visit);      // processes that are killed

}  // namespace pto::soak
