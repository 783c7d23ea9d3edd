#include "daemon/graph/packed_decoder.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/graph/fields.h"
#include "daemon/names/names.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::daemon {
namespace {

absl::Status OrderError(absl::string_view part, absl::string_view message) {
  return Error(reason::kStreamOrder, message).At(part);
}

}  // namespace

PackedDecoder::PackedDecoder(const engine::GraphTarget& target, uint32_t max_block_tasks,
                             const GraphLimits& limits, engine::WorkBudget::Cancelled cancelled)
    : target_(target),
      cancelled_(std::move(cancelled)),
      reader_(
          target,
          {.max_block_tasks = max_block_tasks, .max_tasks = target.max_tasks, .limits = limits}) {
  builder_.emplace(target, engine::GraphBuilder::Options{.cancelled = cancelled_});
  reader_.Use(&*builder_);
}

absl::Status PackedDecoder::Add(const v1::PackedGraphPart& part) {
  if (status_.ok()) status_ = AddPart(part);
  return status_;
}

absl::Status PackedDecoder::AddPart(const v1::PackedGraphPart& part) {
  if (has_commit_) return OrderError("commit", "a chunk came after the commit");
  switch (part.part_case()) {
    case v1::PackedGraphPart::kHeader:
      if (has_header_) return OrderError("header", "a second header came");
      return AddHeader(part.header());
    case v1::PackedGraphPart::kTensors:
      if (!has_header_) return OrderError("tensors", "a chunk came before the header");
      return reader_.AddTensors(part.tensors(), tensor_chunks_++);
    case v1::PackedGraphPart::kTasks:
      if (!has_header_) return OrderError("tasks", "a chunk came before the header");
      return reader_.AddTasks(part.tasks(), task_chunks_++);
    case v1::PackedGraphPart::kCommit:
      if (!has_header_) return OrderError("commit", "the commit came before the header");
      return AddCommit(part.commit());
    case v1::PackedGraphPart::PART_NOT_SET:
      break;
  }
  return Error(reason::kFieldInvalid, "a chunk is empty")
      .At("part")
      .Hint("set header, tensors, tasks or commit");
}

absl::Status PackedDecoder::AddHeader(const v1::PackedHeader& header) {
  PTO_ASSIGN_OR_RETURN(session_, names::ParseSession(header.parent(), "header.parent"));
  if (!header.id().empty()) PTO_RETURN_IF_ERROR(names::CheckId(header.id(), "header.id"));
  if (header.explicit_dependencies_only()) {
    builder_.emplace(target_, engine::GraphBuilder::Options{.find_dependencies = false,
                                                            .cancelled = cancelled_});
    reader_.Use(&*builder_);
  }
  PTO_RETURN_IF_ERROR(reader_.AddKernels(header.kernels(), "header.kernels"));
  if (header.chips().empty()) {
    return Error(reason::kFieldInvalid, "at least one chip is needed").At("header.chips");
  }
  PTO_RETURN_IF_ERROR(reader_.AddChips(header.chips(), "header.chips"));
  for (int i = 0; i < header.buffers_size(); ++i) {
    PTO_ASSIGN_OR_RETURN(const std::string id, ReadBuffer(header.buffers(i), session_,
                                                          absl::StrCat("header.buffers[", i, "]")));
    reader_.AddSlot(builder_->AddSlot(id));
  }
  PTO_RETURN_IF_ERROR(reader_.AddDomains(header.domains(), session_, "header.domains"));
  PTO_RETURN_IF_ERROR(reader_.AddLayouts(header.layouts(), "header.layouts"));
  PTO_RETURN_IF_ERROR(reader_.AddLaunches(header.launches(), "header.launches"));
  header_ = header;
  has_header_ = true;
  return absl::OkStatus();
}

absl::Status PackedDecoder::AddCommit(const v1::PackedCommit& commit) {
  if (commit.task_count() != builder_->task_count()) {
    return Error(reason::kBlockInvalid,
                 absl::StrCat("the commit counts ", commit.task_count(), " tasks, but ",
                              builder_->task_count(), " came"))
        .At("commit.task_count")
        .With("block", task_chunks_)
        .With("row", 0)
        .With("have", builder_->task_count())
        .With("want", commit.task_count());
  }
  has_commit_ = true;
  return absl::OkStatus();
}

absl::StatusOr<DecodedGraph> PackedDecoder::Finish() {
  PTO_RETURN_IF_ERROR(status_);
  if (!has_header_) return Error(reason::kStreamEmpty, "the stream has no header").At("header");
  if (!has_commit_) return Error(reason::kStreamEmpty, "the stream has no commit").At("commit");
  PTO_ASSIGN_OR_RETURN(std::shared_ptr<const engine::GraphImage> image, builder_->Build());
  return DecodedGraph{std::move(image)};
}

}  // namespace pto::daemon
