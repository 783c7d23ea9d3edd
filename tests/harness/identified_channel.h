#pragma once

#include <memory>
#include <string>

#include "grpcpp/channel.h"
#include "tests/harness/certificates.h"

namespace pto::testing {

// Connections over TCP of somebody whom the daemon knows by something else than a user.

// All calls have the token.
std::shared_ptr<grpc::Channel> ChannelWithToken(const std::string& address,
                                                const std::string& token);

// With a client certificate, to a daemon whose own certificate is signed by `authority` for the
// host `localhost`.
std::shared_ptr<grpc::Channel> ChannelWithCertificate(const std::string& address,
                                                      const TestCertificate& authority,
                                                      const TestCertificate& client);

// The first address over TCP that the daemon's log names, or an empty text.
std::string TcpAddressIn(const std::string& log);

}  // namespace pto::testing
