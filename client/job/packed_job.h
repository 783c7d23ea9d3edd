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

// Copies a graph with names into a builder, which can send it in the packed format. Named scalars
// are replaced by their values. `kernels` tells which scalars are integers, because packed numbers
// have no type. The graph must have passed PrepareJob.
absl::Status FillBuilder(const pto::v1::GraphSpec& graph, absl::Span<const pto::v1::Kernel> kernels,
                         GraphBuilder* builder);

// The same in steps: add the tensors once, then the tasks any number of times, without names. The
// arguments of the constructor must outlive the object.
class GraphFiller {
 public:
  GraphFiller(const pto::v1::GraphSpec& graph, absl::Span<const pto::v1::Kernel> kernels,
              GraphBuilder* builder);

  void AddTensors();
  // Explicit dependencies refer to tasks of the same round.
  absl::Status AddTasks(bool with_names);

 private:
  const pto::v1::GraphSpec& graph_;
  GraphBuilder* const builder_;
  absl::flat_hash_map<std::string, const pto::v1::Kernel*> signatures_;
  absl::flat_hash_map<std::string, pto::v1::Scalar> scalars_;
  absl::flat_hash_map<std::string, TensorRef> tensors_;
};

}  // namespace pto::job
