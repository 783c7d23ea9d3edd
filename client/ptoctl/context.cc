#include "client/ptoctl/context.h"

#include <algorithm>
#include <cstdlib>

#include "client/ptoctl/context_file.h"
#include "client/ptoctl/json_printer.h"
#include "client/ptoctl/name_printer.h"
#include "client/ptoctl/table_printer.h"
#include "runtime/base/status_macros.h"

namespace pto::ptoctl {
namespace {

bool IsSet(const char* variable) {
  const char* const text = std::getenv(variable);
  return text != nullptr && *text != '\0';
}

void FillIn(const std::string& from, std::string* value) {
  if (value->empty()) *value = from;
}

}  // namespace

absl::StatusOr<Context::Target> Context::FindTarget() const {
  Target target{address, tls, token_file};
  // The files of a context are for its own daemon.
  const bool elsewhere = !address.empty() || IsSet("PTOD_ADDRESS");
  if (context_name.empty() && elsewhere) return target;
  PTO_ASSIGN_OR_RETURN(contexts::v1::Contexts all, LoadContexts(ContextFilePath()));
  const std::string name = context_name.empty() ? all.current() : context_name;
  if (name.empty()) return target;
  const contexts::v1::NamedContext* const found = FindContext(all, name);
  if (found == nullptr) return NoContext(all, name);
  FillIn(found->address(), &target.address);
  FillIn(found->tls_ca(), &target.tls.ca_file);
  FillIn(found->tls_cert(), &target.tls.cert_file);
  FillIn(found->tls_key(), &target.tls.key_file);
  FillIn(found->tls_server_name(), &target.tls.server_name);
  FillIn(found->token_file(), &target.token_file);
  return target;
}

absl::StatusOr<Client> Context::Connect() const {
  PTO_ASSIGN_OR_RETURN(const Target target, FindTarget());
  ClientOptions options;
  options.connect_timeout = std::min(options.connect_timeout, CallTimeout());
  options.timeout = CallTimeout();
  options.tls = target.tls;
  options.token_file = target.token_file;
  return Client::Connect(target.address, options);
}

absl::Duration Context::CallTimeout() const { return timeout.value_or(absl::Seconds(30)); }

absl::Duration Context::WaitTimeout() const { return timeout.value_or(absl::InfiniteDuration()); }

std::unique_ptr<Printer> Context::MakePrinter() const {
  if (quiet || output == "name") return std::make_unique<NamePrinter>(out);
  if (output == "json") return std::make_unique<JsonPrinter>(out);
  return std::make_unique<TablePrinter>(out, absl::Now());
}

}  // namespace pto::ptoctl
