#include "client/ptoctl/context.h"

#include <algorithm>

#include "client/ptoctl/json_printer.h"
#include "client/ptoctl/name_printer.h"
#include "client/ptoctl/table_printer.h"

namespace pto::ptoctl {

absl::StatusOr<Client> Context::Connect() const {
  ClientOptions options;
  options.connect_timeout = std::min(options.connect_timeout, CallTimeout());
  options.timeout = CallTimeout();
  return Client::Connect(address, options);
}

absl::Duration Context::CallTimeout() const { return timeout.value_or(absl::Seconds(30)); }

absl::Duration Context::WaitTimeout() const { return timeout.value_or(absl::InfiniteDuration()); }

std::unique_ptr<Printer> Context::MakePrinter() const {
  if (quiet) return std::make_unique<NamePrinter>(out);
  if (output == "json") return std::make_unique<JsonPrinter>(out);
  return std::make_unique<TablePrinter>(out, absl::Now());
}

}  // namespace pto::ptoctl
