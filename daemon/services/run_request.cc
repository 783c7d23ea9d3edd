#include "daemon/services/run_request.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/graph/fields.h"
#include "daemon/names/digest.h"
#include "daemon/names/duration.h"
#include "daemon/names/names.h"
#include "daemon/names/window_name.h"
#include "daemon/wire/request.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"
#include "runtime/graph/builder.h"
#include "runtime/graph/work_estimate.h"

namespace pto::daemon {
namespace {

constexpr absl::Duration kMaxWait = absl::Hours(1);
constexpr uint64_t kBindingAlignment = 64;

absl::Status BindBuffers(const v1::LaunchGraphRequest& request, const std::string& session,
                         RunRequest* run) {
  for (int i = 0; i < request.buffers_size(); ++i) {
    const v1::BufferBinding& binding = request.buffers(i);
    const std::string path = absl::StrCat("buffers[", i, "].");
    SlotBinding out;
    // The name of a slot is not always the id of a buffer: it may be known at launch only.
    out.slot = binding.slot();
    if (out.slot.empty() || absl::StartsWith(out.slot, "sessions/")) {
      PTO_ASSIGN_OR_RETURN(out.slot, names::ParseOwnBuffer(binding.slot(), session, path + "slot"));
    }
    PTO_ASSIGN_OR_RETURN(out.buffer,
                         names::ParseOwnBuffer(binding.buffer(), session, path + "buffer"));
    if (binding.offset_bytes() % kBindingAlignment != 0) {
      return Error(reason::kFieldInvalid,
                   absl::StrCat("an offset is a multiple of ", kBindingAlignment, ", not ",
                                binding.offset_bytes()))
          .At(path + "offset_bytes")
          .With("have", binding.offset_bytes());
    }
    out.offset_bytes = binding.offset_bytes();
    run->bindings.push_back(std::move(out));
  }
  return absl::OkStatus();
}

absl::Status BindScalars(const v1::LaunchGraphRequest& request, const engine::GraphImage& image,
                         RunRequest* run) {
  if (request.scalars().empty()) return absl::OkStatus();
  const absl::Span<const engine::ImageScalar> named = image.scalar_names();
  run->named_scalars.assign(image.scalar_values().begin(),
                            image.scalar_values().begin() + static_cast<ptrdiff_t>(named.size()));
  std::vector<bool> bound(named.size());
  for (int i = 0; i < request.scalars_size(); ++i) {
    const v1::ScalarSpec& scalar = request.scalars(i);
    const std::string path = absl::StrCat("scalars[", i, "]");
    const absl::optional<uint32_t> found = image.FindScalar(scalar.name());
    if (!found.has_value()) {
      return Error(reason::kScalarUnknown,
                   absl::StrCat("the graph has no scalar ", names::Quoted(scalar.name())))
          .At(path + ".name")
          .With("scalar", scalar.name().substr(0, 64));
    }
    const uint32_t index = *found;
    if (bound[index]) {
      return Error(reason::kFieldInvalid,
                   absl::StrCat("scalar ", names::Quoted(scalar.name()), " is bound already"))
          .At(path + ".name")
          .With("scalar", scalar.name());
    }
    bound[index] = true;
    if (scalar.value().value_case() == v1::Scalar::kRef ||
        scalar.value().value_case() == v1::Scalar::VALUE_NOT_SET) {
      return Error(reason::kScalarInvalid, "a launch binds a scalar to a number")
          .At(path + ".value")
          .With("scalar", scalar.name());
    }
    engine::ScalarInput input;
    absl::Status number = ReadNumber(scalar.value(), input);
    if (!number.ok()) return PrefixField(number, path + ".value.");
    const auto type =
        named[index].type == 0 ? PTO_FLOAT : static_cast<pto_scalar_type>(named[index].type);
    absl::StatusOr<uint64_t> bits =
        engine::GraphBuilder::ScalarBits(input, {scalar.name().c_str(), type});
    if (!bits.ok()) return PrefixField(bits.status(), path + ".value");
    run->named_scalars[index] = *bits;
  }
  return absl::OkStatus();
}

// One limit in time that is part of another; 0 means none.
struct Times {
  absl::string_view inner_field;
  int64_t inner_ns;
  absl::string_view outer_field;
  int64_t outer_ns;
};

absl::Status CheckTimes(const Times& times, absl::string_view field) {
  if (times.outer_ns == 0 || times.inner_ns <= times.outer_ns) return absl::OkStatus();
  const std::string inner = absl::FormatDuration(absl::Nanoseconds(times.inner_ns));
  const std::string outer = absl::FormatDuration(absl::Nanoseconds(times.outer_ns));
  return Error(reason::kFieldInvalid,
               absl::StrCat(times.inner_field, " (", inner, ") is longer than ", times.outer_field,
                            " (", outer, "), which ends first"))
      .At(absl::StrCat(field, ".", times.inner_field))
      .With(times.inner_field, inner)
      .With(times.outer_field, outer)
      .Hint(absl::StrCat("shorten ", times.inner_field, ", or give ", times.outer_field, " more"));
}

absl::Status ParseTimeouts(const v1::RunOptions& options, absl::string_view field,
                           RunTerms* terms) {
  // Most launches have none, and are to cost as little as can be.
  const auto parse = [&](const google::protobuf::Duration& duration, absl::string_view name,
                         int64_t* out) -> absl::Status {
    if (duration.seconds() == 0 && duration.nanos() == 0) return absl::OkStatus();
    PTO_ASSIGN_OR_RETURN(*out, ParseTimeout(duration, absl::StrCat(field, ".", name)));
    return absl::OkStatus();
  };
  RunTerms& run = *terms;
  PTO_RETURN_IF_ERROR(parse(options.timeout(), "timeout", &run.timeout_ns));
  PTO_RETURN_IF_ERROR(parse(options.queue_timeout(), "queue_timeout", &run.queue_timeout_ns));
  PTO_RETURN_IF_ERROR(parse(options.task_timeout(), "task_timeout", &run.task_timeout_ns));
  PTO_RETURN_IF_ERROR(parse(options.wait_timeout(), "wait_timeout", &run.wait_timeout_ns));
  for (const Times& times :
       {Times{"queue_timeout", run.queue_timeout_ns, "timeout", run.timeout_ns},
        Times{"task_timeout", run.task_timeout_ns, "timeout", run.timeout_ns},
        Times{"wait_timeout", run.wait_timeout_ns, "task_timeout", run.task_timeout_ns},
        Times{"wait_timeout", run.wait_timeout_ns, "timeout", run.timeout_ns}}) {
    PTO_RETURN_IF_ERROR(CheckTimes(times, field));
  }
  return absl::OkStatus();
}

absl::string_view NameOf(engine::Priority priority) {
  return priority == engine::Priority::kHigh  ? "HIGH"
         : priority == engine::Priority::kLow ? "LOW"
                                              : "NORMAL";
}

engine::Priority DefaultPriority(const auth::Principal& caller) {
  return caller.rights.max_priority == auth::Rights::Priority::kLow ? engine::Priority::kLow
                                                                    : engine::Priority::kNormal;
}

// Runs of a higher priority can keep all others from starting, so not everybody may have it.
absl::Status CheckPriority(const auth::Principal& caller, engine::Priority priority,
                           absl::string_view field) {
  using Most = auth::Rights::Priority;
  const Most wanted = priority == engine::Priority::kHigh  ? Most::kHigh
                      : priority == engine::Priority::kLow ? Most::kLow
                                                           : Most::kNormal;
  if (wanted <= caller.rights.max_priority) return absl::OkStatus();
  return Error(reason::kPermissionDenied,
               absl::StrCat(caller.name, " may not use the priority ", NameOf(priority),
                            ": that needs the role operator or max_priority: ", NameOf(priority),
                            " in the access policy"))
      .At(absl::StrCat(field, ".priority"))
      .With("principal", caller.name)
      .With("priority", NameOf(priority));
}

int64_t LongestTask(const engine::GraphImage& image) {
  int64_t longest = 0;
  for (const engine::ImageDetail& detail : image.details())
    longest = std::max(longest, detail.timeout_ns);
  return longest;
}

}  // namespace

absl::Status ParseRunOptions(const auth::Principal& caller, const v1::RunOptions& options,
                             absl::string_view field, RunTerms* terms) {
  PTO_RETURN_IF_ERROR(ParseTimeouts(options, field, terms));
  switch (options.priority()) {
    case v1::LOW:
      terms->priority = engine::Priority::kLow;
      break;
    case v1::PRIORITY_UNSPECIFIED:
      terms->priority = DefaultPriority(caller);
      break;
    case v1::NORMAL:
      terms->priority = engine::Priority::kNormal;
      break;
    case v1::HIGH:
      terms->priority = engine::Priority::kHigh;
      break;
    default:
      return Error(reason::kFieldInvalid,
                   absl::StrCat("priority ", options.priority(), " is not known"))
          .At(absl::StrCat(field, ".priority"))
          .With("have", options.priority());
  }
  PTO_RETURN_IF_ERROR(CheckPriority(caller, terms->priority, field));
  switch (options.event_level()) {
    case v1::EVENT_LEVEL_UNSPECIFIED:
    case v1::TASK_ENDED:
      terms->record_level = engine::RecordLevel::kAll;
      break;
    case v1::TASK_FAILED:
      terms->record_level = engine::RecordLevel::kFailed;
      break;
    case v1::RUN_ONLY:
      terms->record_level = engine::RecordLevel::kNone;
      break;
    default:
      return Error(reason::kFieldInvalid,
                   absl::StrCat("event level ", options.event_level(), " is not known"))
          .At(absl::StrCat(field, ".event_level"))
          .With("have", options.event_level());
  }
  PTO_ASSIGN_OR_RETURN(terms->labels,
                       ParseLabels(options.labels(), absl::StrCat(field, ".labels")));
  return absl::OkStatus();
}

absl::Status CheckTaskTimes(const RunRequest& request, absl::string_view field) {
  if (request.timeout_ns == 0 || request.image->details().empty()) return absl::OkStatus();
  int64_t longest = -1;
  if (request.graph != nullptr) {
    longest = request.graph->longest_task_ns.load(std::memory_order_relaxed);
  }
  if (longest < 0) longest = LongestTask(*request.image);
  // A launch must not cost more with every task of its graph.
  if (request.graph != nullptr) {
    request.graph->longest_task_ns.store(longest, std::memory_order_relaxed);
  }
  if (longest <= request.timeout_ns) return absl::OkStatus();
  const std::string task = absl::FormatDuration(absl::Nanoseconds(longest));
  const std::string run = absl::FormatDuration(absl::Nanoseconds(request.timeout_ns));
  return Error(reason::kFieldInvalid, absl::StrCat("a task of the graph has a launch.timeout of ",
                                                   task, ", but the run only ", run))
      .At(absl::StrCat(field, ".timeout"))
      .With("launch.timeout", task)
      .With("timeout", run)
      .Hint("shorten launch.timeout, or give timeout more");
}

namespace {

engine::WorkLimits LimitsOf(Node& node, const RunTerms& terms) {
  engine::WorkLimits limits;
  limits.run_ns = terms.timeout_ns;
  limits.task_ns = terms.task_timeout_ns;
  limits.call_ns = node.default_task_timeout_ns();
  limits.threads = node.engine().executors();
  return limits;
}

}  // namespace

absl::Status CheckWork(Node& node, const RunTerms& terms, const engine::GraphImage& image) {
  return engine::CheckWork(image, LimitsOf(node, terms));
}

absl::Status CheckWork(Node& node, const RunTerms& terms, RegisteredGraph& graph) {
  double longest = graph.longest_estimate_ns.load(std::memory_order_relaxed);
  if (longest < 0) {
    longest = engine::LongestTaskNs(*graph.image);
    graph.longest_estimate_ns.store(longest, std::memory_order_relaxed);
  }
  return engine::CheckWork(*graph.image, LimitsOf(node, terms), longest);
}

absl::StatusOr<absl::Duration> ParseWait(const google::protobuf::Duration& wait,
                                         absl::string_view field) {
  return ParseDuration(wait, field, absl::ZeroDuration(), kMaxWait);
}

void AwaitNext(Node& node, rpc::Server& server, rpc::Rhythm& rhythm) {
  if (rhythm.Answered(node.clock().NowNanos()) && node.engine().active_runs() == 0) {
    server.StayAwake(std::chrono::nanoseconds(rpc::Rhythm::kQuickNs));
  }
}

absl::StatusOr<std::shared_ptr<RunEntry>> Launch(Node& node, const auth::Principal& caller,
                                                 const v1::LaunchGraphRequest& request,
                                                 engine::WorkBudget::Cancelled cancelled,
                                                 LaunchTarget* target,
                                                 engine::Completions& completions) {
  Admission::Request launch;
  launch.caller = &caller;
  launch.graph = &request.graph();
  launch.target = target;
  launch.run.help = true;
  engine::CompileTime time(node.clock(), node.compile_timeout_ns());
  launch.run.cancelled = std::move(cancelled).WithTime(&time);
  if (!request.run_id().empty()) {
    launch.run.id = request.run_id();
    launch.run.digest = DigestOf(request);
  }
  const auto complete = [&](Session& session, RunRequest* run) -> absl::Status {
    run->graph = target->graph;
    run->image = run->graph->image;
    if (!run->id.empty()) PTO_RETURN_IF_ERROR(names::CheckId(run->id, "run_id"));
    if (request.has_options()) {
      PTO_RETURN_IF_ERROR(ParseRunOptions(caller, request.options(), "options", run));
    } else {
      run->priority = DefaultPriority(caller);
    }
    PTO_RETURN_IF_ERROR(BindBuffers(request, session.id(), run));
    PTO_RETURN_IF_ERROR(CheckTaskTimes(*run, "options"));
    PTO_RETURN_IF_ERROR(CheckWork(node, *run, *run->graph));
    return BindScalars(request, *run->image, run);
  };
  return Admission(node).Start(launch, complete, completions);
}

}  // namespace pto::daemon
