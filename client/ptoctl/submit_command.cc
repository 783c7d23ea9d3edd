#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/job/chip_list.h"
#include "client/job/job_file.h"
#include "client/job/prepared_job.h"
#include "client/ptoctl/commands.h"
#include "client/ptoctl/job_runner.h"
#include "client/ptoctl/write_trace.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::ptoctl {
namespace {

struct CommandOptions {
  std::string file;
  std::string chips;
  std::vector<std::string> outs;
  bool check_only = false;
  SubmitOptions submit;
};

// Adds each `--out NAME=FILE` to the job's outputs. PrepareJob later checks that the tensor exists.
absl::Status AddOutputs(const std::vector<std::string>& outs, job::v1::Job* job) {
  for (const std::string& out : outs) {
    const std::pair<std::string, std::string> parts = absl::StrSplit(out, absl::MaxSplits('=', 1));
    if (parts.first.empty() || !absl::EndsWith(parts.second, ".npy")) {
      return Error(reason::kUsage, absl::StrCat("--out ", out, ": expected NAME=FILE.npy"));
    }
    // Reuse an output that the job already prints, so that it is not printed twice.
    job::v1::Output* output = nullptr;
    for (job::v1::Output& present : *job->mutable_outputs()) {
      if (present.tensor() == parts.first && present.save().empty()) output = &present;
    }
    if (output == nullptr) {
      output = job->add_outputs();
      output->set_tensor(parts.first);
    } else if (output->print() == 0) {
      output->set_print(kDefaultPrint);
    }
    output->set_save(parts.second);
  }
  return absl::OkStatus();
}

// Loads a job from a file, or from standard input if `path` is `-`. Standard input is JSON if it
// starts with `{`, and text protobuf otherwise.
absl::StatusOr<job::JobFile> Load(const std::string& path) {
  if (path != "-") return job::LoadJobFile(path);
  const std::string text((std::istreambuf_iterator<char>(std::cin)),
                         std::istreambuf_iterator<char>());
  const size_t first = text.find_first_not_of(" \t\r\n");
  const bool json = first != std::string::npos && text[first] == '{';
  return job::ParseJob(json ? "stdin.json" : "stdin.txtpb", text);
}

absl::Status Submit(Context& context, const CommandOptions& options) {
  PTO_ASSIGN_OR_RETURN(job::JobFile file, Load(options.file));
  std::vector<uint32_t> chips;
  if (!options.chips.empty()) {
    absl::StatusOr<std::vector<uint32_t>> parsed = job::ParseChipList(options.chips);
    if (!parsed.ok()) {
      return Error(reason::kUsage, absl::StrCat("--chips: ", parsed.status().message()))
          .Hint("use numbers and ranges, for example 0-3,6");
    }
    chips = *std::move(parsed);
  }
  PTO_RETURN_IF_ERROR(AddOutputs(options.outs, &file.job));
  PTO_ASSIGN_OR_RETURN(const job::PreparedJob job, job::PrepareJob(std::move(file), chips));
  context.places = job.file.places;
  if (options.check_only) {
    context.err << options.file << ": " << job.graph.tasks_size() << " tasks, "
                << job.buffers.size() << " buffers; no errors found\n";
    return absl::OkStatus();
  }
  PTO_ASSIGN_OR_RETURN(Client client, context.Connect());
  const std::unique_ptr<Printer> printer = context.MakePrinter();
  return JobRunner(client, job, options.submit, context, *printer).Run();
}

void AddSession(Command& command, CommandOptions& options) {
  command.AddOption("--session", &options.submit.session,
                    "Session to run in, by name or id, for example one with uploaded kernels "
                    "(default: a new one, which is deleted at the end)");
}

}  // namespace

