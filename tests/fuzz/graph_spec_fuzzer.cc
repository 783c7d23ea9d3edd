// Graphs in their nested form: any input results in either a valid graph that runs to its end and
// can be described, or an error with a reason.

#include <cstddef>
#include <cstdint>

#include "daemon/graph/spec_decoder.h"
#include "daemon/graph/structure.h"
#include "pto/v1/graph.pb.h"
#include "pto/v1/run.pb.h"
#include "runtime/base/log.h"
#include "tests/fuzz/expect.h"
#include "tests/fuzz/graph_target.h"
#include "tests/fuzz/image_check.h"
#include "tests/fuzz/image_runner.h"
#include "tests/fuzz/message_mutator.h"

namespace pto::fuzz {
namespace {

void Describe(const engine::GraphImage& image) {
  // In small pages, as small as possible.
  v1::GetGraphRequest request;
  request.set_max_tasks(7);
  uint64_t edges = 0;
  for (uint64_t next = 0; next < image.task_count();) {
    request.set_first_task(next);
    v1::GraphStructure structure;
    const absl::Status status = daemon::DescribeStructure(image, request, &structure, 200);
    PTO_CHECK(status.ok(), std::string(status.message()));
    PTO_CHECK(structure.kernel_size() > 0 && structure.kernel_size() <= 7, "a page of tasks");
    PTO_CHECK(structure.next_count_size() == structure.kernel_size(), "columns of one length");
    edges += static_cast<uint64_t>(structure.next_ahead_size());
    next += static_cast<uint64_t>(structure.kernel_size());
    PTO_CHECK(next <= image.task_count(), "no more tasks than there are");
  }
  PTO_CHECK(edges == image.edge_count(), "all edges are described");
}

void Decode(const v1::GraphSpec& spec, const engine::GraphTarget& target) {
  const absl::StatusOr<daemon::DecodedGraph> graph =
      daemon::DecodeGraphSpec(spec, "s", target, kSmallLimits);
  if (!graph.ok()) return ExpectReason(graph.status());
  const engine::GraphImage& image = *graph->image;
  PTO_CHECK(image.task_count() == static_cast<uint32_t>(spec.tasks_size()), "all tasks");
  PTO_CHECK(image.tensors().size() == static_cast<size_t>(spec.tensors_size()), "all tensors");
  // Behind them are the domains, if there are any.
  PTO_CHECK(image.scalar_names().size() >= static_cast<size_t>(spec.scalars_size()),
            "all named scalars");
  CheckImage(image, target);
  for (uint32_t i = 0; i < image.task_count(); ++i) {
    PTO_CHECK(image.task_name(i) == spec.tasks(static_cast<int>(i)).name(), "a task's name");
  }
  Describe(image);
  RunImage(graph->image, target);
}

}  // namespace
}  // namespace pto::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto* const target = new pto::engine::GraphTarget(pto::fuzz::SmallTarget());
  pto::v1::GraphSpec spec;
  if (spec.ParseFromArray(data, static_cast<int>(size))) pto::fuzz::Decode(spec, *target);
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {
  return pto::fuzz::MutateInput<pto::v1::GraphSpec>(data, size, max_size, seed,
                                                    pto::fuzz::kGraphWords);
}

extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t* data1, size_t size1,
                                            const uint8_t* data2, size_t size2, uint8_t* out,
                                            size_t max_out, unsigned) {
  return pto::fuzz::CrossInputs<pto::v1::GraphSpec>(data1, size1, data2, size2, out, max_out);
}
