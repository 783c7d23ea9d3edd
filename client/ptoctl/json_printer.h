#pragma once

#include <ostream>

#include "client/ptoctl/printer.h"

namespace pto::ptoctl {

// -o json: API messages in protobuf's JSON format. Prints one document: an object, or an array for
// a list. Events are printed as they arrive, one object per line; a report after events is also one
// line.
class JsonPrinter : public Printer {
 public:
  // Does not own `out`.
  explicit JsonPrinter(std::ostream& out) : out_(out) {}

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
  void KernelReport(const job::v1::KernelReport& report) override;
  void Report(const job::v1::Report& report) override;

 private:
  std::ostream& out_;
  bool lines_ = false;
};

}  // namespace pto::ptoctl
