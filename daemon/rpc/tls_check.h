#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace pto::daemon::rpc {

// Checks PEM files before a server uses them, since gRPC reports a bad one only as failed
// handshakes. Errors: CONFIG_INVALID, which names the setting and the file.

// A certificate chain that is valid at `now`, and the private key of its first certificate.
absl::Status CheckCertificate(const std::string& cert_file, const std::string& key_file,
                              absl::Time now);
// One authority or more.
absl::Status CheckAuthorities(const std::string& ca_file);

}  // namespace pto::daemon::rpc
