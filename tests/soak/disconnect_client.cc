// Leaves without closing its session, with runs and streams open; the daemon frees everything when
// the lease expires.

#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/launch_stream.h"
#include "client/open_run.h"
#include "runtime/base/status_macros.h"
#include "tests/harness/sanitizer.h"
#include "tests/soak/kinds.h"

namespace pto::soak {
namespace {

// A busy machine may delay a client's renewal of its lease.
constexpr absl::Duration kTtl = absl::Seconds(testing::kAddressSanitizer ? 5 : 2);
// After the end of the lease, on a busy machine.
constexpr absl::Duration kGrace = absl::Seconds(20);

// Leaves runs and streams open. Returns the session's name.
absl::StatusOr<std::string> Abandon(Visit& visit) {
  PTO_ASSIGN_OR_RETURN(Client client, visit.Connect());
  PTO_ASSIGN_OR_RETURN(Session session,
                       visit.Insist([&] { return client.CreateSession({.ttl = kTtl}); }));
  const std::string name = session.name();
  const uint32_t chip = visit.AnyChip();
  PTO_ASSIGN_OR_RETURN(const Buffer buffer,
                       visit.Insist([&] { return session.CreateBuffer("b", chip, 1 << 17); }));
  PTO_RETURN_IF_ERROR(visit.Insist([&] { return buffer.Write(std::vector<char>(1 << 17, 'x')); }));
  GraphBuilder graph;
  graph.Task("hold", chip, {graph.Tensor("word", buffer, v1::I64, {1})})
      .Scalar(std::numeric_limits<int64_t>::max())
      .Blocks(2);
  PTO_RETURN_IF_ERROR(
      visit.Insist([&] { return session.Submit(graph, {.run_id = "waits"}).status(); }));
  PTO_ASSIGN_OR_RETURN(OpenRun open, session.BeginOpenRun());
  for (int i = 0; i < 50; ++i) open.graph().Task("spin", chip, {}).Scalar(int64_t{1000});
  PTO_RETURN_IF_ERROR(open.Flush());
  PTO_ASSIGN_OR_RETURN(EventStream events, session.Watch());
  PTO_RETURN_IF_ERROR(events.Next().status());
  session.Detach();
  return name;
}

}  // namespace

absl::Status DisconnectRound(Visit& visit) {
  PTO_ASSIGN_OR_RETURN(const std::string session, Abandon(visit));
  PTO_ASSIGN_OR_RETURN(Client client, visit.Connect());
  // GetSession does not extend the lease.
  const absl::Time deadline = absl::Now() + kTtl + kGrace;
  while (!visit.place().stopping) {
    PTO_ASSIGN_OR_RETURN(const std::vector<v1::Session> sessions,
                         visit.Insist([&] { return client.ListSessions(); }));
    bool there = false;
    for (const v1::Session& other : sessions) there |= other.name() == session;
    if (!there) break;
    if (absl::Now() > deadline) {
      return absl::DataLossError(absl::StrCat(session, " is there though its lease is over"));
    }
    absl::SleepFor(absl::Milliseconds(100));
  }
  ++visit.tally().checks;
  return absl::OkStatus();
}

}  // namespace pto::soak
