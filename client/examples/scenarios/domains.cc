// Chips that are members of several domains, with another rank in each.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/examples/scenarios/list.h"
#include "client/examples/scenarios/scene.h"
#include "runtime/base/status_macros.h"

namespace pto::scenarios {
namespace {

constexpr int64_t kCount = 256;

// A domain over some of the scene's ranks, in which their numbers are added up and then scaled
// and shifted. `place` below is a rank of the scene, which is another one in the domain.
class AffineDomain {
 public:
  static absl::StatusOr<AffineDomain> Create(Scene& scene, const char* id,
                                             std::vector<uint32_t> places) {
    PTO_ASSIGN_OR_RETURN(Domain domain, scene.MakeDomain(id,
                                                         {{"x", v1::F32, kCount},
                                                          {"sum", v1::F32, kCount},
                                                          {"bias", v1::F32, kCount},
                                                          {"y", v1::F32, kCount}},
                                                         0, places));
    for (uint32_t r = 0; r < places.size(); ++r) {
      std::vector<float> x(kCount);
      for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(X(places[r], i));
      PTO_RETURN_IF_ERROR(WindowOf(domain, r, "x").Write(x));
      PTO_RETURN_IF_ERROR(
          WindowOf(domain, r, "bias")
              .Write(std::vector<float>(kCount, static_cast<float>(Bias(places[r])))));
    }
    return AffineDomain(std::move(domain), std::move(places));
  }

  void AddTasks(GraphBuilder& graph, const Scene& scene) const {
    std::vector<GroupMember> members;
    for (uint32_t r = 0; r < places_.size(); ++r) {
      members.push_back({scene.chip(places_[r]), {View(graph, r, "x"), View(graph, r, "sum")}});
    }
    graph.Group("all_reduce", members).Scalar(1).Scalar(0).Scalar(0);
    for (uint32_t r = 0; r < places_.size(); ++r) {
      const uint32_t chip = scene.chip(places_[r]);
      const TensorRef y = View(graph, r, "y");
      graph.Task("scale", chip, {View(graph, r, "sum"), y}).Scalar(Scale(places_[r]));
      graph.Task("add", chip, {y, View(graph, r, "bias"), y});
    }
  }

  absl::Status Check() const {
    for (uint32_t r = 0; r < places_.size(); ++r) {
      PTO_ASSIGN_OR_RETURN(const std::vector<float> y,
                           WindowOf(domain_, r, "y").Read<float>(kCount));
      PTO_RETURN_IF_ERROR(Expect(
          absl::StrCat(domain_.id(), ": y of rank ", r), y,
          [&](size_t i) {
            double sum = 0;
            for (const uint32_t place : places_) sum += X(place, i);
            return Scale(places_[r]) * sum + Bias(places_[r]);
          },
          1e-3));
    }
    return absl::OkStatus();
  }

  const Domain& domain() const { return domain_; }

 private:
  AffineDomain(Domain domain, std::vector<uint32_t> places)
      : domain_(std::move(domain)), places_(std::move(places)) {}

  static double X(uint32_t place, size_t i) { return 100.0 * place + static_cast<double>(i); }
  static double Scale(uint32_t place) { return 0.5 + 0.01 * place; }
  static double Bias(uint32_t place) { return 10.0 + place; }
  TensorRef View(GraphBuilder& graph, uint32_t rank, const char* name) const {
    return WindowTensor(graph, domain_, rank, name, v1::F32, {kCount});
  }

  Domain domain_;
  std::vector<uint32_t> places_;
};

}  // namespace

absl::Status DualDomainOverlap(Client& client, const Options& options) {
  PTO_ASSIGN_OR_RETURN(Scene scene, Scene::Create(client, options));
  PTO_ASSIGN_OR_RETURN(const AffineDomain left, AffineDomain::Create(scene, "left", {0, 1}));
  PTO_ASSIGN_OR_RETURN(const AffineDomain right, AffineDomain::Create(scene, "right", {1, 2}));
  // A run in each, at the same time: nothing orders them but the cores they share.
  for (const auto& [domain, id] : {std::pair(&left, "left"), std::pair(&right, "right")}) {
    GraphBuilder graph;
    domain->AddTasks(graph, scene);
    PTO_RETURN_IF_ERROR(scene.session().Register(id, graph).status());
  }
  for (int i = 0; i < scene.repeat(); ++i) {
    PTO_ASSIGN_OR_RETURN(const Run left_run, scene.session().Launch("left"));
    PTO_ASSIGN_OR_RETURN(const Run right_run, scene.session().Launch("right"));
    for (const Run* run : {&left_run, &right_run}) {
      PTO_ASSIGN_OR_RETURN(const v1::Run ended, run->Wait());
      PTO_RETURN_IF_ERROR(StatusOf(ended));
    }
    PTO_RETURN_IF_ERROR(left.Check());
    PTO_RETURN_IF_ERROR(right.Check());
  }
  return absl::OkStatus();
}

absl::Status DomainRankMap(Client& client, const Options& options) {
  PTO_ASSIGN_OR_RETURN(Scene scene, Scene::Create(client, options));
  PTO_ASSIGN_OR_RETURN(const AffineDomain even, AffineDomain::Create(scene, "even", {0, 2}));
  PTO_ASSIGN_OR_RETURN(const AffineDomain tail, AffineDomain::Create(scene, "tail", {1, 2}));
  // Chip 2 is the last rank in both, with memory of its own in each.
  for (const AffineDomain* made : {&even, &tail}) {
    PTO_ASSIGN_OR_RETURN(const v1::Domain domain, made->domain().Get());
    const std::string last = absl::StrCat("chips/", scene.chip(2));
    if (domain.chips_size() != 2 || domain.chips(1) != last) {
      return absl::DataLossError(absl::StrCat(domain.name(), ": rank 1 is not ", last));
    }
    if (made->domain().Window(2, "x").ok()) {
      return absl::DataLossError(absl::StrCat(domain.name(), " has a rank 2"));
    }
  }
  GraphBuilder graph;
  even.AddTasks(graph, scene);
  tail.AddTasks(graph, scene);
  return scene.RunGraph(
      graph, [] { return absl::OkStatus(); },
      [&]() -> absl::Status {
        PTO_RETURN_IF_ERROR(even.Check());
        return tail.Check();
      });
}

}  // namespace pto::scenarios
