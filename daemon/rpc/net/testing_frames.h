#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "daemon/rpc/net/frame_scanner.h"

// HTTP/2 written by hand, for clients that do what no library does.
namespace pto::daemon::rpc::testing {

inline std::string BigEndian(uint32_t value, int bytes) {
  std::string out;
  for (int i = bytes - 1; i >= 0; --i) out.push_back(static_cast<char>(value >> 8 * i));
  return out;
}

inline std::string MakeFrame(uint8_t type, uint8_t flags, uint32_t stream,
                             absl::string_view payload = "") {
  return absl::StrCat(BigEndian(static_cast<uint32_t>(payload.size()), 3), BigEndian(type, 1),
                      BigEndian(flags, 1), BigEndian(stream, 4), payload);
}

// The preface and settings that change nothing.
inline std::string Hello() { return absl::StrCat(kPreface, MakeFrame(Frame::kSettings, 0, 0)); }

// A length as HPACK writes it after a prefix of 7 bits.
inline std::string HpackLength(size_t size) {
  if (size < 127) return std::string(1, static_cast<char>(size));
  std::string out(1, 127);
  for (size -= 127; size >= 128; size >>= 7) out.push_back(static_cast<char>((size & 127) | 128));
  out.push_back(static_cast<char>(size));
  return out;
}

// A header that is not entered into the table.
inline std::string Header(absl::string_view name, absl::string_view value) {
  return absl::StrCat(std::string(1, '\0'), HpackLength(name.size()), name,
                      HpackLength(value.size()), value);
}

// The header block of a call, `path` as in `/pkg.Service/Method`.
inline std::string CallHeaders(absl::string_view path) {
  return absl::StrCat(Header(":method", "POST"), Header(":scheme", "http"), Header(":path", path),
                      Header(":authority", "test"), Header("te", "trailers"),
                      Header("content-type", "application/grpc"));
}

inline std::string OpenCall(uint32_t stream, absl::string_view path) {
  return MakeFrame(Frame::kHeaders, Frame::kEndHeaders, stream, CallHeaders(path));
}

inline std::string ResetCall(uint32_t stream) {
  return MakeFrame(Frame::kResetStream, 0, stream, BigEndian(8, 4));
}

// The beginning of a gRPC message of `size` bytes.
inline std::string MessagePrefix(uint32_t size) {
  return absl::StrCat(std::string(1, '\0'), BigEndian(size, 4));
}

// A connection to a unix socket that does only what it is told.
class RawClient {
 public:
  explicit RawClient(const std::string& path) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    connected_ = connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  ~RawClient() { ::close(socket_); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  bool connected() const { return connected_; }

  // Sends all of it, and drops what the server sends meanwhile. Returns false once the server has
  // closed the connection or does not read for `patience`.
  bool Send(absl::string_view bytes, absl::Duration patience = absl::Seconds(10)) {
    const absl::Time deadline = absl::Now() + patience;
    while (!bytes.empty()) {
      const ssize_t sent = send(socket_, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      if (sent > 0) {
        bytes.remove_prefix(static_cast<size_t>(sent));
        continue;
      }
      if (errno != EAGAIN || absl::Now() > deadline) return false;
      Wait(POLLIN | POLLOUT, absl::Milliseconds(100));
      if (!Drain()) return false;
    }
    return true;
  }

  // Whether the server closes the connection within the time.
  bool WaitForEnd(absl::Duration patience = absl::Seconds(10)) {
    const absl::Time deadline = absl::Now() + patience;
    while (Drain()) {
      if (absl::Now() > deadline) return false;
      Wait(POLLIN, absl::Milliseconds(100));
    }
    return true;
  }

  // Waits until the server has sent at least one byte more.
  bool WaitForBytes(absl::Duration patience = absl::Seconds(10)) {
    const size_t before = received_.size();
    const absl::Time deadline = absl::Now() + patience;
    while (received_.size() == before && absl::Now() < deadline) {
      Wait(POLLIN, absl::Milliseconds(100));
      if (!Drain()) break;
    }
    return received_.size() > before;
  }

  // The beginning of what the server has sent.
  const std::string& received() const { return received_; }

 private:
  void Wait(int16_t events, absl::Duration time) const {
    pollfd waits = {socket_, events, 0};
    poll(&waits, 1, static_cast<int>(absl::ToInt64Milliseconds(time)));
  }
  // Returns false once the connection has ended.
  bool Drain() {
    char bytes[4096];
    while (true) {
      const ssize_t size = recv(socket_, bytes, sizeof bytes, MSG_DONTWAIT);
      if (size <= 0) return size < 0 && (errno == EAGAIN || errno == EINTR);
      if (received_.size() < (1 << 16)) received_.append(bytes, static_cast<size_t>(size));
    }
  }

  const int socket_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  bool connected_ = false;
  std::string received_;
};

}  // namespace pto::daemon::rpc::testing
