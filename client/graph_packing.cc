// The packed format of a graph: GraphBuilder::BuildPacked and its helpers.

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "client/graph_builder.h"
#include "runtime/base/error.h"

namespace pto {
namespace {

// Matches `domains/{domain}/ranks/{rank}/signals`, with or without the session name, but not a
// window buffer that is named `signals`.
bool IsSignals(absl::string_view slot) {
  return absl::EndsWith(slot, "/signals") && !absl::EndsWith(slot, "/buffers/signals");
}

}  // namespace

absl::StatusOr<std::vector<v1::PackedGraphPart>> GraphBuilder::BuildPacked(
    uint32_t max_block_tasks) const {
  if (absl::Status wrong = Check(); !wrong.ok()) return wrong;
  if (absl::Status wrong = CheckPackable(); !wrong.ok()) return wrong;
  const uint64_t rows = std::max<uint32_t>(1, max_block_tasks);
  std::vector<v1::PackedGraphPart> parts;
  parts.reserve(2 + (tensors_.size() + rows - 1) / rows + (tasks_.size() + rows - 1) / rows);
  *parts.emplace_back().mutable_header() = PackHeader();
  for (uint64_t begin = 0; begin < tensors_.size(); begin += rows) {
    *parts.emplace_back().mutable_tensors() =
        PackTensors(begin, std::min<uint64_t>(begin + rows, tensors_.size()));
  }
  for (uint64_t begin = 0; begin < tasks_.size(); begin += rows) {
    *parts.emplace_back().mutable_tasks() =
        PackTasks(begin, std::min<uint64_t>(begin + rows, tasks_.size()));
  }
  parts.emplace_back().mutable_commit()->set_task_count(tasks_.size());
  return parts;
}

absl::Status GraphBuilder::CheckPackable() const {
  for (uint64_t i = 0; i < tasks_.size(); ++i) {
    for (const ScalarRow& scalar : RowsOf(i).scalars) {
      if (scalar.kind != ScalarKind::kRef) continue;
      return Error(reason::kScalarInvalid, "a packed graph cannot refer to scalars by name")
          .At(absl::StrCat("graph.tasks[", first_task_ + i, "].scalars"))
          .Hint("use the value itself, or send the graph unpacked");
    }
  }
  return absl::OkStatus();
}

void GraphBuilder::PackLists(v1::StreamRunBlock& segment) {
  for (; sent_.kernels < kernels_.list().size(); ++sent_.kernels) {
    segment.add_kernels(kernels_.list()[sent_.kernels]);
  }
  for (; sent_.chips < chips_.size(); ++sent_.chips) {
    segment.add_chips(absl::StrCat("chips/", chips_[sent_.chips]));
  }
  for (; sent_.slots < slots_.list().size(); ++sent_.slots) {
    segment.add_buffers(slots_.list()[sent_.slots]);
  }
  for (; sent_.domains < domains_.list().size(); ++sent_.domains) {
    segment.add_domains(domains_.list()[sent_.domains]);
  }
  for (; sent_.layouts < layouts_.size(); ++sent_.layouts) {
    *segment.add_layouts() = layouts_[sent_.layouts];
  }
  for (; sent_.launches < launches_.size(); ++sent_.launches) {
    *segment.add_launches() = ToLaunch(launches_[sent_.launches]);
  }
}

bool GraphBuilder::UsesSignals() const {
  std::vector<bool> signals(slots_.list().size());
  std::transform(slots_.list().begin(), slots_.list().end(), signals.begin(), IsSignals);
  const auto on_signals = [&](uint32_t tensor) { return signals[tensors_[tensor].slot]; };
  // Only for these tasks, because those of earlier tasks were cleared.
  if (std::any_of(args_.begin(), args_.end(), on_signals)) return true;
  const auto is_domain = [](const ScalarRow& scalar) { return scalar.kind == ScalarKind::kDomain; };
  if (std::any_of(scalars_.begin(), scalars_.end(), is_domain)) return true;
  return std::any_of(extras_.begin(), extras_.end(), [&](const auto& extra) {
    const ExtraRow& row = extra.second;
    if (row.predicate.has_value() && on_signals(row.predicate->tensor)) return true;
    return std::any_of(row.members.begin(), row.members.end(), [&](const MemberRow& member) {
      return std::any_of(member.args.begin(), member.args.end(), on_signals);
    });
  });
}

absl::StatusOr<std::vector<v1::StreamRunBlock>> GraphBuilder::TakeBlocks(uint32_t max_block_tasks) {
  if (!status_.ok()) return status_;
  if (absl::Status wrong = CheckPackable(); !wrong.ok()) return wrong;
  const uint64_t rows = std::max<uint32_t>(1, max_block_tasks);
  // Signals start at zero in each segment, and segments that use them run one after the other. If a
  // wait and its notification were in different segments, the run would hang.
  if (tasks_.size() > rows && UsesSignals()) {
    return Error(reason::kGraphTooLarge,
                 absl::StrCat("tasks that use signals of a domain must be sent in one segment of "
                              "at most ",
                              rows, " tasks, but there are ", tasks_.size()))
        .Limit("max_block_tasks", rows, 0, tasks_.size())
        .Hint(
            "begin another run and call Flush more often, but keep each wait and its notification "
            "in the same segment");
  }
  std::vector<v1::StreamRunBlock> segments;
  // Tensors come first, in separate messages if there are many.
  while (sent_.tensors < tensors_.size()) {
    const uint64_t end = std::min<uint64_t>(sent_.tensors + rows, tensors_.size());
    PackLists(segments.emplace_back());
    *segments.back().mutable_tensors() = PackTensors(sent_.tensors, end);
    sent_.tensors = end;
  }
  for (uint64_t begin = 0; begin < tasks_.size(); begin += rows) {
    if (begin > 0 || segments.empty()) PackLists(segments.emplace_back());
    *segments.back().mutable_tasks() =
        PackTasks(begin, std::min<uint64_t>(begin + rows, tasks_.size()));
  }
  first_task_ += tasks_.size();
  tasks_.clear();
  task_names_.clear();
  task_name_set_.clear();
  args_.clear();
  scalars_.clear();
  deps_.clear();
  extras_.clear();
  return segments;
}

v1::PackedHeader GraphBuilder::PackHeader() const {
  v1::PackedHeader header;
  header.set_explicit_dependencies_only(explicit_dependencies_only_);
  for (const std::string& kernel : kernels_.list()) header.add_kernels(kernel);
  for (uint32_t chip : chips_) header.add_chips(absl::StrCat("chips/", chip));
  for (const std::string& slot : slots_.list()) header.add_buffers(slot);
  for (const std::string& domain : domains_.list()) header.add_domains(domain);
  for (const v1::Layout& layout : layouts_) *header.add_layouts() = layout;
  for (const LaunchRow& launch : launches_) *header.add_launches() = ToLaunch(launch);
  return header;
}

v1::TensorBlock GraphBuilder::PackTensors(uint64_t begin, uint64_t end) const {
  v1::TensorBlock chunk;
  int64_t before = 0;
  for (uint64_t i = begin; i < end; ++i) {
    const TensorRow& row = tensors_[i];
    chunk.add_buffer(row.slot);
    chunk.add_layout(row.layout);
    chunk.add_offset_delta(row.offset - before);
    before = row.offset;
  }
  return chunk;
}

void GraphBuilder::PackExtra(const ExtraRow& row, v1::TaskExtra& extra) {
  for (const MemberRow& in : row.members) {
    v1::PackedMember& member = *extra.add_members();
    member.set_chip(in.chip);
    member.mutable_args()->Add(in.args.begin(), in.args.end());
  }
  extra.set_no_dependency_mask(row.no_dependency_mask);
  if (!row.predicate.has_value()) return;
  extra.mutable_predicate()->set_tensor(row.predicate->tensor);
  extra.mutable_predicate()->set_compare(row.predicate->compare);
  extra.mutable_predicate()->set_value(row.predicate->value);
}

v1::TaskBlock GraphBuilder::PackTasks(uint64_t begin, uint64_t end) const {
  v1::TaskBlock chunk;
  chunk.set_first_task(first_task_ + begin);
  bool other_chip = false;
  bool other_launch = false;
  int64_t before = 0;
  for (uint64_t i = begin; i < end; ++i) {
    const TaskRow& row = tasks_[i];
    const Rows rows = RowsOf(i);
    chunk.add_kernel(row.kernel);
    chunk.add_chip(row.chip);
    chunk.add_launch(row.launch);
    chunk.add_dep_count(static_cast<uint32_t>(rows.deps.size()));
    other_chip |= row.chip != 0;
    other_launch |= row.launch != 0;
    for (uint32_t dep : rows.deps) {
      chunk.add_dep_back(static_cast<uint32_t>(first_task_ + i - dep));
    }
    for (uint32_t arg : rows.args) {
      chunk.add_arg_delta(static_cast<int64_t>(arg) - before);
      before = arg;
    }
    for (const ScalarRow& scalar : rows.scalars) chunk.add_scalar(scalar.bits);
    if (const ExtraRow* extra = ExtraOf(first_task_ + i); extra != nullptr) {
      v1::TaskExtra& packed = *chunk.add_extras();
      packed.set_row(static_cast<uint32_t>(i - begin));
      PackExtra(*extra, packed);
    }
  }
  // Omit columns that contain only default values.
  if (!other_chip) chunk.clear_chip();
  if (!other_launch) chunk.clear_launch();
  if (chunk.dep_back().empty()) chunk.clear_dep_count();
  return chunk;
}

}  // namespace pto
