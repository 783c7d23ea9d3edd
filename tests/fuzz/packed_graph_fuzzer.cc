// Packed graphs, and the segments of open runs: any input results in either a valid graph that runs
// to its end, or an error with a reason.

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "daemon/graph/open_decoder.h"
#include "daemon/graph/packed_decoder.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "tests/fuzz/expect.h"
#include "tests/fuzz/graph_target.h"
#include "tests/fuzz/image_check.h"
#include "tests/fuzz/image_runner.h"
#include "tests/fuzz/message_mutator.h"
#include "tests/fuzz/packed_graph.pb.h"

namespace pto::fuzz {
namespace {

constexpr uint32_t kMaxBlockTasks = 100;

void DecodeGraph(const PackedGraphInput& input, const engine::GraphTarget& target) {
  daemon::PackedDecoder decoder(target, kMaxBlockTasks, kSmallLimits);
  absl::Status status;
  uint64_t tasks = 0;
  for (const v1::PackedGraphPart& part : input.parts()) {
    const absl::Status added = decoder.Add(part);
    PTO_CHECK(status.ok() || added == status, "after an error comes the same error");
    status = added;
    if (part.has_tasks()) tasks += static_cast<uint64_t>(part.tasks().kernel_size());
  }
  const absl::StatusOr<daemon::DecodedGraph> graph = decoder.Finish();
  PTO_CHECK(status.ok() || graph.status() == status, "an error is not forgotten");
  if (!graph.ok()) return ExpectReason(graph.status());
  PTO_CHECK(graph->image->task_count() == tasks, "all tasks that came");
  CheckImage(*graph->image, target);
  RunImage(graph->image, target);
}

// The session's buffers of an open run: some are small, some have a chip.
absl::StatusOr<engine::OpenGraph::SlotMemory> FindBuffer(absl::string_view id) {
  engine::OpenGraph::SlotMemory memory;
  memory.bytes = 1 << 20;
  switch (id.back()) {
    case 'x':
      return engine::OpenGraph::SlotMemory{0, 64};
    case 'y':
      return engine::OpenGraph::SlotMemory{1, 64};
    case 'z':
      return Error(reason::kBufferUnknown, absl::StrCat("there is no buffer ", id));
    default:
      return memory;
  }
}

void CheckSegment(const engine::GraphSegment& segment, const engine::GraphTarget& target) {
  const engine::GraphImage& image = *segment.image;
  CheckImage(image, target);
  PTO_CHECK(segment.slots.size() == image.slots().size(), "each slot is one of the run's");
  for (const engine::ImageSlot& slot : image.slots()) {
    const absl::StatusOr<engine::OpenGraph::SlotMemory> memory = FindBuffer(image.text(slot.name));
    PTO_CHECK(memory.ok(), "a slot is a buffer");
    PTO_CHECK(slot.min_bytes <= memory->bytes, "no tensor reaches beyond its buffer");
    PTO_CHECK(memory->chip == engine::ImageSlot::kUnused ||
                  slot.chip >= engine::ImageSlot::kAnyChip || slot.chip == memory->chip,
              "a slot is where its buffer is");
  }
  uint32_t last = 0;
  for (const engine::GraphSegment::Link& link : segment.links) {
    PTO_CHECK(link.task < image.task_count(), "a link's task");
    PTO_CHECK(link.task >= last, "links are in order of their tasks");
    PTO_CHECK(link.before < segment.first_task, "a link leads to an earlier segment");
    last = link.task;
  }
  RunImage(segment.image, target);
}

void DecodeOpenRun(const PackedGraphInput& input, const engine::GraphTarget& target) {
  daemon::OpenDecoder::Options options;
  options.session = "s";
  options.max_block_tasks = kMaxBlockTasks;
  options.limits = kSmallLimits;
  // Tries both settings without spending input bytes on the choice.
  options.find_dependencies = input.blocks_size() % 4 != 3;
  options.run_timeout_ns = 60'000'000'000;
  options.find_buffer = FindBuffer;
  daemon::OpenDecoder decoder(target, options);
  uint32_t tasks = 0;
  for (const v1::StreamRunBlock& block : input.blocks()) {
    const absl::StatusOr<absl::optional<engine::GraphSegment>> segment = decoder.Add(block);
    if (!segment.ok()) return ExpectReason(segment.status());
    if (segment->has_value()) {
      PTO_CHECK((*segment)->first_task == tasks, "segments follow each other");
      tasks += (*segment)->image->task_count();
      CheckSegment(**segment, target);
    }
    PTO_CHECK(decoder.tasks() == tasks, "all tasks that came");
    // After some segments, all their tasks have ended when the next one arrives.
    if (decoder.blocks() % 2 == 0) decoder.ForgetBefore(tasks);
  }
}

}  // namespace
}  // namespace pto::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto* const target = new pto::engine::GraphTarget(pto::fuzz::SmallTarget());
  pto::fuzz::PackedGraphInput input;
  if (!input.ParseFromArray(data, static_cast<int>(size))) return 0;
  pto::fuzz::DecodeGraph(input, *target);
  pto::fuzz::DecodeOpenRun(input, *target);
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {
  return pto::fuzz::MutateInput<pto::fuzz::PackedGraphInput>(data, size, max_size, seed,
                                                             pto::fuzz::kGraphWords);
}

extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t* data1, size_t size1,
                                            const uint8_t* data2, size_t size2, uint8_t* out,
                                            size_t max_out, unsigned) {
  return pto::fuzz::CrossInputs<pto::fuzz::PackedGraphInput>(data1, size1, data2, size2, out,
                                                             max_out);
}
