#include "client/ptoctl/job_runner.h"

#include <algorithm>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/job/check.h"
#include "client/job/npy.h"
#include "client/job/packed_job.h"
#include "client/job/tensor_report.h"
#include "client/ptoctl/exit_code.h"
#include "client/ptoctl/progress_line.h"
#include "client/ptoctl/session_name.h"
#include "client/ptoctl/stall_notice.h"
#include "client/ptoctl/write_trace.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::ptoctl {
namespace {

// How often to check for Ctrl-C and update the progress line.
constexpr absl::Duration kSlice = absl::Milliseconds(200);

// Minimum number of tasks in each segment of an open run, except the last.
constexpr uint64_t kSegmentTasks = 4096;

std::string BaseName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// Closing the session cancels the run.
constexpr char kNotInTime[] = "timed out waiting for the run, which was cancelled";

}  // namespace

absl::Status JobRunner::Run() {
  if (!options_.session.empty()) return RunInOpenSession();
  SessionOptions session_options;
  session_options.labels["job"] = BaseName(job_.file.places.file());
  if (options_.detach) session_options.ttl = options_.ttl;
  session_options.weight = options_.weight;
  PTO_ASSIGN_OR_RETURN(Session session, client_.CreateSession(session_options));
  report_.set_session(session.name());
  const absl::Status status = RunIn(session);
  if (!report_.runs().empty()) printer_.Report(report_);
  if (options_.detach && status.ok()) {
    session.Detach();
    return status;
  }
  const absl::Status closed = session.Close();
  return status.ok() ? closed : status;
}

absl::Status JobRunner::RunInOpenSession() {
  PTO_ASSIGN_OR_RETURN(Session session, client_.AttachSession(SessionName(options_.session)));
  report_.set_session(session.name());
  PTO_ASSIGN_OR_RETURN(kernels_, session.ListKernels());
  PTO_ASSIGN_OR_RETURN(const std::vector<v1::Buffer> buffers, client_.ListBuffers(session.name()));
  PTO_ASSIGN_OR_RETURN(const std::vector<v1::Domain> domains, client_.ListDomains(session.name()));
  for (const v1::Buffer& buffer : buffers) existing_.insert(buffer.name());
  for (const v1::Domain& domain : domains) existing_.insert(domain.name());
  absl::Status status = RunIn(session);
  if (!report_.runs().empty()) printer_.Report(report_);
  if (options_.detach && status.ok()) return status;
  // Memory that a run still uses is freed when it ends.
  for (const Domain& domain : own_domains_) {
    if (const absl::Status deleted = domain.Delete(); status.ok()) status = deleted;
  }
  if (own_buffers_.empty()) return status;
  const absl::Status deleted = session.DeleteBuffers(own_buffers_);
  return status.ok() ? deleted : status;
}

