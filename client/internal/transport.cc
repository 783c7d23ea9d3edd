#include "client/internal/transport.h"

#include "absl/strings/str_cat.h"
#include "runtime/base/error.h"

namespace pto::internal {

absl::Status CheckAddress(absl::string_view address) {
  const size_t colon = address.rfind(':');
  if (colon != absl::string_view::npos && colon > 0 && colon + 1 < address.size()) {
    return absl::OkStatus();
  }
  return Error(reason::kFieldInvalid, absl::StrCat("'", address, "' is not an address"))
      .At("address")
      .With("address", address)
      .Hint("an address is unix:/path or host:port");
}

Transport::Transport(const std::string& address, absl::Duration connect_timeout,
                     const ChannelSecurity& security)
    : control_(address, connect_timeout, security),
      events_(address, connect_timeout, security),
      bulk_(address, connect_timeout, security),
      node(control_),
      session(control_),
      kernel(control_),
      buffer(control_),
      domain(control_),
      run(control_),
      event(events_),
      bulk_buffer(bulk_),
      bulk_run(bulk_),
      bulk_kernel(bulk_) {}

}  // namespace pto::internal
