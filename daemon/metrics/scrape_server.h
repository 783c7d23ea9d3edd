#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "daemon/shell/listen_address.h"

namespace pto::daemon::metrics {

// Answers `GET /metrics` over HTTP/1.1 on a unix socket or a TCP address, which is all that
// Prometheus needs. Serves one connection at a time, with one request each. Clients that take
// longer than two seconds are disconnected. Runs its own thread until it is destroyed.
class ScrapeServer {
 public:
  // `make_text` is called on the server's thread. Replaces a socket file on which no process
  // listens. Error: LISTEN_FAILED.
  static absl::StatusOr<std::unique_ptr<ScrapeServer>> Start(
      const ListenAddress& address, std::function<std::string()> make_text);
  ~ScrapeServer();
  ScrapeServer(const ScrapeServer&) = delete;
  ScrapeServer& operator=(const ScrapeServer&) = delete;

  // As bound: port 0 is replaced by the real one.
  const std::string& address() const { return address_; }

 private:
  explicit ScrapeServer(std::function<std::string()> make_text)
      : make_text_(std::move(make_text)) {}

  absl::Status Listen(const ListenAddress& address);
  void Serve();
  void Answer(int connection);
  // Waits until the connection is ready. Returns false at the deadline or if the server stops.
  bool Await(int connection, short events, int64_t deadline_ns) const;
  void WriteAll(int connection, absl::string_view text, int64_t deadline_ns) const;

  const std::function<std::string()> make_text_;
  std::string address_;
  std::string path_;  // of a unix socket, removed at the end
  int listener_ = -1;
  int stop_ = -1;
  std::thread thread_;
};

}  // namespace pto::daemon::metrics