void AddStreamCommand(Command& runs, Context& context) {
  Command& stream = runs.AddCommand(
      "stream", "Run a job file as an open run: tasks start while later ones are still being sent");
  auto options = std::make_shared<CommandOptions>();
  options->submit.stream_rounds = 1;
  stream
      .AddOption("FILE", &options->file,
                 "Job file (.json, .txtpb, .textproto or .pbtxt), or - for standard input")
      .Required();
  stream
      .AddOption("--repeat", &options->submit.stream_rounds,
                 "Number of times to send the tasks in one run (default 1); checks see the final "
                 "contents")
      .Range(uint64_t{1}, uint64_t{1} << 32);
  stream
      .AddOption("--out", &options->outs,
                 "Save tensor NAME to a file, as NAME=FILE.npy; can be repeated")
      .Repeated();
  stream.AddOption("--chips", &options->chips,
                   "Chips to use instead of those in the job, for example 0-3,6");
  AddSession(stream, *options);
  stream.Footer(
      "Tasks start as they arrive, and the daemon discards them when they end. If the daemon has\n"
      "too many unfinished tasks, this command waits before it sends more. The command fails if\n"
      "the run or a check fails. Ctrl-C cancels the run.\n\nExamples:\n"
      "  ptoctl runs stream vector_add.json\n"
      "  ptoctl runs stream vector_add.json --repeat 100000\n"
      "  generate-job | ptoctl runs stream -");
  stream.Action([&context, options] { return Submit(context, *options); });
}

void AddSubmitCommand(Command& runs, Context& context) {
  Command& submit = runs.AddCommand("submit", "Run a job file and check its results");
  auto options = std::make_shared<CommandOptions>();
  submit
      .AddOption("FILE", &options->file,
                 "Job file (.json, .txtpb, .textproto or .pbtxt), or - for standard input")
      .Required();
  submit.AddFlag("--watch,-w", &options->submit.watch, "Print events as they arrive");
  submit
      .AddOption("--out", &options->outs,
                 "Save tensor NAME to a file, as NAME=FILE.npy; can be repeated")
      .Repeated();
  submit.AddOption("--chips", &options->chips,
                   "Chips to use instead of those in the job, for example 0-3,6");
  submit.AddFlag("--packed", &options->submit.packed,
                 "Send the graph in the packed columnar format");
  submit
      .AddOption("--repeat", &options->submit.repeat,
                 "Number of runs (default 1); each starts from the initial buffer contents")
      .Range(1, 1000000);
  submit.AddChoice(
      "--priority", {{"low", v1::LOW}, {"normal", v1::NORMAL}, {"high", v1::HIGH}},
      [options](int given) { options->submit.priority = static_cast<v1::Priority>(given); },
      "Priority of the run (default: the priority in the job)");
  submit
      .AddOption("--weight", &options->submit.weight,
                 "Relative share of chips that are contended with other sessions (default 1)")
      .Range(1, 1000);
  submit
      .AddOption("--trace", &options->submit.trace,
                 "Write a trace of the last run to a .json (Perfetto), .svg or .html file")
      .Check(CheckTraceName);
  submit
      .AddFlag("--detach,-d", &options->submit.detach,
               "Submit the run, keep the session for --ttl and return without waiting")
      .Excludes({"--watch", "--out", "--repeat", "--trace"});
  submit.AddOption("--ttl", &options->submit.ttl,
                   "Lifetime of a detached session after its last use (default 1h)");
  AddSession(submit, *options);
  submit.AddFlag("--dry-run", &options->check_only,
                 "Validate the job file without running it (works without a daemon)");
  submit.Footer(
      "Creates a session and its buffers, runs the graph, and prints, saves and checks tensors as\n"
      "the job file specifies. The command fails if the run or a check fails. Ctrl-C cancels the\n"
      "run.\n\nExamples:\n"
      "  ptoctl runs submit vector_add.json\n"
      "  ptoctl runs submit ffn.txtpb --watch --out y=y.npy\n"
      "  ptoctl runs submit vector_add.json --chips 0,0,0,0 --repeat 10 -o json");
  submit.Action([&context, options] { return Submit(context, *options); });
}

}  // namespace pto::ptoctl
