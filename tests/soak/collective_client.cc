// Chips that communicate: collectives, and a ring of notifications, in domains.

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/domain.h"
#include "runtime/base/status_macros.h"
#include "tests/soak/kinds.h"

namespace pto::soak {
namespace {

constexpr int64_t kCount = 512;
constexpr int64_t kOne[] = {1};

struct Ring {
  Domain domain;
  std::vector<uint32_t> chips;
  uint32_t ranks() const { return static_cast<uint32_t>(chips.size()); }
};

absl::StatusOr<Ring> MakeRing(Visit& visit, Session& session, const std::string& id) {
  DomainSpec spec;
  spec.id = id;
  // Adjacent chips from a random start, so that domains of different clients overlap.
  const uint32_t first = visit.AnyChip();
  const uint64_t ranks = 2 + visit.Below(visit.place().chips - 1);
  for (uint64_t i = 0; i < ranks; ++i) {
    spec.chips.push_back((first + static_cast<uint32_t>(i)) % visit.place().chips);
  }
  spec.buffers = {{"in", v1::I64, kCount}, {"sum", v1::I64, kCount}, {"got", v1::I64, kCount}};
  spec.signal_count = 1;
  PTO_ASSIGN_OR_RETURN(Domain domain, visit.Insist([&] { return session.CreateDomain(spec); }));
  return Ring{std::move(domain), spec.chips};
}

TensorRef Window(GraphBuilder& graph, const Ring& ring, uint32_t rank, const char* name) {
  return graph.Tensor(absl::StrCat(name, rank), ring.domain.Window(rank, name).value(), v1::I64,
                      {kCount});
}

// Rank r contributes number * (r + 1). Every rank gets the sum, and passes it to the next rank,
// which takes it when it is notified.
void Describe(GraphBuilder& graph, const Ring& ring, int64_t algorithm) {
  const ScalarRef number = graph.Scalar("number", 0.0);
  std::vector<GroupMember> members;
  std::vector<TensorRef> got;
  std::vector<TensorRef> signals;
  for (uint32_t r = 0; r < ring.ranks(); ++r) {
    const TensorRef in = Window(graph, ring, r, "in");
    graph.Task("fill", ring.chips[r], {in}).Scalar(number).Blocks(2);
    graph.Task("scale", ring.chips[r], {in, in}).Scalar(r + 1.0);
    members.push_back({ring.chips[r], {in, Window(graph, ring, r, "sum")}});
    got.push_back(Window(graph, ring, r, "got"));
    signals.push_back(
        graph.Tensor(absl::StrCat("signal", r), ring.domain.Signals(r).value(), v1::I64, kOne));
  }
  graph.Group("all_reduce", members).Scalar(1).Scalar(algorithm).Scalar(0).Blocks(2);
  for (uint32_t r = 0; r < ring.ranks(); ++r) {
    const uint32_t next = (r + 1) % ring.ranks();
    const TaskRef sent = graph.Copy(got[next], members[r].args[1]);
    graph.Notify(signals[next], 1, v1::ADD).After(sent);
  }
  for (uint32_t r = 0; r < ring.ranks(); ++r) {
    const TaskRef heard = graph.WaitFor(signals[r], v1::EQ, 1);
    graph.Task("scale", ring.chips[r], {got[r], members[r].args[0]}).Scalar(2.0).After(heard);
  }
}

}  // namespace

absl::Status CollectiveRound(Visit& visit) {
  PTO_ASSIGN_OR_RETURN(Client client, visit.Connect());
  PTO_ASSIGN_OR_RETURN(Session session, visit.CreateSession(client));
  PTO_ASSIGN_OR_RETURN(const Ring ring, MakeRing(visit, session, "ring"));
  GraphBuilder graph;
  Describe(graph, ring, static_cast<int64_t>(visit.Below(5)));
  PTO_ASSIGN_OR_RETURN(const v1::Graph registered,
                       visit.Insist([&] { return session.Register("ring", graph); }));
  const auto ranks = static_cast<int64_t>(ring.ranks());
  const uint64_t launches = 3 + visit.Below(10);
  for (uint64_t i = 0; i < launches && !visit.place().stopping; ++i) {
    const auto number = static_cast<int64_t>(visit.Below(1000));
    v1::LaunchGraphRequest request;
    request.set_graph(registered.name());
    request.set_run_id(absl::StrCat("r", i));
    v1::ScalarSpec& scalar = *request.add_scalars();
    scalar.set_name("number");
    scalar.mutable_value()->set_f64(static_cast<double>(number));
    PTO_ASSIGN_OR_RETURN(const Run run, visit.Insist([&] { return session.Launch(request); }));
    PTO_RETURN_IF_ERROR(visit.Finish(run));
    const int64_t sum = number * ranks * (ranks + 1) / 2;
    for (uint32_t r = 0; r < ring.ranks(); ++r) {
      for (const auto& [name, want] :
           {std::pair<const char*, int64_t>{"sum", sum}, {"got", sum}, {"in", 2 * sum}}) {
        PTO_ASSIGN_OR_RETURN(const Buffer buffer, ring.domain.Window(r, name));
        PTO_ASSIGN_OR_RETURN(const std::vector<int64_t> have,
                             visit.Insist([&] { return buffer.Read<int64_t>(kCount); }));
        PTO_RETURN_IF_ERROR(ExpectAll(visit, name, have, want));
      }
    }
  }
  if (visit.OneIn(2)) {
    // Some domains are left to the end of the session.
    const absl::Status deleted = visit.Insist([&] { return ring.domain.Delete(); });
    // The previous attempt may have succeeded.
    if (!deleted.ok() && !absl::IsNotFound(deleted)) return deleted;
  }
  return visit.Insist([&] { return session.Close(); });
}

}  // namespace pto::soak
