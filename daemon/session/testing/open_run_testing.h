#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "daemon/run/streamed_run.h"
#include "daemon/session/session.h"
#include "kernels/builtin_kernels.h"
#include "runtime/graph/open_graph.h"

namespace pto::daemon::testing {

// A buffer, the chip that it is on, and how much of it a task fills.
struct Place {
  std::string buffer;
  uint32_t chip = 0;
  int64_t floats = 16;
};

// An open run of tasks that fill buffers, on two chips of two clusters. For one thread.
class OpenFill {
 public:
  // Fails the program when the session does not take the run.
  OpenFill(Session& session, const std::string& id, RunTerms terms = {})
      : OpenFill(session.StartOpenRun(Named(id, std::move(terms))).value()) {}
  // Of a run that has no segment yet.
  explicit OpenFill(std::shared_ptr<StreamedRun> run) : run_(std::move(run)) {
    engine::GraphTarget target;
    target.kernels = &BuiltinKernels();
    target.chip_clusters = {2, 2};
    graph_ = std::make_unique<engine::OpenGraph>(target);
  }

  // Appends one segment with a task for each place.
  absl::Status Add(const std::vector<Place>& places) {
    const engine::ScalarInput value;  // all segments fill with zeros
    for (const Place& place : places) {
      const std::vector<int64_t> shape = {place.floats};
      const uint32_t layout = graph_->AddLayout(PTO_F32, shape, {}).value();
      const uint32_t tensor = graph_->AddTensor(graph_->AddSlot(place.buffer), layout, 0).value();
      engine::TaskInput task;
      task.kernel = graph_->AddKernel("fill").value();
      task.chip = place.chip;
      task.args = absl::MakeConstSpan(&tensor, 1);
      task.scalars = absl::MakeConstSpan(&value, 1);
      graph_->AddTask(task).value();
    }
    return run_->Append(graph_->Cut().value());
  }

  StreamedRun& run() const { return *run_; }
  const std::shared_ptr<StreamedRun>& shared_run() const { return run_; }
  engine::RunState state() const { return run_->Status().state; }

 private:
  static RunTerms Named(const std::string& id, RunTerms terms) {
    terms.id = id;
    return terms;
  }

  std::shared_ptr<StreamedRun> run_;
  std::unique_ptr<engine::OpenGraph> graph_;
};

}  // namespace pto::daemon::testing
