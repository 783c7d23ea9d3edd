// Chips that belong to several domains, with a different rank in each.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "client/event_stream.h"
#include "client/examples/scenarios/list.h"
#include "client/examples/scenarios/scene.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::scenarios {
namespace {

constexpr int64_t kCount = 256;

// A domain over some of the scene's ranks, in which their numbers are summed, scaled and shifted.
// `place` below is a rank of the scene, which differs from the rank in the domain.
class AffineDomain {
 public:
  static absl::StatusOr<AffineDomain> Create(Scene& scene, const char* id,
                                             std::vector<uint32_t> places) {
    PTO_ASSIGN_OR_RETURN(Domain domain, scene.MakeDomain(id,
                                                         {{"x", v1::F32, kCount},
                                                          {"sum", v1::F32, kCount},
                                                          {"bias", v1::F32, kCount},
                                                          {"y", v1::F32, kCount}},
                                                         /*signals=*/1, places));
    for (uint32_t r = 0; r < places.size(); ++r) {
      PTO_RETURN_IF_ERROR(
          WindowOf(domain, r, "bias")
              .Write(std::vector<float>(kCount, static_cast<float>(Bias(places[r])))));
      PTO_RETURN_IF_ERROR(Spoil(WindowOf(domain, r, "y")));
    }
    return AffineDomain(std::move(domain), std::move(places));
  }

  // Different numbers in each repetition, so that leftovers of an earlier one are wrong.
  absl::Status WriteInputs(int repetition) const {
    std::vector<float> x(kCount);
    for (uint32_t r = 0; r < places_.size(); ++r) {
      for (size_t i = 0; i < x.size(); ++i) {
        x[i] = static_cast<float>(X(places_[r], i, repetition));
      }
      PTO_RETURN_IF_ERROR(WindowOf(domain_, r, "x").Write(x));
    }
    return absl::OkStatus();
  }

  // The sum, which is the first task, and the tasks after it; with `gated`, only after Open.
  void AddTasks(GraphBuilder& graph, const Scene& scene, bool gated) const {
    std::vector<GroupMember> members;
    for (uint32_t r = 0; r < places_.size(); ++r) {
      members.push_back({scene.chip(places_[r]), {View(graph, r, "x"), View(graph, r, "sum")}});
    }
    graph.Group("all_reduce", members).Scalar(1).Scalar(0).Scalar(0);
    absl::optional<TaskRef> gate;
    if (gated) gate = graph.WaitFor(WindowSignal(graph, domain_, 0, 0), v1::GE, 1);
    for (uint32_t r = 0; r < places_.size(); ++r) {
      const uint32_t chip = scene.chip(places_[r]);
      const TensorRef y = View(graph, r, "y");
      TaskRef scaled =
          graph.Task("scale", chip, {View(graph, r, "sum"), y}).Scalar(Scale(places_[r]));
      if (gate.has_value()) scaled.After(*gate);
      graph.Task("add", chip, {y, View(graph, r, "bias"), y});
    }
  }

  absl::Status Open() const { return domain_.Notify(0, 0, 1).status(); }

  absl::Status Check(int repetition) const {
    for (uint32_t r = 0; r < places_.size(); ++r) {
      PTO_ASSIGN_OR_RETURN(const std::vector<float> y,
                           WindowOf(domain_, r, "y").Read<float>(kCount));
      PTO_RETURN_IF_ERROR(Expect(absl::StrCat(domain_.id(), ": y of rank ", r), y,
                                 [&](size_t i) {
                                   double sum = 0;
                                   for (const uint32_t place : places_)
                                     sum += X(place, i, repetition);
                                   return Scale(places_[r]) * sum + Bias(places_[r]);
                                 },
                                 {.absolute = 1e-3}));
    }
    return absl::OkStatus();
  }

  const Domain& domain() const { return domain_; }

 private:
  AffineDomain(Domain domain, std::vector<uint32_t> places)
      : domain_(std::move(domain)), places_(std::move(places)) {}

  static double X(uint32_t place, size_t i, int repetition) {
    return 100.0 * place + static_cast<double>(i) + repetition % 1000;
  }
  static double Scale(uint32_t place) { return 0.5 + 0.01 * place; }
  static double Bias(uint32_t place) { return 10.0 + place; }
  TensorRef View(GraphBuilder& graph, uint32_t rank, const char* name) const {
    return WindowTensor(graph, domain_, rank, name, v1::F32, {kCount});
  }

  Domain domain_;
  std::vector<uint32_t> places_;
};

// Whether an event reports that the first task of the run has ended.
bool TellsOfFirstTask(const v1::Event& event, const Run& run) {
  return event.has_tasks() && event.tasks().run() == run.name() &&
         absl::c_linear_search(event.tasks().task(), 0u);
}

// Returns when the first tasks of both runs have ended, and fails if that takes too long: then one
// of them waits for the other's end.
absl::Status AwaitFirstTasks(EventStream& events, const Run& left, const Run& right) {
  bool left_told = false;
  bool right_told = false;
  while (!left_told || !right_told) {
    const auto batch = events.Next(absl::Seconds(20));
    if (ReasonOf(batch.status()) == reason::kClientTimeout.name) {
      return absl::DataLossError(absl::StrCat(left_told ? "right" : "left", " did not begin while ",
                                              left_told ? "left" : "right", " was not over"));
    }
    PTO_RETURN_IF_ERROR(batch.status());
    if (!batch->has_value()) return absl::DataLossError("the session's events have ended");
    for (const v1::Event& event : (*batch)->events()) {
      left_told |= TellsOfFirstTask(event, left);
      right_told |= TellsOfFirstTask(event, right);
    }
  }
  return absl::OkStatus();
}

absl::Status ExpectReason(const absl::Status& status, const Reason& reason,
                          absl::string_view what) {
  if (ReasonOf(status) == reason.name) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(what, " ended with ", status.ToString(), " and not ", reason.name));
}

