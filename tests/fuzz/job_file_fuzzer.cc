// Job files, as JSON (an input that begins with `{`) and as text protobuf, and the .npy files that
// they refer to: any input results in either a job that can be replayed and checked, or an error
// with a position in the file.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "client/job/check.h"
#include "client/job/chip_list.h"
#include "client/job/job_file.h"
#include "client/job/npy.h"
#include "client/job/prepared_job.h"
#include "client/job/replay.h"
#include "google/protobuf/text_format.h"
#include "google/protobuf/util/json_util.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "tests/fuzz/expect.h"
#include "tests/fuzz/message_mutator.h"

namespace pto::job {
namespace {

using fuzz::ExpectReason;
using Chips = std::vector<uint32_t>;
using Shape = google::protobuf::RepeatedField<int64_t>;

// Jobs up to the first size are prepared and replayed; jobs beyond the second must be rejected.
// Sizes in between are allowed, but would take long.
constexpr int64_t kSmall = 4096;
constexpr int64_t kTooLarge = int64_t{1} << 34;
constexpr int64_t kSmallFactor = 64;
constexpr size_t kMaxChips = 64;

int64_t Elements(const Shape& shape) {
  int64_t count = 1;
  for (const int64_t size : shape) {
    if (size <= 0) return 0;  // rejected, or empty
    if (__builtin_mul_overflow(count, size, &count)) return std::numeric_limits<int64_t>::max();
  }
  return count;
}

bool IsQuick(const Shape& shape, int64_t small) {
  const int64_t count = Elements(shape);
  return count <= small || count > kTooLarge;
}

bool ReadsFile(const v1::Values& values) { return values.has_npy(); }

// Whether it can be prepared quickly, without reading files.
bool IsQuick(const v1::Job& job) {
  bool products = false;
  for (const v1::Reference& reference : job.references()) {
    products |= reference.op() == v1::Reference::MATMUL;
  }
  const int64_t small = products ? kSmallFactor : kSmall;
  // Each chip has a window of each domain.
  size_t chips = 0;
  for (const std::string& text : job.chips()) chips += ParseChipList(text).value_or(Chips()).size();
  if (job.domains_size() > 0 && chips > kMaxChips) return false;
  for (const v1::BufferInit& buffer : job.buffers()) {
    if (ReadsFile(buffer.init()) || !IsQuick(buffer.shape(), small)) return false;
  }
  for (const v1::DomainInit& domain : job.domains()) {
    if (domain.signal_count() > small) return false;
    for (const v1::WindowInit& window : domain.buffers()) {
      if (!IsQuick(window.shape(), small)) return false;
      for (const v1::Values& values : window.init()) {
        if (ReadsFile(values)) return false;
      }
    }
  }
  for (const pto::v1::TensorSpec& tensor : job.graph().tensors()) {
    if (!IsQuick(tensor.shape(), kSmall)) return false;
  }
  for (const v1::Check& check : job.checks()) {
    if (ReadsFile(check.values())) return false;
  }
  return true;
}

void CheckPrepared(const PreparedJob& job) {
  for (const PreparedBuffer& buffer : job.buffers) {
    PTO_CHECK(buffer.position < job.chips.size() && buffer.chip == job.chips[buffer.position],
              "a buffer is on a chip of the job");
    PTO_CHECK(ElementCount(buffer.initial.shape).value() == buffer.initial.size(),
              "a buffer's contents are complete");
  }
  for (const auto& [name, named] : job.views) {
    PTO_CHECK(named.buffer < job.buffers.size(), "a view is one of a buffer");
    const std::string& bytes = job.buffers[named.buffer].initial.bytes;
    // Sanitizers detect accesses outside.
    PTO_CHECK(named.view.Extract(bytes).size() == named.view.size(), "a view's elements");
  }
  for (const pto::v1::TaskSpec& task : job.graph.tasks()) {
    PTO_CHECK(absl::StartsWith(task.chip(), "chips/") || !task.members().empty(),
              "a task is on a chip");
    for (const std::string& arg : task.args()) PTO_CHECK(job.views.contains(arg), "an argument");
  }
}

void Prepare(JobFile file) {
  if (!IsQuick(file.job)) return;
  const absl::StatusOr<PreparedJob> job = PrepareJob(std::move(file));
  if (!job.ok()) return ExpectReason(job.status(), reason::kJobInvalid);
  CheckPrepared(*job);
  std::vector<std::string> memory;
  for (const PreparedBuffer& buffer : job->buffers) memory.push_back(buffer.initial.bytes);
  const absl::StatusOr<std::vector<std::string>> replayed = Replay(*job);
  if (replayed.ok()) {
    PTO_CHECK(replayed->size() == memory.size(), "each buffer is there after a replay");
    for (size_t i = 0; i < memory.size(); ++i) {
      PTO_CHECK((*replayed)[i].size() == memory[i].size(), "a buffer keeps its size");
    }
    memory = *replayed;
  } else {
    ExpectReason(replayed.status(), reason::kJobInvalid);
  }
  const absl::StatusOr<std::vector<CheckResult>> results = RunChecks(*job, memory);
  if (!results.ok()) return ExpectReason(results.status(), reason::kJobInvalid);
  PTO_CHECK(results->size() == static_cast<size_t>(job->file.job.checks_size()), "all checks");
  for (const CheckResult& result : *results) {
    PTO_CHECK(result.mismatches >= 0 && result.mismatches <= result.elements, "counts elements");
    PTO_CHECK(!Describe(result).empty(), "says how it went");
  }
}

void ReadArray(absl::string_view bytes) {
  const absl::StatusOr<Array> array = ParseNpy(bytes);
  if (!array.ok()) return ExpectReason(array.status());
  const absl::StatusOr<int64_t> count = ElementCount(array->shape);
  PTO_CHECK(count.ok() && *count == array->size(), "as many elements as the shape says");
  const absl::StatusOr<Array> again = ParseNpy(FormatNpy(*array));
  PTO_CHECK(again.ok(), "what was written can be read");
  PTO_CHECK(
      again->dtype == array->dtype && again->shape == array->shape && again->bytes == array->bytes,
      "it is the same");
}

const char* NameOf(absl::string_view text) {
  return absl::StartsWith(text, "{") ? "job.json" : "job.txtpb";
}

// The same job with other values, in the same format; empty if that is not possible.
std::string Changed(const std::string& text, unsigned seed) {
  static constexpr absl::string_view kWords[] = {
      "chips/0", "chips/1",    "0-3",  "0,2",  "a",      "b",          "fill", "iota", "copy",
      "add",     "scale",      "axpy", "join", "notify", "wait",       "mul",  "sub",  "matmul",
      "compare", "reduce_sum", "hold", "noop", "spin",   "wait_token", "0",    "1",    "x.npy"};
  absl::StatusOr<JobFile> file = ParseJob(NameOf(text), text);
  if (!file.ok()) return "";
  fuzz::MutationRandom random(seed + 1);
  fuzz::MutateMessage(file->job, kWords, random);
  std::string changed;
  if (absl::StartsWith(text, "{")) {
    return google::protobuf::util::MessageToJsonString(file->job, &changed).ok() ? changed : "";
  }
  return google::protobuf::TextFormat::PrintToString(file->job, &changed) ? changed : "";
}

}  // namespace
}  // namespace pto::job

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (absl::StartsWith(text, "\x93")) {
    pto::job::ReadArray(text);
    return 0;
  }
  absl::StatusOr<pto::job::JobFile> file = pto::job::ParseJob(pto::job::NameOf(text), text);
  if (file.ok()) {
    pto::job::Prepare(*std::move(file));
  } else {
    pto::fuzz::ExpectReason(file.status(), pto::reason::kJobInvalid);
  }
  return 0;
}

// Half of the time a valid job stays valid; otherwise its text is mutated.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {
  if (seed % 2 == 0 && size > 0 && data[0] != 0x93) {
    const std::string changed =
        pto::job::Changed(std::string(reinterpret_cast<const char*>(data), size), seed / 2);
    if (!changed.empty() && changed.size() <= max_size) {
      std::memcpy(data, changed.data(), changed.size());
      return changed.size();
    }
  }
  return LLVMFuzzerMutate(data, size, max_size);
}
