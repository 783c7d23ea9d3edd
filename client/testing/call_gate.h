#pragma once

#include <map>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "grpcpp/server_context.h"
#include "runtime/base/mutex.h"

namespace pto::testing {

// Where each call of a fake server passes: it is counted there, and can be made to hang or to
// fail. Calls are named by their method. Thread-safe.
class CallGate {
 public:
  // For the server: what the call should answer with; OK lets it go on.
  grpc::Status Enter(const grpc::ServerContextBase& context, const std::string& rpc);

  // From now on the calls hang until Release.
  void Hang(const std::string& rpc);
  // Lets hanging calls go on, and later ones too.
  void Release();
  // The next call fails.
  void FailNext(const std::string& rpc, grpc::Status status);

  int calls(const std::string& rpc) const;
  // Returns false when there were fewer than `count` calls after a long time.
  bool WaitForCalls(const std::string& rpc, int count);
  // Addresses of the clients' ends of the connections that brought the calls.
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
