#include "tests/integration/bad_request_world.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "client/ptoctl/error_pages.h"
#include "google/protobuf/message.h"
#include "google/protobuf/text_format.h"
#include "runtime/base/status_matchers.h"
#include "tests/integration/bad_request.h"
#include "tests/integration/world.h"

namespace pto::testing {

using google::protobuf::DescriptorPool;
using google::protobuf::Message;
using google::protobuf::MessageFactory;
using google::protobuf::MethodDescriptor;
using google::protobuf::ServiceDescriptor;

namespace {

// The only detail of this type; fails the test if there are several.
template <typename Detail>
std::unique_ptr<Detail> TheDetail(const v1::Status& status) {
  std::unique_ptr<Detail> found;
  for (const google::protobuf::Any& any : status.details()) {
    if (!any.Is<Detail>()) continue;
    EXPECT_EQ(found, nullptr) << "two details of one type";
    found = std::make_unique<Detail>();
    EXPECT_TRUE(any.UnpackTo(found.get()));
  }
  return found;
}

}  // namespace

std::vector<const MethodDescriptor*> AllMethods() {
  std::vector<const MethodDescriptor*> methods;
  for (const char* name : {"Node", "Session", "Buffer", "Kernel", "Domain", "Run", "Event"}) {
    const ServiceDescriptor* service = DescriptorPool::generated_pool()->FindServiceByName(
        absl::StrCat("pto.v1.", name, "Service"));
    for (int i = 0; i < service->method_count(); ++i) methods.push_back(service->method(i));
  }
  return methods;
}

std::string PathOf(const MethodDescriptor* method) {
  return absl::StrCat("/", method->service()->full_name(), "/", method->name());
}

const MethodDescriptor* FindMethod(const std::string& path) {
  return DescriptorPool::generated_pool()->FindMethodByName(
      absl::StrReplaceAll(path.substr(1), {{"/", "."}}));
}

std::string Serialize(const MethodDescriptor* method, const std::string& text) {
  const std::unique_ptr<Message> message(
      MessageFactory::generated_factory()->GetPrototype(method->input_type())->New());
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, message.get())) << text;
  return message->SerializeAsString();
}

void ExpectError(const v1::Status& status, const Reason& reason, const std::string& field) {
  EXPECT_EQ(status.code(), static_cast<int>(reason.code));
  EXPECT_FALSE(status.message().empty());
  EXPECT_LE(status.message().size(), 1024u);
  const auto info = TheDetail<v1::ErrorInfo>(status);
  ASSERT_NE(info, nullptr) << status.ShortDebugString();
  EXPECT_EQ(info->reason(), reason.name) << status.message();
  EXPECT_EQ(info->domain(), "ptod");
  EXPECT_NE(info->scope(), v1::ERROR_SCOPE_UNSPECIFIED);
  EXPECT_FALSE(info->mechanism().empty());
  EXPECT_EQ(info->help(), HelpAnchor(reason));
  EXPECT_NE(ptoctl::FindErrorSection(info->reason()), nullptr) << info->reason();
  EXPECT_LE(status.ByteSizeLong(), 4096u);
  const auto violation = TheDetail<v1::FieldViolation>(status);
  EXPECT_EQ(violation == nullptr ? "" : violation->field(), field) << status.message();
  const auto quota = TheDetail<v1::QuotaViolation>(status);
  if (quota != nullptr) {
    EXPECT_GT(quota->usage() + quota->requested(), quota->limit());
  }
}

void ExpectRefused(const grpc::Status& status, const Reason& reason, const std::string& field) {
  EXPECT_EQ(static_cast<int>(status.error_code()), static_cast<int>(reason.code))
      << status.error_message();
  EXPECT_FALSE(status.error_details().empty()) << status.error_message();
  v1::Status details;
  ASSERT_TRUE(details.ParseFromString(status.error_details()));
  EXPECT_EQ(details.message(), status.error_message());
  ExpectError(details, reason, field);
}

BadRequestTest::BadRequestTest() : daemon_(BadRequestFlags()) { Furnish(); }

void BadRequestTest::Furnish() {
  for (const char* id : {"gone", "main", "other"}) {
    v1::CreateSessionRequest request;
    request.set_session_id(id);
    request.mutable_ttl()->set_seconds(3600);
    ASSERT_THAT(Call(*api().session, &v1::SessionService::Stub::CreateSession, request), IsOk());
    if (absl::string_view(id) == "gone") DeleteSession(api(), "sessions/gone");
  }
  for (const char* id : {"a", "b", "deleted"}) MakeBuffer(api(), "sessions/main", id, 4096);
  MakeBuffer(api(), "sessions/main", "far", 4096, 1);
  MakeBuffer(api(), "sessions/other", "x", 4096);
  ASSERT_THAT(Call(*api().buffer, &v1::BufferService::Stub::DeleteBuffers,
                   Proto<v1::DeleteBuffersRequest>("names: 'sessions/main/buffers/deleted'")),
              IsOk());
  for (int i = 0; i < 5; ++i) {
    MakeBuffer(api(), "sessions/main", absl::StrCat("more-", i), 4096);
  }
  for (const char* id : {"d", "dead"}) {
    ASSERT_THAT(Call(*api().domain, &v1::DomainService::Stub::CreateDomain,
                     Proto<v1::CreateDomainRequest>(absl::StrCat(
                         "parent: 'sessions/main' domain_id: '", id, "' ", GoodDomain()))),
                IsOk());
  }
  ASSERT_THAT(Call(*api().domain, &v1::DomainService::Stub::RevokeDomain,
                   Proto<v1::RevokeDomainRequest>("name: 'sessions/main/domains/dead'")),
              IsOk());
  for (const char* id : {"old", "kept-1", "kept-2"}) {
    const v1::Run run = Submit(api(), "sessions/main", Noops(1), id);
    ASSERT_EQ(WaitForRun(api(), run.name()).state(), v1::Run::SUCCEEDED);
  }
  ASSERT_THAT(Call(*api().run, &v1::RunService::Stub::RegisterGraph,
                   Proto<v1::RegisterGraphRequest>(absl::StrCat(
                       "parent: 'sessions/main' graph_id: 'g' graph { ", LaunchableGraph(), " }"))),
              IsOk());
}

void BadRequestTest::ExpectHealthy() {
  EXPECT_TRUE(daemon_.IsServing());
  const v1::Node node = GetNode(api());
  EXPECT_EQ(node.pid(), daemon_.pid());
  EXPECT_FALSE(node.draining());
  EXPECT_EQ(node.active_run_count(), 0u);
  EXPECT_EQ(node.session_count(), 2u);
  v1::SubmitRunRequest request = SubmitRequest("sessions/main", Noops(3));
  request.mutable_wait()->set_seconds(30);
  const auto run = Call(*api().run, &v1::RunService::Stub::SubmitRun, request);
  ASSERT_THAT(run, IsOk());
  EXPECT_EQ(run->state(), v1::Run::SUCCEEDED);
}

}  // namespace pto::testing
