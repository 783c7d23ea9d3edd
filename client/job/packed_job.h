#pragma once

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "client/graph_builder.h"
#include "pto/v1/graph.pb.h"
#include "pto/v1/kernel.pb.h"

namespace pto::job {

// Puts a graph with names into a builder, which can send it in columns. Named scalars become
// their values. `kernels` tells which scalars are integers: in columns a number has no kind of
// its own. The graph must have passed PrepareJob.
absl::Status FillBuilder(const pto::v1::GraphSpec& graph, absl::Span<const pto::v1::Kernel> kernels,
                         GraphBuilder* builder);

// The same in steps: the tensors once, then the tasks as often as wanted, without their names.
// All must outlive it.
class GraphFiller {
 public:
  GraphFiller(const pto::v1::GraphSpec& graph, absl::Span<const pto::v1::Kernel> kernels,
              GraphBuilder* builder);

  void AddTensors();
  // Tasks wait for those of the same round that they name.
  absl::Status AddTasks(bool with_names);

 private:
  const pto::v1::GraphSpec& graph_;
  GraphBuilder* const builder_;
  absl::flat_hash_map<std::string, const pto::v1::Kernel*> signatures_;
  absl::flat_hash_map<std::string, pto::v1::Scalar> scalars_;
  absl::flat_hash_map<std::string, TensorRef> tensors_;
};

}  // namespace pto::job
