#pragma once

#include <cstdint>
#include <ostream>

#include "absl/time/time.h"
#include "client/ptoctl/printer.h"

namespace pto::ptoctl {

// -o table: human-readable output.
class TablePrinter : public Printer {
 public:
  // Does not own `out`. Ages are relative to `now`.
  TablePrinter(std::ostream& out, absl::Time now) : out_(out), now_(now) {}

  void Node(const v1::Node& node) override;
  void Config(const v1::Config& config) override;
  void Chips(absl::Span<const v1::Chip> chips) override;
  void Sessions(absl::Span<const v1::Session> sessions) override;
  void Usage(absl::Span<const v1::Usage> usage) override;
  void Kernels(absl::Span<const v1::Kernel> kernels) override;
  void Kernel(const v1::Kernel& kernel) override;
  void Hosts(absl::Span<const v1::Host> hosts) override;
  void Host(const v1::Host& host) override;
  void Domains(absl::Span<const v1::Domain> domains) override;
  void Domain(const v1::Domain& domain) override;
  void Signals(const v1::Domain& domain, uint32_t first,
               absl::Span<const v1::ReadSignalsResponse> ranks) override;
  void Notified(const v1::NotifyResponse& response) override;
  void Runs(absl::Span<const v1::Run> runs) override;
  void Run(const v1::Run& run) override;
  void Explanation(const v1::ExplainRunResponse& explanation) override;
  void Event(const v1::Event& event, const v1::GraphSpec* graph) override;
  void EndOfEvents() override;
  void KernelReport(const job::v1::KernelReport& report) override;
  void Report(const job::v1::Report& report) override;

 private:
  void Tasks(const v1::TaskEvents& tasks, const v1::GraphSpec* graph);

  std::ostream& out_;
  const absl::Time now_;
  // Number of tasks printed, and number of tasks omitted because of the limit.
  uint64_t shown_tasks_ = 0;
  uint64_t hidden_tasks_ = 0;
};

}  // namespace pto::ptoctl
