#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "daemon/shell/listen_address.h"

namespace pto::daemon::metrics {

// Answers `GET /metrics` over HTTP/1.1 on a unix socket or a TCP address, which is all that
// Prometheus needs, with one request for each connection. Runs one thread until it is destroyed.
//
// No client waits for a slow one: the thread serves all connections at once. Clients that take
// longer than two seconds are disconnected. If there are more than kMaxConnections, the oldest is.
// Clients that read slowly share a text, so that they cannot make the server hold many.
class ScrapeServer {
 public:
  static constexpr size_t kMaxConnections = 64;

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

  // A response, and when it was made.
  struct Page {
    std::string text;
    int64_t made_ns = 0;
  };
  struct Connection {
    int fd = -1;
    int64_t deadline_ns = 0;
    std::string request;
    // What is sent; nullptr while the request is read.
    std::shared_ptr<const Page> page;
    size_t sent = 0;
  };
  using Connections = std::list<Connection>;

  absl::Status Listen(const ListenAddress& address);
  void Serve();
  // Takes a new connection. Returns false if the process has no descriptor for it.
  bool Accept();
  // Reads or writes as much as is possible without waiting. Returns false when the connection has
  // ended.
  bool Advance(Connection& connection);
  bool Read(Connection& connection);
  std::shared_ptr<const Page> Answer(const std::string& request);
  std::shared_ptr<const Page> MetricsPage();
  static std::shared_ptr<const Page> MakePage(absl::string_view status, absl::string_view type,
                                              absl::string_view body);
  Connections::iterator Close(Connections::iterator connection);

  const std::function<std::string()> make_text_;
  std::string address_;
  std::string path_;  // of a unix socket, removed at the end
  int listener_ = -1;
  int stop_ = -1;
  Connections connections_;  // in the order of their deadlines
  std::weak_ptr<const Page> metrics_;
  std::thread thread_;
};

}  // namespace pto::daemon::metrics
