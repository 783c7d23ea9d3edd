#include "daemon/health/health_service.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "daemon/rpc/stream.h"
#include "daemon/rpc/unary.h"
#include "runtime/base/error.h"
#include "runtime/base/failpoint.h"
#include "runtime/base/log.h"

namespace pto::daemon {

// One Watch call. Its state is guarded by the service's mutex.
class HealthService::Watcher final : public rpc::ServerStreamReactor<Response> {
 public:
  Watcher(HealthService& health, std::string name) : health_(health), name_(std::move(name)) {}

  void OnStart() override {
    MutexLock lock(health_.mutex_);
    health_.watchers_.insert(this);
    Advance();
  }
  void OnWriteDone(bool ok) override {
    MutexLock lock(health_.mutex_);
    writing_ = false;
    broken_ = broken_ || !ok;
    Advance();
  }
  void OnCancel() override {
    MutexLock lock(health_.mutex_);
    broken_ = true;
    Advance();
  }
  void OnDone() override { delete this; }

  // Writes the newest status or finishes the call. Of several changes during one write, only the
  // last is sent.
  void Advance() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    if (writing_ || finished_) return;
    const Status status = health_.StatusOf(name_);
    if (!broken_ && (!sent_any_ || status != sent_)) {
      sent_any_ = true;
      sent_ = status;
      writing_ = true;
      Response response;
      response.set_status(status);
      StartWrite(&response);
    } else if (broken_) {
      End(Error(reason::kClientGone, "the watcher has gone"));
    } else if (health_.stopped_) {
      End(Error(reason::kNodeDraining, "the daemon is stopping"));
    }
  }

 private:
  void End(const absl::Status& status) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    finished_ = true;
    health_.watchers_.erase(this);
    Finish(status);
  }

  HealthService& health_;
  const std::string name_;
  bool sent_any_ = false;
  Status sent_ = Response::UNKNOWN;
  bool writing_ = false;
  bool broken_ = false;
  bool finished_ = false;
};

HealthService::HealthService() = default;

HealthService::~HealthService() {
  MutexLock lock(mutex_);
  PTO_CHECK(watchers_.empty(), "the server must be shut down first");
}

void HealthService::Register(rpc::Server& server) {
  server.AddService(&service_);
  server.Unary(&decltype(service_)::RequestCheck, &service_,
               [this](rpc::UnaryCallPtr<Request, Response> call) { Check(std::move(call)); });
  server.ServerStream(&decltype(service_)::RequestWatch, &service_,
                      [this](const Request& request, const grpc::ServerContext&) {
                        return new Watcher(*this, request.service());
                      });
}

void HealthService::SetServing(absl::string_view name, bool serving) {
  MutexLock lock(mutex_);
  if (stopped_) return;
  statuses_[std::string(name)] = serving ? Response::SERVING : Response::NOT_SERVING;
  AdvanceWatchers();
}

void HealthService::Stop() {
  MutexLock lock(mutex_);
  stopped_ = true;
  for (auto& [name, status] : statuses_) status = Response::NOT_SERVING;
  AdvanceWatchers();
}

void HealthService::Check(rpc::UnaryCallPtr<Request, Response> call) {
  // For tests of those who watch the daemon: it lives and does not answer.
  (void)PTO_FAILPOINT("health.check");
  const std::string& name = call->request().service();
  Status status;
  {
    MutexLock lock(mutex_);
    status = StatusOf(name);
  }
  if (status == Response::SERVICE_UNKNOWN) {
    call->Finish(Error(reason::kServiceUnknown, absl::StrCat("there is no service '", name, "'"))
                     .At("service")
                     .With("service", name));
    return;
  }
  call->response()->set_status(status);
  call->Finish(absl::OkStatus());
}

HealthService::Status HealthService::StatusOf(const std::string& name) const {
  const auto found = statuses_.find(name);
  return found == statuses_.end() ? Response::SERVICE_UNKNOWN : found->second;
}

void HealthService::AdvanceWatchers() {
  // A copy, because watchers that end remove themselves.
  const absl::flat_hash_set<Watcher*> watchers = watchers_;
  for (Watcher* watcher : watchers) watcher->Advance();
}

}  // namespace pto::daemon
