#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "client/job/read_file.h"
#include "client/job/report.pb.h"
#include "client/kernel_check/kernel_check.h"
#include "client/ptoctl/commands.h"
#include "client/ptoctl/progress_line.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::ptoctl {
namespace {

struct CheckOptions {
  kernel_check::Options check;
  std::string signature_file;
  std::vector<std::string> shapes;
  std::vector<std::string> values;
  std::string blocks;
};

job::v1::KernelReport ToProto(const kernel_check::Report& report, const std::string& file) {
  job::v1::KernelReport out;
  out.set_file(file);
  out.set_kernel(report.kernel);
  out.set_abi(report.abi);
  out.set_seed(report.seed);
  out.set_cases(report.cases);
  out.set_refused_cases(report.refused);
  out.set_refusal(report.refusal);
  out.set_calls(report.calls);
  for (const kernel_check::Finding& finding : report.findings) {
    job::v1::KernelFinding& each = *out.add_findings();
    each.set_problem(kernel_check::ProblemName(finding.problem));
    each.set_tensor(finding.subject);
    each.set_text(finding.text);
    each.set_place(finding.place);
    each.set_case_(finding.case_index);
    each.set_input(finding.input);
    each.set_cases(finding.cases);
  }
  return out;
}

absl::Status Check(const Context& context, const CheckOptions& options) {
  kernel_check::Options check = options.check;
  for (const std::string& shape : options.shapes) {
    PTO_RETURN_IF_ERROR(kernel_check::AddShape(shape, &check));
  }
  for (const std::string& values : options.values) {
    PTO_RETURN_IF_ERROR(kernel_check::AddValues(values, &check));
  }
  if (!options.blocks.empty()) {
    PTO_RETURN_IF_ERROR(kernel_check::AddBlocks(options.blocks, &check));
  }
  if (!options.signature_file.empty()) {
    absl::StatusOr<std::string> text = job::ReadFile(options.signature_file);
    if (!text.ok()) return Error(reason::kUsage, text.status().message());
    check.signature = *std::move(text);
  }
  check.timeout = context.timeout.value_or(check.timeout);
  ProgressLine progress(context.err, context.err_is_terminal && !context.quiet, "inputs checked");
  const absl::StatusOr<kernel_check::Report> report = kernel_check::CheckKernel(
      check, [&progress](uint32_t done, uint32_t total) { progress.Update(done, total); });
  progress.Clear();
  if (!report.ok()) return report.status();
  context.MakePrinter()->KernelReport(ToProto(*report, check.file));
  if (report->findings.empty()) return absl::OkStatus();
  return Error(reason::kCheckFailed,
               absl::StrCat(report->findings.size(), report->findings.size() == 1
                                                         ? " problem was found"
                                                         : " problems were found"))
      .Hint(absl::StrCat("repeat one input with --seed ", report->seed, " --only ",
                         report->findings[0].case_index));
}

}  // namespace

void AddKernelCheckCommand(Command& kernels, Context& context) {
  Command& check = kernels.AddCommand(
      "check", "Run a kernel on random inputs in a child process and report its mistakes");
  auto options = std::make_shared<CheckOptions>();
  check.AddOption("FILE", &options->check.file, "Shared object with the kernel").Required();
  check.AddOption("--signature", &options->check.signature,
                  "What a kernel of the PTO ABI takes, for example \"in f32[] x, out f32[] y\"");
  check.AddOption("--signature-file", &options->signature_file, "The same, from a file")
      .Excludes({"--signature"});
  check.AddOption("--entry", &options->check.entry,
                  "Symbol of the kernel (default: pto_kernel_info or kernel_entry)");
  check
      .AddOption("--shape", &options->shapes,
                 "Shape of a tensor, as NAME=DIMENSIONS; letters are random numbers that are the "
                 "same everywhere (default: one random shape for all tensors); can be repeated")
      .Repeated();
  check
      .AddOption("--values", &options->values,
                 "Values of a tensor or scalar, as NAME=LOW:HIGH or NAME=VALUE (default: small "
                 "numbers); can be repeated")
      .Repeated();
  check.AddOption("--blocks", &options->blocks,
                  "Numbers of blocks to choose from, for example 1,4,32 (default: 1 to 16)");
  check.AddOption("--ranks", &options->check.ranks, "Members of the task (default 1)")
      .Range(uint64_t{1}, uint64_t{16});
  check.AddFlag("--dense", &options->check.dense, "Use only views without gaps");
  check.AddOption("--seed", &options->check.seed, "Seed of all random numbers (default 1)");
  check.AddOption("--runs", &options->check.runs, "Number of inputs (default 40)")
      .Range(uint64_t{1}, uint64_t{1'000'000});
  check.AddOption("--only", &options->check.only, "Use only the input of this number");
  check.Footer(
      "Uses each input several times, with changes that must not matter: other blocks, other old\n"
      "contents of outputs, other bytes around views. Finds accesses outside of views, writes to\n"
      "inputs, unwritten outputs, results that vary, ignored cancel flags, wrong return codes, "
      "and\n"
      "crashes, with the place in the source if it was compiled with -g. Works without a daemon;\n"
      "the kernel runs with your rights. --timeout limits one run of all blocks (default 10s). "
      "The\n"
      "exit code is 1 if anything was found.\n\nExamples:\n"
      "  ptoctl kernels check scale_add.so\n"
      "  ptoctl kernels check matmul.so --shape a=m,k --shape b=k,n --shape c=m,n\n"
      "  ptoctl kernels check scale.so --signature-file scale.sig --runs 1000 --seed 7");
  check.Action([&context, options] { return Check(context, *options); });
}

}  // namespace pto::ptoctl
