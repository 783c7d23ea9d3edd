#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "client/job/report.pb.h"
#include "pto/v1/domain.pb.h"
#include "pto/v1/event.pb.h"
#include "pto/v1/graph.pb.h"
#include "pto/v1/kernel.pb.h"
#include "pto/v1/node.pb.h"
#include "pto/v1/run.pb.h"
#include "pto/v1/session.pb.h"

namespace pto::ptoctl {

// Writes results in one output format. Not thread-safe.
class Printer {
 public:
  virtual ~Printer() = default;

  virtual void Node(const v1::Node& node) = 0;
  virtual void Config(const v1::Config& config) = 0;
  virtual void Chips(absl::Span<const v1::Chip> chips) = 0;
  virtual void Sessions(absl::Span<const v1::Session> sessions) = 0;
  virtual void Usage(absl::Span<const v1::Usage> usage) = 0;
  virtual void Kernels(absl::Span<const v1::Kernel> kernels) = 0;
  // All details of one kernel.
  virtual void Kernel(const v1::Kernel& kernel) = 0;
  virtual void Hosts(absl::Span<const v1::Host> hosts) = 0;
  // All details of one kernel host.
  virtual void Host(const v1::Host& host) = 0;
  virtual void Domains(absl::Span<const v1::Domain> domains) = 0;
  // All details of one domain.
  virtual void Domain(const v1::Domain& domain) = 0;
  // The signals of consecutive ranks of the domain, starting with rank `first`.
  virtual void Signals(const v1::Domain& domain, uint32_t first,
                       absl::Span<const v1::ReadSignalsResponse> ranks) = 0;
  // The new value of a signal.
  virtual void Notified(const v1::NotifyResponse& response) = 0;
  virtual void Runs(absl::Span<const v1::Run> runs) = 0;
  // All details of one run.
  virtual void Run(const v1::Run& run) = 0;

  // Why a run has not ended.
  virtual void Explanation(const v1::ExplainRunResponse& explanation) = 0;

  // One event. `graph` provides task names; nullptr if it is not known.
  virtual void Event(const v1::Event& event, const v1::GraphSpec* graph) = 0;
  // Called after the last event.
  virtual void EndOfEvents() {}

  // The result of checking a kernel.
  virtual void KernelReport(const job::v1::KernelReport& report) = 0;

  // The results of a job.
  virtual void Report(const job::v1::Report& report) = 0;
};

}  // namespace pto::ptoctl
