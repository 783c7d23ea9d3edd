#include "client/ptoctl/table_printer.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "client/job/tensor_report.h"
#include "client/ptoctl/table.h"
#include "client/ptoctl/units.h"
#include "google/protobuf/timestamp.pb.h"

namespace pto::ptoctl {
namespace {

// A graph of a million tasks must not flood a terminal.
constexpr uint64_t kMaxTaskLines = 50;

absl::Time ToTime(const google::protobuf::Timestamp& time) {
  return absl::FromUnixSeconds(time.seconds()) + absl::Nanoseconds(time.nanos());
}

std::string Labels(const google::protobuf::Map<std::string, std::string>& labels) {
  std::vector<std::string> parts;
  for (const auto& [key, value] : labels) parts.push_back(absl::StrCat(key, "=", value));
  std::sort(parts.begin(), parts.end());
  return absl::StrJoin(parts, ",");
}

std::string Direction(v1::Direction direction) {
  switch (direction) {
    case v1::INPUT:
      return "in";
    case v1::OUTPUT:
      return "out";
    case v1::INOUT:
      return "inout";
    default:
      return "nodep";
  }
}

// `(a in, b in, c out (may be a or b); alpha)`.
std::string Signature(const v1::Kernel& kernel) {
  std::vector<std::string> arguments, scalars;
  for (const v1::Kernel::Argument& argument : kernel.arguments()) {
    std::string text = absl::StrCat(argument.name(), " ", Direction(argument.direction()));
    if (!argument.same_as().empty()) {
      absl::StrAppend(&text, " (may be ", absl::StrJoin(argument.same_as(), " or "), ")");
    }
    arguments.push_back(std::move(text));
  }
  for (const v1::Kernel::ScalarParameter& scalar : kernel.scalars()) {
    scalars.push_back(scalar.name());
  }
  return absl::StrCat("(", absl::StrJoin(arguments, ", "), scalars.empty() ? "" : "; ",
                      absl::StrJoin(scalars, ", "), ")");
}

// `x in F32|F16, may be y`.
std::string ArgumentText(const v1::Kernel::Argument& argument) {
  std::vector<std::string> types;
  for (const int type : argument.dtypes()) {
    types.push_back(v1::DType_Name(static_cast<v1::DType>(type)));
  }
  std::string text = absl::StrCat(argument.name(), " ", Direction(argument.direction()), " ",
                                  types.empty() ? "any type" : absl::StrJoin(types, "|"));
  if (!argument.same_as().empty()) {
    absl::StrAppend(&text, ", may be ", absl::StrJoin(argument.same_as(), " or "));
  }
  if (!argument.may_overlap().empty()) {
    absl::StrAppend(&text, ", may overlap ", absl::StrJoin(argument.may_overlap(), " and "));
  }
  return text;
}

// `1 problem`, `2 problems`, or `none`.
std::string Count(int count, absl::string_view what, absl::string_view none) {
  if (count == 0) return std::string(none);
  return absl::StrCat(count, " ", what, count == 1 ? "" : "s");
}

// `complete`, or what is missing.
std::string SandboxText(const v1::Host& host) {
  std::vector<std::string> missing;
  for (const v1::Host::Restriction& restriction : host.sandbox()) {
    if (!restriction.in_force()) missing.push_back(restriction.name());
  }
  if (host.sandbox().empty()) return "";
  return missing.empty() ? "complete" : absl::StrCat("without ", absl::StrJoin(missing, ", "));
}

// `0,2,1`, in order of rank.
std::string ChipsText(const v1::Domain& domain) {
  std::vector<absl::string_view> chips;
  for (const std::string& chip : domain.chips()) {
    chips.push_back(absl::StripPrefix(chip, "chips/"));
  }
  return absl::StrJoin(chips, ",");
}

// `there is no kernel 'x' (KERNEL_UNKNOWN)`.
std::string ErrorText(const v1::Status& error) {
  for (const google::protobuf::Any& detail : error.details()) {
    v1::ErrorInfo info;
    if (detail.UnpackTo(&info)) return absl::StrCat(error.message(), " (", info.reason(), ")");
  }
  return error.message();
}

std::string Progress(const v1::Run& run) {
  return absl::StrCat(run.tasks_done(), "/", run.tasks_total());
}

// The execution time of a run that has ended; empty before.
std::string RunTime(const v1::Run& run) {
  return run.run_ns() == 0 ? "" : DurationText(absl::Nanoseconds(run.run_ns()));
}

std::string StateName(const v1::Run& run) { return v1::Run::State_Name(run.state()); }

}  // namespace

void TablePrinter::Node(const v1::Node& node) {
  const v1::Limits& limits = node.limits();
  auto line = [this](absl::string_view key, absl::string_view value) {
    out_ << absl::StrFormat("%-18s %s\n", absl::StrCat(key, ":"), value.empty() ? "-" : value);
  };
  line("version",
       absl::StrCat(node.version(), node.revision().empty() ? "" : " ", node.revision()));
  line("api", node.api_min() == node.api_max()
                  ? absl::StrCat(node.api_max())
                  : absl::StrCat(node.api_min(), " to ", node.api_max()));
  line("boot", node.boot_id());
  line("pid", absl::StrCat(node.pid()));
  line("up", DurationText(now_ - ToTime(node.start_time())));
  line("state", node.draining() ? "draining" : "active");
  line("chips", absl::StrCat(node.chip_count()));
  line("executors", absl::StrCat(node.executor_count()));
  line("sessions", absl::StrCat(node.session_count()));
  line("active runs", absl::StrCat(node.active_run_count()));
  // An older daemon does not say.
  if (limits.max_memory_bytes() != 0) {
    line("memory", absl::StrCat(BytesText(node.memory_used_bytes()), " of at most ",
                                BytesText(limits.max_memory_bytes())));
  }
  if (!node.principal().empty()) {
    line("you", absl::StrCat(node.principal(), " (", absl::StrJoin(node.roles(), ", "), ")"));
  }
  line("capabilities", absl::StrJoin(node.capabilities(), ", "));
  line("tasks in a graph", absl::StrCat("at most ", limits.max_graph_tasks()));
  line("bytes in a buffer", absl::StrCat("at most ", BytesText(limits.max_buffer_bytes())));
}

void TablePrinter::Config(const v1::Config& config) {
  Table table({"SETTING", "VALUE", "SOURCE"});
  for (const v1::Config::Setting& setting : config.settings()) {
    table.Add({setting.name(), setting.value().empty() ? "-" : setting.value(),
               absl::AsciiStrToLower(v1::Config::Setting::Source_Name(setting.source()))});
  }
  out_ << table.Format();
}

void TablePrinter::Chips(absl::Span<const v1::Chip> chips) {
  Table table(
      {"CHIP", "STATE", "BACKEND", "AIC", "AIV", "BUSY", "MEMORY", "USED", "READY", "DONE"});
  for (const v1::Chip& chip : chips) {
    table.Add({chip.name(), v1::Chip::State_Name(chip.state()), chip.backend(),
               absl::StrCat(chip.aic_cores()), absl::StrCat(chip.aiv_cores()),
               absl::StrCat(chip.busy_cores()), BytesText(chip.memory_total_bytes()),
               BytesText(chip.memory_used_bytes()), absl::StrCat(chip.ready_tasks()),
               absl::StrCat(chip.completed_tasks())});
  }
  out_ << table.Format();
}

void TablePrinter::Sessions(absl::Span<const v1::Session> sessions) {
  Table table({"SESSION", "STATE", "AGE", "EXPIRES IN", "BUFFERS", "MEMORY", "ACTIVE RUNS",
               "FINISHED RUNS", "LABELS"});
  for (const v1::Session& session : sessions) {
    table.Add({session.name(), v1::Session::State_Name(session.state()),
               DurationText(now_ - ToTime(session.create_time())),
               session.state() == v1::Session::ACTIVE
                   ? DurationText(ToTime(session.expire_time()) - now_)
                   : "",
               absl::StrCat(session.usage().buffers()), BytesText(session.usage().device_bytes()),
               absl::StrCat(session.usage().active_runs()),
               absl::StrCat(session.usage().finished_runs()), Labels(session.labels())});
  }
  out_ << table.Format();
}

void TablePrinter::Usage(absl::Span<const v1::Usage> usage) {
  constexpr double kGib = 1 << 30;
  Table table({"PRINCIPAL", "CORE SECONDS", "MEMORY GIB SECONDS", "RUNS"});
  for (const v1::Usage& each : usage) {
    table.Add({each.principal(), absl::StrFormat("%.3f", each.core_seconds()),
               absl::StrFormat("%.3f", each.memory_byte_seconds() / kGib),
               absl::StrCat(each.runs())});
  }
  out_ << table.Format();
}

void TablePrinter::Kernels(absl::Span<const v1::Kernel> kernels) {
  Table table({"KERNEL", "CORE", "ARGUMENTS", "DESCRIPTION"});
  for (const v1::Kernel& kernel : kernels) {
    table.Add({std::string(absl::StripPrefix(kernel.name(), "kernels/")),
               v1::Core_Name(kernel.default_core()), Signature(kernel), kernel.description()});
  }
  out_ << table.Format();
}

void TablePrinter::Kernel(const v1::Kernel& kernel) {
  const auto line = [this](absl::string_view key, absl::string_view value) {
    if (!value.empty()) out_ << absl::StrFormat("%-13s %s\n", absl::StrCat(key, ":"), value);
  };
  line("kernel", kernel.name());
  line("description", kernel.description());
  line("core", v1::Core_Name(kernel.default_core()));
  for (const v1::Kernel::Argument& argument : kernel.arguments()) {
    line("argument", ArgumentText(argument));
  }
  for (const v1::Kernel::ScalarParameter& scalar : kernel.scalars()) {
    line(
        "scalar",
        absl::StrCat(scalar.name(), " ",
                     absl::AsciiStrToLower(v1::Kernel::ScalarParameter::Type_Name(scalar.type()))));
  }
  std::vector<absl::string_view> notes;
  if (kernel.requires_sync_start()) notes.push_back("its blocks start together");
  if (kernel.waits()) notes.push_back("waits");
  if (kernel.blocks()) notes.push_back("blocks its thread");
  if (kernel.control()) notes.push_back("needs no core");
  line("notes", absl::StrJoin(notes, ", "));
  if (kernel.built_in()) return;
  if (kernel.abi() != v1::Kernel::ABI_UNSPECIFIED) {
    line("abi", kernel.abi() == v1::Kernel::OWN ? "own (pto_kernel_info)" : "PTO (kernel_entry)");
  }
  line("signature", kernel.signature());
  line("file", absl::StrCat(kernel.file_name(), ", ", BytesText(kernel.file_bytes())));
  line("sha256", absl::BytesToHexString(kernel.sha256()));
  if (kernel.has_create_time()) {
    line("uploaded", absl::StrCat(DurationText(now_ - ToTime(kernel.create_time())), " ago"));
  }
}

void TablePrinter::Hosts(absl::Span<const v1::Host> hosts) {
  Table table(
      {"SESSION", "STATE", "PID", "KERNELS", "BLOCKS", "MAPPED", "PRIVATE", "RESTARTS", "SANDBOX"});
  for (const v1::Host& host : hosts) {
    table.Add({host.session(), v1::Host::State_Name(host.state()),
               host.pid() == 0 ? "" : absl::StrCat(host.pid()), absl::StrCat(host.kernel_count()),
               absl::StrCat(host.running_blocks()), BytesText(host.mapped_bytes()),
               BytesText(host.private_bytes()), absl::StrCat(host.restarts()), SandboxText(host)});
  }
  out_ << table.Format();
}

void TablePrinter::Host(const v1::Host& host) {
  const auto line = [this](absl::string_view key, absl::string_view value) {
    if (!value.empty()) out_ << absl::StrFormat("%-19s %s\n", absl::StrCat(key, ":"), value);
  };
  line("session", host.session());
  line("state", v1::Host::State_Name(host.state()));
  line("pid", host.pid() == 0 ? "" : absl::StrCat(host.pid()));
  line("kernels", absl::StrCat(host.kernel_count()));
  line("running blocks", absl::StrCat(host.running_blocks()));
  line("memory", absl::StrCat(BytesText(host.private_bytes()), " of its own, ",
                              BytesText(host.mapped_bytes()), " of the session mapped"));
  line("restarts", absl::StrCat(host.restarts()));
  line("last death", host.last_death());
  if (!host.last_death().empty() && host.has_last_restart_time()) {
    line("last restart",
         absl::StrCat("took ", DurationText(absl::Seconds(host.last_restart_time().seconds()) +
                                            absl::Nanoseconds(host.last_restart_time().nanos()))));
  }
  for (const v1::Host::Restriction& restriction : host.sandbox()) {
    line(restriction.name(),
         absl::StrCat(restriction.in_force() ? "in force" : "NOT in force",
                      restriction.detail().empty() ? "" : ": ", restriction.detail()));
  }
}

void TablePrinter::Domains(absl::Span<const v1::Domain> domains) {
  Table table({"DOMAIN", "STATE", "CHIPS", "WINDOW", "BUFFERS", "SIGNALS", "EPOCH", "ERROR"});
  for (const v1::Domain& domain : domains) {
    table.Add({domain.name(), v1::Domain::State_Name(domain.state()), ChipsText(domain),
               BytesText(domain.window_bytes()), absl::StrCat(domain.buffers_size()),
               absl::StrCat(domain.signal_count()), absl::StrCat(domain.epoch()),
               domain.has_error() ? domain.error().message() : ""});
  }
  out_ << table.Format();
}

void TablePrinter::Domain(const v1::Domain& domain) {
  const auto line = [this](absl::string_view key, absl::string_view value) {
    if (!value.empty()) out_ << absl::StrFormat("%-10s %s\n", absl::StrCat(key, ":"), value);
  };
  line("domain", domain.name());
  line("state", v1::Domain::State_Name(domain.state()));
  line("chips", ChipsText(domain));
  line("window", BytesText(domain.window_bytes()));
  for (const v1::WindowBuffer& buffer : domain.buffers()) {
    line("buffer",
         absl::StrCat(buffer.name(), " ", v1::DType_Name(buffer.dtype()), " x ", buffer.count()));
  }
  line("signals", absl::StrCat(domain.signal_count()));
  line("epoch", absl::StrCat(domain.epoch()));
  if (domain.has_error()) line("error", domain.error().message());
}

void TablePrinter::Signals(const v1::Domain& domain, uint32_t first,
                           absl::Span<const v1::ReadSignalsResponse> ranks) {
  Table table({"RANK", "CHIP", "SIGNALS"});
  for (const v1::ReadSignalsResponse& rank : ranks) {
    const std::vector<int64_t> values(rank.values().begin(), rank.values().end());
    table.Add(
        {absl::StrCat(first), domain.chips(static_cast<int>(first)), absl::StrJoin(values, " ")});
    ++first;
  }
  out_ << table.Format();
}

void TablePrinter::Notified(const v1::NotifyResponse& response) {
  out_ << static_cast<int64_t>(response.value()) << '\n';
}

void TablePrinter::Runs(absl::Span<const v1::Run> runs) {
  Table table({"RUN", "STATE", "TASKS", "AGE", "TIME", "ERROR"});
  for (const v1::Run& run : runs) {
    table.Add({run.name(), StateName(run), Progress(run),
               DurationText(now_ - ToTime(run.create_time())), RunTime(run),
               run.has_error() ? run.error().message() : ""});
  }
  out_ << table.Format();
}

void TablePrinter::Run(const v1::Run& run) {
  auto line = [this](absl::string_view key, absl::string_view value) {
    if (!value.empty()) out_ << absl::StrFormat("%-10s %s\n", absl::StrCat(key, ":"), value);
  };
  line("run", run.name());
  line("state", StateName(run));
  line("graph", run.graph());
  line("tasks", absl::StrCat(Progress(run), " done, ", run.tasks_failed(), " failed, ",
                             run.tasks_skipped(), " skipped"));
  line("created",
       absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", ToTime(run.create_time()), absl::UTCTimeZone()));
  if (run.has_start_time()) line("queued", DurationText(absl::Nanoseconds(run.queue_ns())));
  line("ran", RunTime(run));
  line("labels", Labels(run.labels()));
  if (run.has_error()) line("error", ErrorText(run.error()));
  for (const v1::Status& error : run.more_errors()) line("error", ErrorText(error));
  if (run.errors_unlisted() > 0) {
    line("errors", absl::StrCat(run.errors_unlisted(), " more: ptoctl runs events ", run.name()));
  }
}

void TablePrinter::Explanation(const v1::ExplainRunResponse& explanation) {
  const auto seconds = [](const google::protobuf::Duration& duration) {
    return absl::Seconds(duration.seconds()) + absl::Nanoseconds(duration.nanos());
  };
  const auto line = [this](absl::string_view key, absl::string_view value) {
    if (!value.empty()) out_ << absl::StrFormat("%-10s %s\n", absl::StrCat(key, ":"), value);
  };
  line("run", explanation.run());
  line("verdict", v1::ExplainRunResponse::Verdict_Name(explanation.verdict()));
  line("state",
       absl::StrCat(v1::Run::State_Name(explanation.state()), ", ", explanation.tasks_done(), "/",
                    explanation.tasks_total(), " tasks done"));
  if (explanation.has_since_last_progress()) {
    line("idle for", DurationText(seconds(explanation.since_last_progress())));
  }
  line("summary", explanation.summary());
  if (explanation.inconsistent())
    line("note", "the state of some tasks changed during the inspection");
  if (explanation.blocked_size() == 0) return;
  Table table({"TASK", "NAME", "KERNEL", "KIND", "HAVE", "WANT", "AGE", "CAN END", "WHY"});
  for (const v1::ExplainRunResponse::BlockedTask& task : explanation.blocked()) {
    table.Add({absl::StrCat(task.task(),
                            task.task_count() > 1 ? absl::StrCat(" +", task.task_count() - 1) : ""),
               task.task_name(), task.kernel(),
               v1::ExplainRunResponse::BlockedTask::Kind_Name(task.kind()),
               task.has_have() ? absl::StrCat(static_cast<int64_t>(task.have())) : "",
               task.kind() == v1::ExplainRunResponse::BlockedTask::PREDECESSORS ||
                       task.kind() == v1::ExplainRunResponse::BlockedTask::KERNEL ||
                       task.kind() == v1::ExplainRunResponse::BlockedTask::TURN
                   ? ""
                   : absl::StrCat(static_cast<int64_t>(task.want())),
               task.has_age() ? DurationText(seconds(task.age())) : "",
               task.can_be_satisfied() ? "yes" : "NO", task.reason()});
  }
  out_ << table.Format();
  if (explanation.more_blocked() > 0) {
    out_ << absl::StrFormat("%d more are blocked\n", explanation.more_blocked());
  }
}

void TablePrinter::Tasks(const v1::TaskEvents& tasks, const v1::GraphSpec* graph) {
  for (int i = 0; i < tasks.task_size(); ++i) {
    const v1::TaskEvents::Outcome outcome =
        tasks.outcome().empty() ? v1::TaskEvents::DONE : tasks.outcome(i);
    // Always print tasks that did not succeed.
    if (outcome == v1::TaskEvents::DONE && shown_tasks_ >= kMaxTaskLines) {
      if (hidden_tasks_++ == 0) out_ << "  … more tasks, not shown\n";
      continue;
    }
    ++shown_tasks_;
    const int index = static_cast<int>(tasks.task(i));
    std::string name = absl::StrCat("task ", index);
    if (graph != nullptr && index < graph->tasks_size()) {
      const v1::TaskSpec& task = graph->tasks(index);
      absl::StrAppend(&name, " ", task.name().empty() ? task.kernel() : task.name());
    }
    out_ << absl::StrFormat(
        "  %-24s %-8s chip %d core %d  +%s  %s\n", name, v1::TaskEvents::Outcome_Name(outcome),
        i < tasks.chip_size() ? tasks.chip(i) : 0, i < tasks.core_size() ? tasks.core(i) : 0,
        DurationText(absl::Nanoseconds(i < tasks.start_ns_size() ? tasks.start_ns(i) : 0)),
        DurationText(absl::Nanoseconds(i < tasks.duration_ns_size() ? tasks.duration_ns(i) : 0)));
  }
}

void TablePrinter::Event(const v1::Event& event, const v1::GraphSpec* graph) {
  switch (event.event_case()) {
    case v1::Event::kRun:
      out_ << absl::StrFormat("%6d %s %s %s tasks\n", event.sequence(), event.run().name(),
                              StateName(event.run()), Progress(event.run()));
      break;
    case v1::Event::kSession:
      out_ << absl::StrFormat("%6d %s %s\n", event.sequence(), event.session().name(),
                              v1::Session::State_Name(event.session().state()));
      break;
    case v1::Event::kTasks:
      Tasks(event.tasks(), graph);
      break;
    case v1::Event::kDropped:
      out_ << absl::StrFormat("%6d %d events were dropped\n", event.sequence(),
                              event.dropped().count());
      break;
    case v1::Event::kStalled:
      out_ << absl::StrFormat("%6d %s stalled: %s: %s\n", event.sequence(), event.stalled().run(),
                              v1::ExplainRunResponse::Verdict_Name(event.stalled().verdict()),
                              event.stalled().summary());
      break;
    case v1::Event::kErrors:
      for (const v1::Status& error : event.errors().errors()) {
        out_ << absl::StrFormat("%6d %s error: %s\n", event.sequence(), event.errors().run(),
                                ErrorText(error));
      }
      break;
    case v1::Event::EVENT_NOT_SET:
      break;
  }
  out_.flush();
}

void TablePrinter::EndOfEvents() {
  if (hidden_tasks_ > 0) {
    out_ << absl::StrFormat("%d tasks ended, %d of them not shown\n", shown_tasks_ + hidden_tasks_,
                            hidden_tasks_);
  }
  shown_tasks_ = hidden_tasks_ = 0;
}

void TablePrinter::KernelReport(const job::v1::KernelReport& report) {
  const uint32_t accepted = report.cases() - report.refused_cases();
  out_ << absl::StrFormat("%s: %d inputs, %d calls of blocks, seed %d: %s\n", report.kernel(),
                          accepted, report.calls(), report.seed(),
                          Count(report.findings_size(), "problem", "no problems found"));
  if (report.refused_cases() > 0) {
    out_ << absl::StrFormat("%d more inputs were refused by the kernel, the first with: %s\n",
                            report.refused_cases(), report.refusal());
  }
  for (const job::v1::KernelFinding& finding : report.findings()) {
    out_ << absl::StrFormat("%s: %s\n", finding.problem(), finding.text());
    if (!finding.place().empty()) out_ << "  in " << finding.place() << '\n';
    if (!finding.input().empty()) {
      out_ << absl::StrFormat("  input %d: %s\n", finding.case_(), finding.input());
    }
    if (finding.cases() > 1) {
      out_ << "  and " << Count(static_cast<int>(finding.cases()) - 1, "more input", "") << '\n';
    }
  }
}

void TablePrinter::Report(const job::v1::Report& report) {
  for (const v1::Run& run : report.runs()) {
    out_ << absl::StrFormat("%s: %s, %s tasks", run.name(), StateName(run), Progress(run));
    if (run.run_ns() > 0) {
      out_ << absl::StrFormat(" in %s (queued %s)", RunTime(run),
                              DurationText(absl::Nanoseconds(run.queue_ns())));
    }
    out_ << '\n';
  }
  for (const job::v1::TensorReport& output : report.outputs()) {
    out_ << job::Describe(output) << '\n';
    if (!output.saved().empty()) out_ << output.tensor() << ": saved to " << output.saved() << '\n';
  }
  for (const job::v1::CheckReport& check : report.checks()) {
    out_ << "check " << check.tensor() << ": " << check.text() << '\n';
  }
}

}  // namespace pto::ptoctl
