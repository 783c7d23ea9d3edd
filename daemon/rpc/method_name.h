#pragma once

#include <string>

#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"

namespace pto::daemon::rpc::internal {

// The name of the method with this number and these messages, such as `pto.v1.NodeService/GetNode`.
// gRPC knows the name but has no function for it.
template <typename Request, typename Response>
std::string MethodName(int index) {
  using google::protobuf::FileDescriptor;
  // The service is defined in the file of its requests or of its responses.
  for (const FileDescriptor* const file :
       {Request::descriptor()->file(), Response::descriptor()->file()}) {
    for (int i = 0; i < file->service_count(); ++i) {
      const google::protobuf::ServiceDescriptor* const service = file->service(i);
      if (index >= service->method_count()) continue;
      const google::protobuf::MethodDescriptor* const method = service->method(index);
      if (method->input_type() != Request::descriptor()) continue;
      if (method->output_type() != Response::descriptor()) continue;
      return absl::StrCat(service->full_name(), "/", method->name());
    }
  }
  return "unknown";
}

}  // namespace pto::daemon::rpc::internal
