#include "client/ptoctl/name_printer.h"

namespace pto::ptoctl {
namespace {

template <typename T>
void PrintNames(absl::Span<const T> list, std::ostream& out) {
  for (const T& item : list) out << item.name() << '\n';
}

}  // namespace

void NamePrinter::Node(const v1::Node& node) { out_ << node.boot_id() << '\n'; }
void NamePrinter::Config(const v1::Config& config) {
  for (const v1::Config::Setting& setting : config.settings()) out_ << setting.name() << '\n';
}
void NamePrinter::Chips(absl::Span<const v1::Chip> chips) { PrintNames(chips, out_); }
void NamePrinter::Sessions(absl::Span<const v1::Session> sessions) { PrintNames(sessions, out_); }
void NamePrinter::Usage(absl::Span<const v1::Usage> usage) {
  for (const v1::Usage& each : usage) out_ << each.principal() << '\n';
}
void NamePrinter::Kernels(absl::Span<const v1::Kernel> kernels) { PrintNames(kernels, out_); }
void NamePrinter::Kernel(const v1::Kernel& kernel) { out_ << kernel.name() << '\n'; }
// A host has the name of its session.
void NamePrinter::Hosts(absl::Span<const v1::Host> hosts) {
  for (const v1::Host& host : hosts) out_ << host.session() << '\n';
}
void NamePrinter::Host(const v1::Host& host) { out_ << host.session() << '\n'; }
void NamePrinter::Domains(absl::Span<const v1::Domain> domains) { PrintNames(domains, out_); }
void NamePrinter::Domain(const v1::Domain& domain) { out_ << domain.name() << '\n'; }
void NamePrinter::Signals(const v1::Domain& /*domain*/, uint32_t /*first*/,
                          absl::Span<const v1::ReadSignalsResponse> ranks) {
  for (const v1::ReadSignalsResponse& rank : ranks) {
    for (const uint64_t value : rank.values()) out_ << static_cast<int64_t>(value) << '\n';
  }
}
void NamePrinter::Notified(const v1::NotifyResponse& response) {
  out_ << static_cast<int64_t>(response.value()) << '\n';
}
void NamePrinter::Runs(absl::Span<const v1::Run> runs) { PrintNames(runs, out_); }
void NamePrinter::Run(const v1::Run& run) { out_ << run.name() << '\n'; }
// A script needs only the verdict.
void NamePrinter::Explanation(const v1::ExplainRunResponse& explanation) {
  out_ << v1::ExplainRunResponse::Verdict_Name(explanation.verdict()) << '\n';
}

void NamePrinter::Event(const v1::Event& event, const v1::GraphSpec* /*graph*/) {
  out_ << event.sequence() << '\n';
}

void NamePrinter::KernelReport(const job::v1::KernelReport& report) {
  for (const job::v1::KernelFinding& finding : report.findings()) out_ << finding.problem() << '\n';
}

void NamePrinter::Report(const job::v1::Report& report) {
  for (const v1::Run& run : report.runs()) out_ << run.name() << '\n';
}

}  // namespace pto::ptoctl
