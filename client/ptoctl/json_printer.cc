#include "client/ptoctl/json_printer.h"

#include <string>

#include "google/protobuf/message.h"
#include "google/protobuf/util/json_util.h"

namespace pto::ptoctl {
namespace {

std::string ToJson(const google::protobuf::Message& message, bool pretty) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = pretty;
  // Scripts should not have to handle missing fields.
  options.always_print_primitive_fields = true;
  std::string json;
  const auto status = google::protobuf::util::MessageToJsonString(message, &json, options);
  if (!status.ok()) return "null";
  while (!json.empty() && json.back() == '\n') json.pop_back();
  return json;
}

void PrintObject(const google::protobuf::Message& message, std::ostream& out) {
  out << ToJson(message, true) << '\n';
}

template <typename T>
void PrintArray(absl::Span<const T> list, std::ostream& out) {
  if (list.empty()) {
    out << "[]\n";
    return;
  }
  for (size_t i = 0; i < list.size(); ++i) out << (i == 0 ? "[\n" : ",\n") << ToJson(list[i], true);
  out << "\n]\n";
}

}  // namespace

void JsonPrinter::Node(const v1::Node& node) { PrintObject(node, out_); }
void JsonPrinter::Config(const v1::Config& config) { PrintObject(config, out_); }
void JsonPrinter::Chips(absl::Span<const v1::Chip> chips) { PrintArray(chips, out_); }
void JsonPrinter::Sessions(absl::Span<const v1::Session> sessions) { PrintArray(sessions, out_); }
void JsonPrinter::Usage(absl::Span<const v1::Usage> usage) { PrintArray(usage, out_); }
void JsonPrinter::Kernels(absl::Span<const v1::Kernel> kernels) { PrintArray(kernels, out_); }
void JsonPrinter::Kernel(const v1::Kernel& kernel) { PrintObject(kernel, out_); }
void JsonPrinter::Hosts(absl::Span<const v1::Host> hosts) { PrintArray(hosts, out_); }
void JsonPrinter::Host(const v1::Host& host) { PrintObject(host, out_); }
void JsonPrinter::Domains(absl::Span<const v1::Domain> domains) { PrintArray(domains, out_); }
void JsonPrinter::Domain(const v1::Domain& domain) { PrintObject(domain, out_); }
void JsonPrinter::Signals(const v1::Domain& /*domain*/, uint32_t /*first*/,
                          absl::Span<const v1::ReadSignalsResponse> ranks) {
  PrintArray(ranks, out_);
}
void JsonPrinter::Notified(const v1::NotifyResponse& response) { PrintObject(response, out_); }
void JsonPrinter::Runs(absl::Span<const v1::Run> runs) { PrintArray(runs, out_); }
void JsonPrinter::Run(const v1::Run& run) { PrintObject(run, out_); }
void JsonPrinter::Explanation(const v1::ExplainRunResponse& explanation) {
  PrintObject(explanation, out_);
}

void JsonPrinter::Event(const v1::Event& event, const v1::GraphSpec* /*graph*/) {
  lines_ = true;
  out_ << ToJson(event, false) << std::endl;
}

void JsonPrinter::KernelReport(const job::v1::KernelReport& report) { PrintObject(report, out_); }

void JsonPrinter::Report(const job::v1::Report& report) { out_ << ToJson(report, !lines_) << '\n'; }

}  // namespace pto::ptoctl
