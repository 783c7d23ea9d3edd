#include "tests/soak/kinds.h"

namespace pto::soak {
namespace {

constexpr Kind kKinds[] = {
    {"submit", &SubmitRound, 11},        {"launch", &LaunchRound, 7},
    {"stream", &StreamRound, 6},         {"open_run", &OpenRunRound, 6},
    {"collective", &CollectiveRound, 5}, {"buffer", &BufferRound, 5},
    {"cancel", &CancelRound, 4},         {"event", &EventRound, 3},
    {"disconnect", &DisconnectRound, 2}, {"killed", &KilledRound, 1},
};

}  // namespace

absl::Span<const Kind> AllKinds() { return kKinds; }

}  // namespace pto::soak
