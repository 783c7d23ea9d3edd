#pragma once

#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "daemon/rpc/server.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "runtime/base/mutex.h"

namespace pto {

// grpc.health.v1.Health. gRPC has an implementation of its own, but that one is polled by
// threads of gRPC's, and so would slow down every other call; see rpc::Server.
//
// Thread-safe. Outlives the server that it is registered with.
class HealthService {
 public:
  HealthService();
  ~HealthService();
  HealthService(const HealthService&) = delete;
  HealthService& operator=(const HealthService&) = delete;

  // Before the server starts.
  void Register(rpc::Server& server);

  // Sets the status of a service, and tells those who watch it. The empty name is the server as
  // a whole. A name that was never set is unknown: NOT_FOUND to Check, SERVICE_UNKNOWN to Watch.
  void SetServing(absl::string_view name, bool serving);

  // Sets all that is known to not serving, for good, and ends every Watch, so that an open one
  // does not hold up the server's shutdown.
  void Stop();

 private:
  using Request = grpc::health::v1::HealthCheckRequest;
  using Response = grpc::health::v1::HealthCheckResponse;
  using Status = Response::ServingStatus;
  class Watcher;

  void Check(rpc::UnaryCallPtr<Request, Response> call);
  // SERVICE_UNKNOWN when the name was never set.
  Status StatusOf(const std::string& name) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AdvanceWatchers() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  grpc::health::v1::Health::AsyncService service_;
  mutable Mutex mutex_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  absl::flat_hash_map<std::string, Status> statuses_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_set<Watcher*> watchers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace pto
