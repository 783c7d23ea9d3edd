#include "daemon/graph/open_decoder.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "daemon/graph/fields.h"
#include "daemon/names/duration.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::daemon {
namespace {

// Includes found dependencies. Each costs memory until its tasks have ended.
constexpr uint64_t kMaxSegmentDependencies = 8'388'608;

engine::GraphTarget BlockTarget(engine::GraphTarget target) {
  target.max_dependencies = std::min(target.max_dependencies, kMaxSegmentDependencies);
  return target;
}

}  // namespace

OpenDecoder::OpenDecoder(const engine::GraphTarget& target, Options options)
    : options_(std::move(options)),
      graph_(BlockTarget(target),
             {.find_dependencies = options_.find_dependencies, .cancelled = options_.cancelled}),
      reader_(target, {.paths = ChunkReader<engine::OpenGraph>::Paths::kOpen,
                       .max_block_tasks = options_.max_block_tasks,
                       .limits = options_.limits}) {
  reader_.Use(&graph_);
}

absl::StatusOr<absl::optional<engine::GraphSegment>> OpenDecoder::Add(
    const v1::StreamRunBlock& message) {
  const uint32_t number = segments_++;
  absl::Status lists = AddLists(message, absl::StrCat("blocks[", number, "]."));
  if (!lists.ok()) return Annotate(lists, {{"block", absl::StrCat(number)}});
  if (message.has_tensors()) PTO_RETURN_IF_ERROR(reader_.AddTensors(message.tensors(), number));
  if (message.tasks().kernel().empty()) {
    // Columns without rows, or no columns.
    if (message.has_tasks()) PTO_RETURN_IF_ERROR(reader_.AddTasks(message.tasks(), number));
    return absl::optional<engine::GraphSegment>();
  }
  reader_.ForgetEdges();
  PTO_RETURN_IF_ERROR(reader_.AddTasks(message.tasks(), number));
  PTO_ASSIGN_OR_RETURN(engine::GraphSegment segment, graph_.Cut());
  return absl::optional<engine::GraphSegment>(std::move(segment));
}

absl::Status OpenDecoder::AddLists(const v1::StreamRunBlock& message, const std::string& path) {
  const int more = message.kernels_size() + message.chips_size() + message.buffers_size() +
                   message.layouts_size() + message.domains_size();
  listed_ += static_cast<uint64_t>(more);
  if (listed_ > options_.limits.max_tensors) {
    return Error(reason::kGraphTooLarge,
                 absl::StrCat("a run has at most ", options_.limits.max_tensors,
                              " kernels, chips, buffers, layouts and domains"))
        .At(path + "layouts")
        .Limit("max_graph_tensors", options_.limits.max_tensors,
               listed_ - static_cast<uint64_t>(more), static_cast<uint64_t>(more));
  }
  PTO_RETURN_IF_ERROR(reader_.AddKernels(message.kernels(), path + "kernels"));
  PTO_RETURN_IF_ERROR(reader_.AddChips(message.chips(), path + "chips"));
  PTO_RETURN_IF_ERROR(AddBuffers(message, path));
  PTO_RETURN_IF_ERROR(reader_.AddDomains(message.domains(), options_.session, path + "domains"));
  PTO_RETURN_IF_ERROR(reader_.AddLayouts(message.layouts(), path + "layouts"));
  PTO_RETURN_IF_ERROR(CheckTimes(message, path));
  return reader_.AddLaunches(message.launches(), path + "launches");
}

absl::Status OpenDecoder::AddBuffers(const v1::StreamRunBlock& message, const std::string& path) {
  for (int i = 0; i < message.buffers_size(); ++i) {
    const std::string field = absl::StrCat(path, "buffers[", i, "]");
    PTO_ASSIGN_OR_RETURN(const std::string id,
                         ReadBuffer(message.buffers(i), options_.session, field));
    const absl::StatusOr<engine::OpenGraph::SlotMemory> memory = options_.find_buffer(id);
    if (!memory.ok()) return PrefixField(memory.status(), field);
    reader_.AddSlot(graph_.AddSlot(id, *memory));
  }
  return absl::OkStatus();
}

absl::Status OpenDecoder::CheckTimes(const v1::StreamRunBlock& message,
                                     const std::string& path) const {
  if (options_.run_timeout_ns == 0) return absl::OkStatus();
  for (int i = 0; i < message.launches_size(); ++i) {
    if (!message.launches(i).has_timeout()) continue;
    const std::string field = absl::StrCat(path, "launches[", i, "].timeout");
    PTO_ASSIGN_OR_RETURN(const int64_t timeout_ns,
                         ParseTimeout(message.launches(i).timeout(), field));
    if (timeout_ns <= options_.run_timeout_ns) continue;
    const std::string task = absl::FormatDuration(absl::Nanoseconds(timeout_ns));
    const std::string run = absl::FormatDuration(absl::Nanoseconds(options_.run_timeout_ns));
    return Error(reason::kFieldInvalid,
                 absl::StrCat("a task has a timeout of ", task, ", but the run only ", run))
        .At(field)
        .With("launch.timeout", task)
        .With("timeout", run)
        .Hint("shorten launch.timeout, or extend the timeout of the run");
  }
  return absl::OkStatus();
}

}  // namespace pto::daemon
