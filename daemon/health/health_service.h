#pragma once

#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "daemon/rpc/server.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "runtime/base/mutex.h"

namespace pto::daemon {

// grpc.health.v1.Health. gRPC's own implementation is polled by gRPC's threads and would slow down
// all other calls; see rpc::Server.
//
// Thread-safe. Must outlive the server that it is registered with.
class HealthService {
 public:
  HealthService();
  ~HealthService();
  HealthService(const HealthService&) = delete;
  HealthService& operator=(const HealthService&) = delete;

  // Call before the server starts.
  void Register(rpc::Server& server);

  // Sets the status of a service and notifies its watchers. The empty name is the whole server. A
  // name that was never set is unknown: NOT_FOUND for Check, SERVICE_UNKNOWN for Watch.
  void SetServing(absl::string_view name, bool serving);

  // Sets all known services to not serving, permanently, and ends every Watch, so that open ones do
  // not delay the server's shutdown.
  void Stop();

 private:
  using Request = grpc::health::v1::HealthCheckRequest;
  using Response = grpc::health::v1::HealthCheckResponse;
  using Status = Response::ServingStatus;
  class Watcher;

  void Check(rpc::UnaryCallPtr<Request, Response> call);
  // SERVICE_UNKNOWN if the name was never set.
  Status StatusOf(const std::string& name) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AdvanceWatchers() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  grpc::health::v1::Health::AsyncService service_;
  mutable Mutex mutex_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  absl::flat_hash_map<std::string, Status> statuses_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_set<Watcher*> watchers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace pto::daemon
