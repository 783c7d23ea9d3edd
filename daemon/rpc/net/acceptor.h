#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "daemon/rpc/net/connections.h"
#include "daemon/rpc/net/listener.h"

namespace pto::daemon::rpc {

// One thread that accepts connections and hands their descriptors on. Sleeps while nobody connects.
//
// When the process has no more descriptors, a connection that waits is answered with an error: for
// that one descriptor is kept. If not even that is possible, it is tried again after a pause.
class Acceptor {
 public:
  // Takes over the descriptor, which is in the ConnectionTable. Runs on the accept thread.
  using Handler = std::function<void(int file)>;

  struct Options {
    // How long a connection may take to begin.
    absl::Duration handshake_timeout = absl::Seconds(20);
  };

  Acceptor(std::vector<Listener> listeners, std::shared_ptr<Connections> connections,
           Handler handler, const Options& options);
  // Stops.
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  // Error: LISTEN_FAILED.
  absl::Status Start();
  // Closes the listening sockets. Connections stay.
  void Stop();

 private:
  void Run();
  // Returns false if the process has no descriptors, so that a pause is needed.
  bool AcceptAll(int listener);
  bool RefuseOne(int listener);
  void Serve(int file);
  void Listen(bool on);
  // In ms, as epoll_wait takes it.
  int Timeout(bool paused);

  std::vector<Listener> listeners_;
  const std::shared_ptr<Connections> connections_;
  const Handler handler_;
  const Options options_;
  int poll_ = -1;
  int wake_ = -1;
  int spare_ = -1;  // kept for RefuseOne
  std::thread thread_;
};

}  // namespace pto::daemon::rpc
