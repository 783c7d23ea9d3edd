#pragma once

#include <openssl/ssl.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tests/harness/certificates.h"

namespace pto::testing {

// A TLS connection to a port of this machine that does only what it is told. For one thread.
class RawTlsClient {
 public:
  struct Options {
    // The client's certificate; nullptr: none.
    const TestCertificate* certificate = nullptr;
    // Of a connection before, to resume; nullptr: none.
    SSL_SESSION* session = nullptr;
    bool http2 = true;    // offers `h2`
    int max_version = 0;  // of TLS; 0: any
  };

  // Connects and shakes hands.
  RawTlsClient(uint16_t port, const Options& options);
  explicit RawTlsClient(uint16_t port) : RawTlsClient(port, Options()) {}
  ~RawTlsClient();
  RawTlsClient(const RawTlsClient&) = delete;
  RawTlsClient& operator=(const RawTlsClient&) = delete;

  // Whether the handshake has ended well.
  bool established() const { return established_; }
  // Whether it resumed the session.
  bool reused() const { return SSL_session_reused(ssl_) == 1; }
  // The session as of now, for the next connection.
  std::shared_ptr<SSL_SESSION> session() const;

  // Sends all of it, and drops what comes meanwhile. Returns false once the other side has closed
  // the connection or does not read for `patience`.
  bool Send(absl::string_view bytes, absl::Duration patience = absl::Seconds(10));
  // Reads until the other side has sent this text. Returns whether it has.
  bool WaitFor(absl::string_view text, absl::Duration patience = absl::Seconds(10));
  // Whether the other side closes the connection within the time.
  bool WaitForEnd(absl::Duration patience = absl::Seconds(10));

  // The beginning of what the other side has sent, and all that went over the wire to it.
  const std::string& received() const { return received_; }
  const std::string& wire() const { return wire_; }

 private:
  // Moves bytes between TLS and the socket, and waits a little for more. Returns false at the end.
  bool Pump();

  int socket_ = -1;
  SSL_CTX* context_ = nullptr;
  SSL* ssl_ = nullptr;
  BIO* in_ = nullptr;   // owned by ssl_
  BIO* out_ = nullptr;  // likewise
  bool established_ = false;
  bool ended_ = false;
  std::string unsent_;
  std::string received_;
  std::string wire_;
};

}  // namespace pto::testing