absl::Status JobRunner::RegisterKernels(Session& session) {
  for (size_t i = 0; i < job_.kernels.size(); ++i) {
    const job::PreparedKernel& kernel = job_.kernels[i];
    KernelOptions options;
    options.id = kernel.id;
    options.signature = kernel.signature;
    options.entry = kernel.entry;
    ProgressLine progress(context_.err, context_.err_is_terminal && !context_.quiet,
                          absl::StrCat("KiB of ", BaseName(kernel.file), " sent"));
    options.progress = [&progress](uint64_t sent, uint64_t total) {
      progress.Update(sent / 1024, total / 1024);
    };
    absl::StatusOr<v1::Kernel> registered = session.RegisterKernel(kernel.file, options);
    if (!registered.ok()) {
      return PrefixField(registered.status(), absl::StrCat("kernels[", i, "]."));
    }
    kernels_.push_back(*std::move(registered));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<v1::Kernel>> JobRunner::ListKernels() {
  PTO_ASSIGN_OR_RETURN(std::vector<v1::Kernel> kernels, client_.ListKernels());
  // A kernel of the session hides a built-in one.
  kernels.insert(kernels.end(), kernels_.begin(), kernels_.end());
  return kernels;
}

absl::Status JobRunner::RunIn(Session& session) {
  PTO_RETURN_IF_ERROR(RegisterKernels(session));
  PTO_ASSIGN_OR_RETURN(const std::vector<Buffer> buffers, CreateBuffers(session));
  for (uint32_t i = 0; i < options_.repeat; ++i) {
    PTO_RETURN_IF_ERROR(Upload(buffers, i == 0));
    if (options_.stream_rounds > 0) {
      PTO_ASSIGN_OR_RETURN(v1::Run ended, Stream(session));
      *report_.add_runs() = std::move(ended);
    } else {
      PTO_ASSIGN_OR_RETURN(const pto::Run run, Submit(session));
      if (options_.detach) {
        *report_.add_runs() = run.snapshot();
        return absl::OkStatus();
      }
      PTO_ASSIGN_OR_RETURN(v1::Run ended, Await(run));
      *report_.add_runs() = std::move(ended);
    }
    // A trace is most useful for a failed run.
    if (!options_.trace.empty() && (i + 1 == options_.repeat || !RanWell())) {
      PTO_RETURN_IF_ERROR(WriteTrace(client_, report_.runs().rbegin()->name(), options_.trace));
    }
    PTO_RETURN_IF_ERROR(StatusOf(*report_.runs().rbegin()));
    PTO_ASSIGN_OR_RETURN(const std::vector<std::string> memory, Download(buffers));
    if (i + 1 == options_.repeat) {
      PTO_RETURN_IF_ERROR(Output(memory));
    }
    PTO_RETURN_IF_ERROR(Check(memory));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Buffer>> JobRunner::CreateBuffers(Session& session) {
  std::vector<BufferSpec> specs;
  for (const job::PreparedBuffer& buffer : job_.buffers) {
    if (buffer.window.has_value()) continue;
    specs.push_back({buffer.name, buffer.chip, buffer.initial.bytes.size()});
  }
  std::vector<Buffer> buffers;
  if (!specs.empty()) {
    PTO_ASSIGN_OR_RETURN(buffers, session.CreateBuffers(specs));
  }
  for (const Buffer& buffer : buffers) {
    if (!existing_.contains(buffer.name())) own_buffers_.push_back(buffer);
  }
  std::vector<Domain> domains;
  for (const v1::CreateDomainRequest& request : job_.domains) {
    PTO_ASSIGN_OR_RETURN(Domain domain, session.CreateDomain(request));
    if (!existing_.contains(domain.name())) own_domains_.push_back(domain);
    domains.push_back(std::move(domain));
  }
  for (const job::PreparedBuffer& buffer : job_.buffers) {
    if (!buffer.window.has_value()) continue;
    const job::WindowPlace& place = *buffer.window;
    const Domain& domain = domains[place.domain];
    PTO_ASSIGN_OR_RETURN(Buffer window, place.signals() ? domain.Signals(place.rank)
                                                        : domain.Window(place.rank, place.buffer));
    buffers.push_back(std::move(window));
  }
  return buffers;
}

absl::Status JobRunner::Upload(const std::vector<Buffer>& buffers, bool first) {
  for (size_t i = 0; i < buffers.size(); ++i) {
    // A new buffer is already zeroed; in a session of others it may have been there before.
    if (first && job_.buffers[i].zeros && options_.session.empty()) continue;
    // Signals are zero at the start of each run.
    if (job_.buffers[i].window.has_value() && job_.buffers[i].window->signals()) continue;
    if (interrupt_.seen()) return Error(reason::kInterrupted, "interrupted before the run");
    PTO_RETURN_IF_ERROR(
        buffers[i].Write(Buffer::Bytes(std::as_bytes(std::span(job_.buffers[i].initial.bytes)))));
  }
  return absl::OkStatus();
}

pto::RunOptions JobRunner::Options() const {
  const v1::RunOptions& wanted = job_.file.job.options();
  pto::RunOptions options;
  const auto time = [](const google::protobuf::Duration& duration) {
    return absl::Seconds(duration.seconds()) + absl::Nanoseconds(duration.nanos());
  };
  options.timeout = time(wanted.timeout());
  options.queue_timeout = time(wanted.queue_timeout());
  options.task_timeout = time(wanted.task_timeout());
  options.wait_timeout = time(wanted.wait_timeout());
  options.priority =
      options_.priority == v1::PRIORITY_UNSPECIFIED ? wanted.priority() : options_.priority;
  options.event_level = wanted.event_level();
  options.labels.insert(wanted.labels().begin(), wanted.labels().end());
  return options;
}

absl::StatusOr<v1::Run> JobRunner::Stream(Session& session) {
  PTO_ASSIGN_OR_RETURN(const std::vector<v1::Kernel> kernels, ListKernels());
  PTO_ASSIGN_OR_RETURN(OpenRun run, session.BeginOpenRun(Options()));
  const pto::Run handle = session.GetRun(run.name());
  job::GraphFiller filler(job_.graph, kernels, &run.graph());
  filler.AddTensors();
  ProgressLine progress(context_.err, context_.err_is_terminal && !context_.quiet);
  StallNotice stall(context_, client_, run.name());
  const absl::Time deadline = absl::Now() + context_.WaitTimeout();
  uint64_t sent = 0;
  for (uint64_t round = 0;;) {
    while (round < options_.stream_rounds && run.graph().task_count() - sent < kSegmentTasks) {
      PTO_RETURN_IF_ERROR(filler.AddTasks(false));
      ++round;
    }
    if (interrupt_.seen()) {
      progress.Clear();
      return Cancel(handle);
    }
    const absl::Duration slice = std::min(kSlice, deadline - absl::Now());
    if (slice <= absl::ZeroDuration()) {
      return stall.NotInTime(kNotInTime).Hint("increase --timeout");
    }
    if (round < options_.stream_rounds) {
      const absl::Status flushed = run.Flush(slice);
      if (flushed.ok()) {
        sent = run.graph().task_count();
        continue;
      }
      // Flow control: the daemon accepts no more tasks at the moment.
      if (!IsTimeout(flushed)) return flushed;
    } else {
      absl::StatusOr<v1::Run> ended = run.Finish(slice);
      if (ended.ok() || !IsTimeout(ended.status())) return ended;
    }
    // The daemon may not have created the run yet.
    if (const absl::StatusOr<v1::Run> now = handle.Get(); now.ok()) {
      progress.Update(now->tasks_done(),
                      options_.stream_rounds * static_cast<uint64_t>(job_.graph.tasks_size()));
      stall.Look(*now, absl::Now(), progress);
    }
  }
}

absl::StatusOr<pto::Run> JobRunner::Submit(Session& session) {
  const pto::RunOptions options = Options();
  if (!options_.packed) return session.Submit(job_.graph, options);
  PTO_ASSIGN_OR_RETURN(const std::vector<v1::Kernel> kernels, ListKernels());
  GraphBuilder builder;
  PTO_RETURN_IF_ERROR(job::FillBuilder(job_.graph, kernels, &builder));
  return session.SubmitPacked(builder, options);
}

absl::StatusOr<v1::Run> JobRunner::Await(const pto::Run& run) {
  absl::optional<EventStream> events;
  if (options_.watch) {
    PTO_ASSIGN_OR_RETURN(EventStream stream, run.Events());
    events.emplace(std::move(stream));
  }
  ProgressLine progress(context_.err,
                        context_.err_is_terminal && !options_.watch && !context_.quiet);
  StallNotice stall(context_, client_, run.name());
  const absl::Time deadline = absl::Now() + context_.WaitTimeout();
  while (true) {
    if (interrupt_.seen()) {
      progress.Clear();
      return Cancel(run);
    }
    const absl::Duration slice = std::min(kSlice, deadline - absl::Now());
    if (slice <= absl::ZeroDuration()) {
      return stall.NotInTime(kNotInTime)
          .Hint("increase --timeout, or use --detach and `ptoctl runs wait`");
    }
    if (events.has_value()) {
      absl::StatusOr<absl::optional<v1::EventBatch>> batch = events->Next(slice);
      if (batch.ok() && batch->has_value()) {
        for (const v1::Event& event : (*batch)->events()) printer_.Event(event, &job_.graph);
        continue;
      }
      if (!batch.ok() && !IsTimeout(batch.status())) return batch.status();
    } else {
      absl::StatusOr<v1::Run> ended = run.Wait(slice);
      if (ended.ok() || !IsTimeout(ended.status())) return ended;
    }
    // Nothing arrived in this slice. This call also detects a daemon that hangs.
    PTO_ASSIGN_OR_RETURN(v1::Run now, run.Get());
    if (IsFinal(now.state())) {
      printer_.EndOfEvents();
      return now;
    }
    progress.Update(now.tasks_done(), now.tasks_total());
    stall.Look(now, absl::Now(), progress);
  }
}

absl::Status JobRunner::Cancel(const pto::Run& run) {
  PTO_RETURN_IF_ERROR(run.Cancel("interrupted").status());
  // Wait briefly so that the report has the final state. Closing the session frees everything.
  absl::StatusOr<v1::Run> ended = run.Wait(absl::Seconds(2));
  if (ended.ok()) *report_.add_runs() = *std::move(ended);
  return Error(reason::kInterrupted, "interrupted; cancellation of the run was requested");
}

absl::StatusOr<std::vector<std::string>> JobRunner::Download(const std::vector<Buffer>& buffers) {
  std::vector<bool> wanted(buffers.size());
  for (const job::v1::Output& output : job_.file.job.outputs()) {
    wanted[job_.views.at(output.tensor()).buffer] = true;
  }
  for (const job::v1::Check& check : job_.file.job.checks()) {
    wanted[job_.views.at(check.tensor()).buffer] = true;
    if (!check.equals().empty()) wanted[job_.views.at(check.equals()).buffer] = true;
  }
  std::vector<std::string> memory(buffers.size());
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (!wanted[i]) continue;
    memory[i].resize(buffers[i].bytes());
    PTO_RETURN_IF_ERROR(
        buffers[i].Read(Buffer::WritableBytes(std::as_writable_bytes(std::span(memory[i])))));
  }
  return memory;
}

absl::Status JobRunner::Output(const std::vector<std::string>& memory) {
  for (const job::v1::Output& output : job_.file.job.outputs()) {
    const job::NamedView& named = job_.views.at(output.tensor());
    const job::Array array = named.view.Extract(memory[named.buffer]);
    const bool only_saved = output.print() == 0 && !output.save().empty();
    job::v1::TensorReport& report = *report_.add_outputs();
    report = job::Summarize(output.tensor(), array,
                            only_saved            ? 0
                            : output.print() == 0 ? kDefaultPrint
                                                  : output.print());
    if (output.save().empty()) continue;
    PTO_RETURN_IF_ERROR(job::WriteNpy(output.save(), array));
    report.set_saved(output.save());
  }
  return absl::OkStatus();
}

absl::Status JobRunner::Check(const std::vector<std::string>& memory) {
  PTO_ASSIGN_OR_RETURN(const std::vector<job::CheckResult> results, job::RunChecks(job_, memory));
  report_.clear_checks();
  int failed = 0;
  for (const job::CheckResult& result : results) {
    job::v1::CheckReport& check = *report_.add_checks();
    check.set_tensor(result.tensor);
    check.set_ok(result.ok());
    check.set_elements(result.elements);
    check.set_mismatches(result.mismatches);
    check.set_max_error(result.max_error);
    check.set_text(job::Describe(result));
    failed += result.ok() ? 0 : 1;
  }
  if (failed == 0) return absl::OkStatus();
  return Error(reason::kCheckFailed,
               absl::StrCat(failed, " of ", results.size(), " checks failed"));
}

}  // namespace pto::ptoctl
