#include "client/kernel_check/case_runner.h"

#include <malloc.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/dtype.h"

namespace pto::kernel_check {
namespace {

// CPU time that a kernel may use after its cancel flag was set.
constexpr double kCancelSeconds = 0.5;

// Leaves this byte in the stack that the next call will use, and in memory that it allocates, so
// that a kernel that reads variables that it has not set is likely to give different results.
__attribute__((noinline)) void Scribble(uint8_t byte) {
  volatile uint8_t stack[64 << 10];
  for (volatile uint8_t& each : stack) each = byte;
  mallopt(M_PERTURB, byte);
}

double CpuSeconds() {
  timespec now = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

bool IsFloat(uint32_t dtype) {
  return dtype == PTO_F32 || dtype == PTO_F64 || dtype == PTO_F16 || dtype == PTO_BF16;
}

}  // namespace

CaseRunner::CaseRunner(const CheckedKernel& kernel, const Options& options, const Case& chosen,
                       SharedState& state)
    : kernel_(kernel),
      info_(kernel.info()),
      options_(options),
      case_(chosen),
      state_(state),
      together_(kernel.together() || options.ranks > 1) {
  std::mt19937_64 random(case_.seed);
  CrashRecord& record = state_.crash;
  record.place_count = 0;
  for (uint32_t m = 0; m < options.ranks; ++m) {
    auto& tensors = tensors_.emplace_back();
    auto& contents = before_.emplace_back();
    for (uint32_t i = 0; i < info_.argument_count; ++i) {
      const Case::Argument& argument = case_.arguments[i];
      const std::string name = options.ranks == 1
                                   ? std::string(info_.arguments[i].name)
                                   : absl::StrCat(info_.arguments[i].name, " of rank ", m);
      tensors.push_back(
          std::make_unique<GuardedTensor>(name, argument.dtype, argument.shape, argument.layout));
      tensors.back()->FillRandom(random, argument.values.low, argument.values.high);
      contents.push_back(tensors.back()->Bits());
      if (record.place_count == CrashRecord::kMaxPlaces) continue;
      record.places[record.place_count] = tensors.back()->place();
      record.places[record.place_count].read_only = Writes(i) ? 0 : 1;
      ++record.place_count;
    }
  }
}

bool CaseRunner::Writes(uint32_t argument) const {
  return info_.arguments[argument].direction != PTO_INPUT;
}

GuardedTensor& CaseRunner::TensorOf(uint32_t member, uint32_t argument,
                                    const Variant& variant) const {
  const bool alias = variant.alias && argument == variant.alias_to;
  return *tensors_[member][alias ? variant.alias_from : argument];
}

void CaseRunner::Prepare(const Variant& variant) {
  for (uint32_t m = 0; m < tensors_.size(); ++m) {
    for (uint32_t i = 0; i < info_.argument_count; ++i) {
      GuardedTensor& tensor = *tensors_[m][i];
      tensor.SetReadOnly(false);
      tensor.FillGaps(variant.gaps);
      switch (info_.arguments[i].direction) {
        case PTO_OUTPUT:
          tensor.FillElements(variant.old_contents);
          break;
        case PTO_NO_DEPENDENCY:
          tensor.FillElements(0);
          break;
        default:
          tensor.SetBits(before_[m][i]);
          break;
      }
      tensor.SetReadOnly(!Writes(i) && !(variant.alias && i == variant.alias_from));
    }
  }
}

TaskResult CaseRunner::Call(const Variant& variant) {
  Task task;
  task.info = &info_;
  task.kernel_data = kernel_.data();
  task.scalars = case_.scalars;
  task.blocks = variant.blocks;
  task.order = variant.order;
  for (uint32_t m = 0; m < tensors_.size(); ++m) {
    auto& views = task.members.emplace_back();
    auto& buffers = task.buffers.emplace_back();
    for (uint32_t i = 0; i < info_.argument_count; ++i) {
      GuardedTensor& tensor = TensorOf(m, i, variant);
      views.push_back(tensor.view());
      buffers.push_back({tensor.buffer(), tensor.buffer_bytes()});
    }
  }
  state_.cancelled = variant.cancelled ? 1 : 0;
  state_.cancel_step = variant.cancelled ? 1 : 0;
  ++state_.steps;
  const int64_t wait_ns = absl::ToInt64Nanoseconds(options_.timeout) / 4;
  BlockEngine engine(task, state_.cancelled, wait_ns);
  Scribble(variant.old_contents);
  TaskResult result = engine.Run();
  ++state_.steps;
  return result;
}

TaskResult CaseRunner::RunVariant(const Variant& variant, Contents* contents) {
  Prepare(variant);
  TaskResult result = Call(variant);
  state_.calls += result.calls;
  for (const TaskResult::Complaint& complaint : result.complaints) {
    Report(complaint.problem, "", complaint.text);
  }
  contents->clear();
  for (uint32_t m = 0; m < tensors_.size(); ++m) {
    auto& of_member = contents->emplace_back();
    for (uint32_t i = 0; i < info_.argument_count; ++i) {
      const GuardedTensor& tensor = TensorOf(m, i, variant);
      if (const auto gap = tensor.FindTouchedGap(variant.gaps); gap.has_value()) {
        Report(Problem::kGapWritten, info_.arguments[i].name, absl::StrCat("wrote to ", *gap));
      }
      of_member.push_back(tensor.Bits());
    }
  }
  return result;
}

void CaseRunner::Run() {
  Variant variant;
  variant.blocks = case_.blocks;
  variant.order = together_ ? BlockOrder::kTogether : BlockOrder::kAscending;
  const TaskResult result = RunVariant(variant, &first_);
  if (result.code != PTO_OK) {
    // The kernel does not take this input, and says so.
    state_.refused = 1;
    state_.refusal = absl::StrCat(result.error, result.error.empty() ? "code " : " (code ",
                                  result.code, result.error.empty() ? "" : ")");
    return;
  }
  Compare(variant, Problem::kUnstable, "differs between two runs with the same inputs", 0);
  CompareOldContents(variant);
  // What is wrong so far shows in all other comparisons too, where it would only confuse.
  if (state_.finding_count > 0) return CheckCancel(variant);
  Variant other = variant;
  other.gaps = 0x3c;
  Compare(other, Problem::kGapRead, "depends on what is next to or between the elements of a view",
          together_ ? options_.tolerance : 0);
  if (case_.blocks > 1 && !together_) {
    other = variant;
    other.order = BlockOrder::kDescending;
    Compare(other, Problem::kBlockOrder, "differs when the last block runs first",
            options_.tolerance);
    other.order = BlockOrder::kTogether;
    Compare(other, Problem::kBlockOrder, "differs when the blocks run at the same time",
            options_.tolerance);
  }
  CompareBlockCounts(variant);
  CompareSameViews(variant);
  CheckCancel(variant);
}

bool CaseRunner::Same(const GuardedTensor& tensor, uint64_t one, uint64_t other, double largest,
                      double tolerance) const {
  if (one == other) return true;
  if (tolerance == 0 || !IsFloat(tensor.dtype())) return false;
  const double a = tensor.Value(one);
  const double b = tensor.Value(other);
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (tensor.dtype() == PTO_F16 || tensor.dtype() == PTO_BF16) tolerance *= 1000;
  return std::fabs(a - b) <= tolerance * largest;
}

void CaseRunner::Compare(const Variant& variant, Problem problem, const std::string& what,
                         double tolerance) {
  Contents after;
  const TaskResult result = RunVariant(variant, &after);
  if (result.code != PTO_OK) {
    return Report(problem, "",
                  absl::StrCat("whether it succeeds ", what, ": it failed with: ", result.error));
  }
  for (uint32_t m = 0; m < tensors_.size(); ++m) {
    for (uint32_t i = 0; i < info_.argument_count; ++i) {
      if (!Writes(i) || info_.arguments[i].direction == PTO_NO_DEPENDENCY) continue;
      const GuardedTensor& tensor = *tensors_[m][i];
      double largest = 0;
      for (const uint64_t bits : first_[m][i]) {
        const double value = std::fabs(tensor.Value(bits));
        if (std::isfinite(value)) largest = std::max(largest, value);
      }
      for (size_t e = 0; e < first_[m][i].size(); ++e) {
        const uint64_t one = first_[m][i][e];
        const uint64_t other = after[m][i][e];
        if (Same(tensor, one, other, largest, tolerance)) continue;
        return Report(
            problem, info_.arguments[i].name,
            absl::StrCat("element ", tensor.Index(static_cast<int64_t>(e)), " of ", tensor.name(),
                         " ", what, ": ", tensor.Value(one), " and ", tensor.Value(other)));
      }
    }
  }
}

void CaseRunner::CompareOldContents(Variant variant) {
  const uint8_t before = variant.old_contents;
  variant.old_contents = 0x5a;
  Contents after;
  if (RunVariant(variant, &after).code != PTO_OK) {
    return Report(Problem::kOldContents, "", "whether it succeeds depends on what an output held");
  }
  for (uint32_t m = 0; m < tensors_.size(); ++m) {
    for (uint32_t i = 0; i < info_.argument_count; ++i) {
      if (info_.arguments[i].direction != PTO_OUTPUT) continue;
      const GuardedTensor& tensor = *tensors_[m][i];
      size_t unwritten = 0;
      std::string first;
      for (size_t e = 0; e < after[m][i].size(); ++e) {
        const uint64_t one = first_[m][i][e];
        const uint64_t other = after[m][i][e];
        const std::string index = tensor.Index(static_cast<int64_t>(e));
        if (one == tensor.BitsOf(before) && other == tensor.BitsOf(variant.old_contents)) {
          if (unwritten++ == 0) first = index;
        } else if (!Same(tensor, one, other, std::fabs(tensor.Value(one)),
                         together_ ? options_.tolerance : 0)) {
          Report(Problem::kOldContents, info_.arguments[i].name,
                 absl::StrCat("element ", index, " of ", tensor.name(),
                              " depends on what the output held before: ", tensor.Value(one),
                              " and ", tensor.Value(other)));
          break;
        }
      }
      if (unwritten > 0) {
        Report(Problem::kUnwritten, info_.arguments[i].name,
               absl::StrCat(unwritten, " of ", after[m][i].size(), " elements of ", tensor.name(),
                            " are not written, the first is ", first));
      }
    }
  }
}

void CaseRunner::CompareBlockCounts(Variant variant) {
  const uint32_t given = variant.blocks;
  const std::vector<uint32_t> others =
      options_.blocks.empty() ? std::vector<uint32_t>{1, 3} : options_.blocks;
  for (const uint32_t blocks : others) {
    if (blocks == given) continue;
    variant.blocks = blocks;
    return Compare(variant, Problem::kBlockCount,
                   absl::StrCat("differs between ", given, " and ", blocks, " blocks"),
                   options_.tolerance);
  }
}

void CaseRunner::CompareSameViews(const Variant& variant) {
  if (info_.overlaps == nullptr) return;
  for (uint32_t to = 0; to < info_.argument_count; ++to) {
    if (info_.arguments[to].direction != PTO_OUTPUT) continue;
    for (uint32_t from = 0; from < info_.argument_count; ++from) {
      if ((info_.overlaps[to].same & PTO_ARGUMENT_BIT(from)) == 0 || Writes(from) ||
          case_.arguments[to].dtype != case_.arguments[from].dtype ||
          case_.arguments[to].shape != case_.arguments[from].shape) {
        continue;
      }
      Variant same = variant;
      same.alias = true;
      same.alias_from = from;
      same.alias_to = to;
      Compare(same, Problem::kSameView,
              absl::StrCat("differs if it is the same view as ", info_.arguments[from].name,
                           ", which the kernel says it may be"),
              options_.tolerance);
    }
  }
}

void CaseRunner::CheckCancel(Variant variant) {
  // The PTO ABI has no cancel flag.
  if (kernel_.is_pto()) return;
  variant.cancelled = true;
  Contents after;
  const double before = CpuSeconds();
  RunVariant(variant, &after);
  const double seconds = CpuSeconds() - before;
  if (seconds > kCancelSeconds) {
    Report(Problem::kCancelIgnored, "",
           absl::StrCat("it went on for ", static_cast<int>(seconds * 1000),
                        " ms of CPU time after its cancel flag was set: long loops must look at "
                        "cancelled()"));
  }
}

void CaseRunner::Report(Problem problem, const std::string& subject, const std::string& text) {
  // One of each kind is enough for one case.
  for (uint32_t i = 0; i < state_.finding_count; ++i) {
    if (state_.findings[i].problem == problem && state_.findings[i].subject.Get() == subject) {
      return;
    }
  }
  if (state_.finding_count == SharedState::kMaxFindings) return;
  auto& finding = state_.findings[state_.finding_count];
  finding.problem = problem;
  finding.subject = subject;
  finding.text = text;
  ++state_.finding_count;
}

}  // namespace pto::kernel_check
