#include "tests/harness/raw_tls_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "absl/time/clock.h"

namespace pto::testing {
namespace {

constexpr absl::Duration kHandshake = absl::Seconds(10);
constexpr size_t kMostKept = 1 << 16;

}  // namespace

RawTlsClient::RawTlsClient(uint16_t port, const Options& options)
    : context_(SSL_CTX_new(TLS_client_method())) {
  // OpenSSL itself refuses old versions at its usual level.
  SSL_CTX_set_security_level(context_, options.max_version == 0 ? 1 : 0);
  if (options.max_version != 0) {
    SSL_CTX_set_min_proto_version(context_, TLS1_VERSION);
    SSL_CTX_set_max_proto_version(context_, options.max_version);
  }
  if (options.certificate != nullptr) {
    SSL_CTX_use_certificate_file(context_, options.certificate->CertificateFile().c_str(),
                                 SSL_FILETYPE_PEM);
    SSL_CTX_use_PrivateKey_file(context_, options.certificate->KeyFile().c_str(), SSL_FILETYPE_PEM);
  }
  ssl_ = SSL_new(context_);
  constexpr unsigned char kHttp2[] = {2, 'h', '2'};
  if (options.http2) SSL_set_alpn_protos(ssl_, kHttp2, sizeof kHttp2);
  if (options.session != nullptr) SSL_set_session(ssl_, options.session);
  in_ = BIO_new(BIO_s_mem());
  out_ = BIO_new(BIO_s_mem());
  SSL_set_bio(ssl_, in_, out_);
  SSL_set_connect_state(ssl_);

  socket_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    ended_ = true;
    return;
  }
  const absl::Time deadline = absl::Now() + kHandshake;
  while (absl::Now() < deadline) {
    established_ = SSL_do_handshake(ssl_) == 1;
    if (!Pump() || established_) return;
  }
}

RawTlsClient::~RawTlsClient() {
  SSL_free(ssl_);
  SSL_CTX_free(context_);
  close(socket_);
}

std::shared_ptr<SSL_SESSION> RawTlsClient::session() const {
  return {SSL_get1_session(ssl_), SSL_SESSION_free};
}

bool RawTlsClient::Pump() {
  if (ended_) return false;
  char bytes[16'384];
  for (int size = 0; (size = BIO_read(out_, bytes, sizeof bytes)) > 0;) {
    unsent_.append(bytes, static_cast<size_t>(size));
    if (wire_.size() < kMostKept) wire_.append(bytes, static_cast<size_t>(size));
  }
  pollfd waits = {socket_, static_cast<short>(unsent_.empty() ? POLLIN : POLLIN | POLLOUT), 0};
  poll(&waits, 1, 100);
  if (!unsent_.empty()) {
    const ssize_t sent = send(socket_, unsent_.data(), unsent_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN) return !(ended_ = true);
    if (sent > 0) unsent_.erase(0, static_cast<size_t>(sent));
  }
  while (true) {
    const ssize_t size = recv(socket_, bytes, sizeof bytes, MSG_DONTWAIT);
    if (size == 0 || (size < 0 && errno != EAGAIN)) ended_ = true;
    if (size <= 0) break;
    BIO_write(in_, bytes, static_cast<int>(size));
  }
  if (established_) {
    int size = 0;
    while ((size = SSL_read(ssl_, bytes, sizeof bytes)) > 0) {
      if (received_.size() < kMostKept) received_.append(bytes, static_cast<size_t>(size));
    }
    const int error = SSL_get_error(ssl_, size);
    if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE) ended_ = true;
  }
  return !ended_;
}

bool RawTlsClient::Send(absl::string_view bytes, absl::Duration patience) {
  if (!established_ || ended_) return false;
  SSL_write(ssl_, bytes.data(), static_cast<int>(bytes.size()));
  const absl::Time deadline = absl::Now() + patience;
  do {
    if (!Pump()) return false;
  } while (!unsent_.empty() && absl::Now() < deadline);
  return unsent_.empty();
}

bool RawTlsClient::WaitFor(absl::string_view text, absl::Duration patience) {
  const absl::Time deadline = absl::Now() + patience;
  const auto found = [&] {
    return absl::string_view(received_).find(text) != absl::string_view::npos;
  };
  while (!found() && Pump() && absl::Now() < deadline) {
  }
  return found();
}

bool RawTlsClient::WaitForEnd(absl::Duration patience) {
  const absl::Time deadline = absl::Now() + patience;
  while (Pump()) {
    if (absl::Now() > deadline) return false;
  }
  return true;
}

}  // namespace pto::testing
