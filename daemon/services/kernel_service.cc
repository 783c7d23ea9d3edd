#include "daemon/services/kernel_service.h"

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "daemon/names/names.h"
#include "daemon/services/handler.h"
#include "daemon/wire/convert.h"
#include "daemon/wire/request.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::daemon {
namespace {

using Async = v1::KernelService::AsyncService;

constexpr PageScope kScope = {"ListKernels", ""};

// Refuses an upload at its start.
class RefusedUpload final : public rpc::ClientStreamReactor<v1::RegisterKernelRequest, v1::Kernel> {
 public:
  explicit RefusedUpload(Gate gate) : gate_(gate) {}

  void OnStart() override {
    const absl::StatusOr<auth::Caller> caller = gate_.Admit(*this);
    if (!caller.ok()) return FinishWithError(caller.status());
    const absl::Status refused =
        Error(reason::kNotAvailable, "RegisterKernel is not in this release")
            .With("method", "RegisterKernel");
    gate_.Note(*this, *caller, nullptr, refused);
    FinishWithError(refused);
  }
  void OnDone() override { delete this; }

 private:
  const Gate gate_;
};

}  // namespace

void KernelService::Register(rpc::Server& server) {
  server.AddService(&service_);
  server.Unary(
      &Async::RequestListKernels, &service_,
      Handler({node_, "pto.v1.KernelService/ListKernels"}, this, &KernelService::ListKernels));
  server.Unary(&Async::RequestGetKernel, &service_,
               Handler({node_, "pto.v1.KernelService/GetKernel"}, this, &KernelService::GetKernel));
  server.ClientStream(&Async::RequestRegisterKernel, &service_,
                      [gate = Gate(node_, "pto.v1.KernelService/RegisterKernel")](
                          const grpc::ServerContext&) { return new RefusedUpload(gate); });
  server.Unary(&Async::RequestDeleteKernel, &service_,
               NotAvailable<v1::DeleteKernelRequest, v1::Kernel>(
                   {node_, "pto.v1.KernelService/DeleteKernel"}, "DeleteKernel"));
}

absl::Status KernelService::ListKernels(const auth::Principal&,
                                        const v1::ListKernelsRequest& request,
                                        v1::ListKernelsResponse* response) {
  PTO_ASSIGN_OR_RETURN(const size_t page, PageSize(request.page_size()));
  PTO_ASSIGN_OR_RETURN(const std::string after, ParsePageToken(kScope, request.page_token()));
  for (const std::shared_ptr<const Kernel>& kernel : node_.kernels().List()) {
    if (kernel->name() <= after) continue;
    if (response->kernels_size() == static_cast<int>(page)) {
      const std::string& last = response->kernels(response->kernels_size() - 1).name();
      response->set_next_page_token(MakePageToken(kScope, last.substr(last.find('/') + 1)));
      break;
    }
    ToProto(*kernel, response->add_kernels());
  }
  return absl::OkStatus();
}

absl::Status KernelService::GetKernel(const auth::Principal&, const v1::GetKernelRequest& request,
                                      v1::Kernel* response) {
  PTO_ASSIGN_OR_RETURN(const std::string id, names::ParseKernel(request.name(), "name"));
  const std::shared_ptr<const Kernel> kernel = node_.kernels().Find(id);
  if (kernel == nullptr) {
    return Error(reason::kKernelUnknown, absl::StrCat("there is no kernel '", id, "'"))
        .At("name")
        .With("kernel", id);
  }
  ToProto(*kernel, response);
  return absl::OkStatus();
}

}  // namespace pto::daemon
