#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "daemon/rpc/unary.h"
#include "daemon/services/gate.h"
#include "runtime/base/error.h"

namespace pto::daemon {

// A handler for a method that answers at once.
template <typename Service, typename Request, typename Response>
rpc::UnaryHandler<Request, Response> Handler(Gate gate, Service* service,
                                             absl::Status (Service::*method)(const auth::Principal&,
                                                                             const Request&,
                                                                             Response*)) {
  return [gate, service, method](rpc::UnaryCallPtr<Request, Response> call) {
    const absl::StatusOr<auth::Caller> caller = gate.Admit(*call, &call->request());
    if (!caller.ok()) return call->Finish(caller.status());
    absl::Status status = (service->*method)(**caller, call->request(), call->response());
    if (status.ok()) status = gate.Charge(*caller, *call);
    gate.Note(*call, *caller, &call->request(), status);
    call->Finish(status);
  };
}

// A handler for a method that answers when it likes, and notes itself what it has decided.
template <typename Service, typename Request, typename Response>
rpc::UnaryHandler<Request, Response> AsyncHandler(
    Gate gate, Service* service,
    void (Service::*method)(const Gate&, const auth::Caller&,
                            rpc::UnaryCallPtr<Request, Response>)) {
  return [gate, service, method](rpc::UnaryCallPtr<Request, Response> call) {
    const absl::StatusOr<auth::Caller> caller = gate.Admit(*call, &call->request());
    if (!caller.ok()) return call->Finish(caller.status());
    (service->*method)(gate, *caller, std::move(call));
  };
}

// A handler for a method that this release does not serve.
template <typename Request, typename Response>
rpc::UnaryHandler<Request, Response> NotAvailable(Gate gate, const char* method) {
  return [gate, method](rpc::UnaryCallPtr<Request, Response> call) {
    const absl::StatusOr<auth::Caller> caller = gate.Admit(*call, &call->request());
    if (!caller.ok()) return call->Finish(caller.status());
    const absl::Status status =
        Error(reason::kNotAvailable, absl::StrCat(method, " is not in this release"))
            .With("method", method);
    gate.Note(*call, *caller, &call->request(), status);
    call->Finish(status);
  };
}

}  // namespace pto::daemon
