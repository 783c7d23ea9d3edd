#pragma once

#include <map>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "grpcpp/server_context.h"
#include "runtime/base/mutex.h"

namespace pto::testing {

// The gate that each call of a fake server passes: it counts calls, and can make them hang or fail.
// Calls are named by their method. Thread-safe.
class CallGate {
 public:
  // For the server: the status to answer with; OK lets the call continue.
  grpc::Status Enter(const grpc::ServerContextBase& context, const std::string& rpc);

  // From now on the calls hang until Release.
  void Hang(const std::string& rpc);
  // Lets hanging and later calls continue.
  void Release();
  // The next call fails.
  void FailNext(const std::string& rpc, grpc::Status status);

  int calls(const std::string& rpc) const;
  // Returns false if there are fewer than `count` calls after a long time.
  bool WaitForCalls(const std::string& rpc, int count);
  // The client addresses of the connections that carried the calls.
  std::set<std::string> peers(const std::string& rpc) const;

 private:
  mutable Mutex mutex_;
  CondVar changed_;
  bool released_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<std::string> hanging_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, grpc::Status> failing_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, int> calls_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::set<std::string>> peers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace pto::testing
