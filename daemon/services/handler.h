#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "daemon/rpc/unary.h"
#include "runtime/base/error.h"

namespace pto::daemon {

// A handler for a method that answers at once.
template <typename Service, typename Request, typename Response>
rpc::UnaryHandler<Request, Response> Handler(Service* service,
                                             absl::Status (Service::*method)(const Request&,
                                                                             Response*)) {
  return [service, method](rpc::UnaryCallPtr<Request, Response> call) {
    call->Finish((service->*method)(call->request(), call->response()));
  };
}

// A handler for a method that this release does not serve.
template <typename Request, typename Response>
rpc::UnaryHandler<Request, Response> NotAvailable(const char* method) {
  return [method](rpc::UnaryCallPtr<Request, Response> call) {
    call->Finish(Error(reason::kNotAvailable, absl::StrCat(method, " is not in this release"))
                     .With("method", method));
  };
}

}  // namespace pto::daemon
