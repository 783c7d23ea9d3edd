#include "daemon/rpc/reflection_service.h"

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/descriptor.pb.h"
#include "runtime/base/error.h"

namespace pto::daemon::rpc {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;
using Request = ReflectionService::Request;
using Response = ReflectionService::Response;

class Stream final : public BidiStreamReactor<Request, Response> {
 public:
  explicit Stream(const ReflectionService& service) : service_(service) {}

  void OnStart() override { StartRead(&request_); }
  void OnReadDone(bool ok) override {
    if (!ok) {
      Finish(absl::OkStatus());
      return;
    }
    response_ = service_.Answer(request_);
    StartWrite(&response_);
  }
  void OnWriteDone(bool ok) override {
    if (!ok) {
      Finish(Error(reason::kClientGone, "the client has gone"));
      return;
    }
    StartRead(&request_);
  }
  void OnDone() override { delete this; }

 private:
  const ReflectionService& service_;
  Request request_;
  Response response_;
};

// The file after the files that it imports.
void AddFile(const FileDescriptor& file, std::set<std::string>& added, Response& response) {
  if (!added.insert(file.name()).second) return;
  for (int i = 0; i < file.dependency_count(); ++i) AddFile(*file.dependency(i), added, response);
  google::protobuf::FileDescriptorProto proto;
  file.CopyTo(&proto);
  response.mutable_file_descriptor_response()->add_file_descriptor_proto(proto.SerializeAsString());
}

void SetFile(const FileDescriptor* file, absl::string_view what, Response& response) {
  if (file == nullptr) {
    response.mutable_error_response()->set_error_code(
        static_cast<int>(absl::StatusCode::kNotFound));
    response.mutable_error_response()->set_error_message(absl::StrCat("there is no ", what));
    return;
  }
  std::set<std::string> added;
  AddFile(*file, added, response);
}

}  // namespace

void ReflectionService::Register(Server& server) {
  server.AddService(&service_);
  server.BidiStream(
      &grpc::reflection::v1alpha::ServerReflection::AsyncService::RequestServerReflectionInfo,
      &service_, [this](const grpc::ServerContext&) { return new Stream(*this); });
  services_ = server.service_names();
}

Response ReflectionService::Answer(const Request& request) const {
  const DescriptorPool& pool = *DescriptorPool::generated_pool();
  Response response;
  response.set_valid_host(request.host());
  *response.mutable_original_request() = request;
  switch (request.message_request_case()) {
    case Request::kFileByFilename: {
      const std::string& name = request.file_by_filename();
      SetFile(pool.FindFileByName(name), absl::StrCat("file '", name, "'"), response);
      break;
    }
    case Request::kFileContainingSymbol: {
      const std::string& name = request.file_containing_symbol();
      SetFile(pool.FindFileContainingSymbol(name), absl::StrCat("symbol '", name, "'"), response);
      break;
    }
    case Request::kFileContainingExtension: {
      const auto& wanted = request.file_containing_extension();
      const Descriptor* const type = pool.FindMessageTypeByName(wanted.containing_type());
      const FieldDescriptor* const field =
          type == nullptr ? nullptr : pool.FindExtensionByNumber(type, wanted.extension_number());
      SetFile(field == nullptr ? nullptr : field->file(),
              absl::StrCat("extension ", wanted.extension_number(), " of '",
                           wanted.containing_type(), "'"),
              response);
      break;
    }
    case Request::kAllExtensionNumbersOfType: {
      const std::string& name = request.all_extension_numbers_of_type();
      const Descriptor* const type = pool.FindMessageTypeByName(name);
      if (type == nullptr) {
        SetFile(nullptr, absl::StrCat("message '", name, "'"), response);
        break;
      }
      auto& numbers = *response.mutable_all_extension_numbers_response();
      numbers.set_base_type_name(name);
      std::vector<const FieldDescriptor*> extensions;
      pool.FindAllExtensions(type, &extensions);
      for (const FieldDescriptor* const field : extensions) {
        numbers.add_extension_number(field->number());
      }
      break;
    }
    case Request::kListServices:
      for (const std::string& name : services_) {
        response.mutable_list_services_response()->add_service()->set_name(name);
      }
      break;
    case Request::MESSAGE_REQUEST_NOT_SET:
      response.mutable_error_response()->set_error_code(
          static_cast<int>(absl::StatusCode::kInvalidArgument));
      response.mutable_error_response()->set_error_message(
          "the request does not say what it wants");
      break;
  }
  return response;
}

}  // namespace pto::daemon::rpc