// Checks that the daemon gives a chip nothing of a domain that it does not belong to: it has no
// window, and the members' windows are not on it.
absl::Status ExpectNoMember(Scene& scene, const Domain& domain, uint32_t chip) {
  const auto window = [&](int rank) {
    return absl::StrCat("domains/", domain.id(), "/ranks/", rank, "/buffers/x");
  };
  const auto fill = [&](const std::string& slot) {
    GraphBuilder graph;
    graph.Task("fill", chip, {graph.Tensor("x", slot, v1::F32, {kCount})}).Scalar(0.0);
    return scene.session().Submit(graph).status();
  };
  const std::string what = absl::StrCat("chips/", chip, " and ", domain.id());
  PTO_RETURN_IF_ERROR(
      ExpectReason(scene.session().GetBuffer(window(2)).status(), reason::kBufferUnknown, what));
  PTO_RETURN_IF_ERROR(ExpectReason(fill(window(2)), reason::kBufferUnknown, what));
  return ExpectReason(fill(window(0)), reason::kBufferOnOtherChip, what);
}

}  // namespace

absl::Status DualDomainOverlap(Client& client, const Options& options) {
  PTO_ASSIGN_OR_RETURN(Scene scene, Scene::Create(client, options));
  PTO_ASSIGN_OR_RETURN(const AffineDomain left, AffineDomain::Create(scene, "left", {0, 1}));
  PTO_ASSIGN_OR_RETURN(const AffineDomain right, AffineDomain::Create(scene, "right", {1, 2}));
  for (const auto& [domain, id] : {std::pair(&left, "left"), std::pair(&right, "right")}) {
    GraphBuilder graph;
    domain->AddTasks(graph, scene, /*gated=*/true);
    PTO_RETURN_IF_ERROR(scene.session().Register(id, graph).status());
  }
  WatchOptions watch;
  watch.max_linger = absl::Microseconds(100);
  PTO_ASSIGN_OR_RETURN(EventStream events, scene.session().Watch(watch));
  // One run in each domain, at the same time: neither continues before both have computed their
  // sums, so a run that waited for the other's end would wait forever.
  return scene.Repeat([&](int repetition) -> absl::Status {
    PTO_RETURN_IF_ERROR(left.WriteInputs(repetition));
    PTO_RETURN_IF_ERROR(right.WriteInputs(repetition));
    PTO_ASSIGN_OR_RETURN(const Run left_run, scene.session().Launch("left"));
    PTO_ASSIGN_OR_RETURN(const Run right_run, scene.session().Launch("right"));
    PTO_RETURN_IF_ERROR(AwaitFirstTasks(events, left_run, right_run));
    PTO_RETURN_IF_ERROR(left.Open());
    PTO_RETURN_IF_ERROR(right.Open());
    PTO_RETURN_IF_ERROR(scene.WaitFor(left_run));
    PTO_RETURN_IF_ERROR(scene.WaitFor(right_run));
    PTO_RETURN_IF_ERROR(left.Check(repetition));
    return right.Check(repetition);
  });
}

absl::Status DomainRankMap(Client& client, const Options& options) {
  PTO_ASSIGN_OR_RETURN(Scene scene, Scene::Create(client, options));
  PTO_ASSIGN_OR_RETURN(const AffineDomain even, AffineDomain::Create(scene, "even", {0, 2}));
  PTO_ASSIGN_OR_RETURN(const AffineDomain tail, AffineDomain::Create(scene, "tail", {1, 2}));
  // Chip 2 is the last rank in both domains, with separate memory in each.
  for (const AffineDomain* made : {&even, &tail}) {
    PTO_ASSIGN_OR_RETURN(const v1::Domain domain, made->domain().Get());
    const std::string last = absl::StrCat("chips/", scene.chip(2));
    if (domain.chips_size() != 2 || domain.chips(1) != last) {
      return absl::DataLossError(absl::StrCat(domain.name(), ": rank 1 is not ", last));
    }
  }
  PTO_RETURN_IF_ERROR(ExpectNoMember(scene, even.domain(), scene.chip(1)));
  PTO_RETURN_IF_ERROR(ExpectNoMember(scene, tail.domain(), scene.chip(0)));
  GraphBuilder graph;
  even.AddTasks(graph, scene, /*gated=*/false);
  tail.AddTasks(graph, scene, /*gated=*/false);
  return scene.RunGraph(
      graph,
      [&](int repetition) -> absl::Status {
        PTO_RETURN_IF_ERROR(even.WriteInputs(repetition));
        return tail.WriteInputs(repetition);
      },
      [&](int repetition) -> absl::Status {
        PTO_RETURN_IF_ERROR(even.Check(repetition));
        return tail.Check(repetition);
      });
}

}  // namespace pto::scenarios
