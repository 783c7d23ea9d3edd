// A thousand and more requests that are wrong, each in its own way: every one is refused with
// the right reason, which has a page that is true, and the daemon is as it was before.

#include "tests/integration/bad_request.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/ptoctl/error_pages.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "pto/v1/error.pb.h"
#include "runtime/base/status_matchers.h"
#include "tests/harness/daemon_process.h"
#include "tests/harness/raw_call.h"
#include "tests/harness/sanitizer.h"
#include "tests/integration/world.h"

namespace pto::testing {
namespace {

using google::protobuf::DescriptorPool;
using google::protobuf::Message;
using google::protobuf::MessageFactory;
using google::protobuf::MethodDescriptor;
using google::protobuf::ServiceDescriptor;

constexpr uint64_t kFlatBytes = 10 << 20;

// Bytes that are no message of any kind, and some that are none where text comes first.
constexpr char kBrokenVarint[] = "\xff\xff\xff\xff\xff";
constexpr char kBrokenLength[] = "\x0a\x7fxy";
constexpr char kNotUtf8[] = "\x0a\x02\xc3\x28";

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

// The one detail of a type; fails the test when there are several.
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

void ExpectMalformed(const grpc::Status& status) {
  ExpectRefused(status, reason::kMessageInvalid, "");
}

// Whether `said` is `example`, in which `…` stands for anything.
bool Matches(absl::string_view said, absl::string_view example) {
  const std::vector<absl::string_view> parts = absl::StrSplit(example, "…");
  if (!absl::ConsumePrefix(&said, parts.front())) return false;
  if (parts.size() == 1) return said.empty();
  for (size_t i = 1; i + 1 < parts.size(); ++i) {
    const size_t at = said.find(parts[i]);
    if (at == absl::string_view::npos) return false;
    said.remove_prefix(at + parts[i].size());
  }
  return absl::EndsWith(said, parts.back());
}

std::vector<BadRequest> AllBadRequests() {
  std::vector<BadRequest> all;
  for (const auto& rows :
       {BadNodeRequests(), BadSessionRequests(), BadBufferRequests(), BadKernelRequests(),
        BadDomainRequests(), BadEventRequests(), BadRunRequests(), BadLaunchRequests(), BadGraphs(),
        BadPackedGraphs(), BadDetails(), BadOpenRuns()}) {
    all.insert(all.end(), rows.begin(), rows.end());
  }
  return all;
}

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

class BadRequestTest : public ::testing::Test {
 protected:
  BadRequestTest() : daemon_(BadRequestFlags()) { Furnish(); }

  Api& api() { return daemon_.api(); }

  // Makes what bad_request.h describes.
  void Furnish() {
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
    ASSERT_THAT(
        Call(*api().run, &v1::RunService::Stub::RegisterGraph,
             Proto<v1::RegisterGraphRequest>(absl::StrCat(
                 "parent: 'sessions/main' graph_id: 'g' graph { ", LaunchableGraph(), " }"))),
        IsOk());
  }

  void SendAll(const std::vector<BadRequest>& rows) {
    for (const BadRequest& row : rows) {
      SCOPED_TRACE(absl::StrCat(row.method, ": ", row.what));
      const MethodDescriptor* method = FindMethod(row.method);
      ASSERT_NE(method, nullptr);
      std::vector<std::string> messages;
      for (const std::string& text : row.messages) messages.push_back(Serialize(method, text));
      const grpc::Status status = RawCall(api().channel, row.method, messages);
      ExpectRefused(status, row.reason, row.field);
      said_[row.reason.name].insert(status.error_message());
    }
  }

  // The pages of deploy/docs/errors show what the daemon really says.
  void ExpectExamplesAreReal() {
    for (const auto& [reason, messages] : said_) {
      const ptoctl::ErrorSection* const section = ptoctl::FindErrorSection(reason);
      ASSERT_NE(section, nullptr) << reason;
      const absl::string_view example = ptoctl::ExampleOf(*section);
      EXPECT_TRUE(std::any_of(messages.begin(), messages.end(),
                              [&](const std::string& said) { return Matches(said, example); }))
          << reason << ": the page says\n  " << example << "\nbut the daemon\n  "
          << absl::StrJoin(messages, "\n  ");
    }
  }

  void ExpectHealthy() {
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

  // Does something often, and looks whether that costs memory or files.
  template <typename Action>
  void ExpectFlat(int rounds, const Action& action) {
    action();  // what is set up once
    const uint64_t bytes = daemon_.ResidentBytes();
    const size_t files = daemon_.OpenFiles();
    for (int i = 0; i < rounds && !HasFailure(); ++i) action();
    EXPECT_LE(daemon_.OpenFiles(), files + 2);
    // A sanitizer keeps what was freed for a while.
    if (kAddressSanitizer) return;
    EXPECT_LE(daemon_.ResidentBytes(), bytes + kFlatBytes);
  }

  DaemonProcess daemon_;
  // Messages by reason.
  std::map<absl::string_view, std::set<std::string>> said_;
};

TEST_F(BadRequestTest, EveryOneOfAThousandIsRefusedWithItsReason) {
  std::vector<BadRequest> rows = AllBadRequests();
  for (BadRequest& row : BadControlTasks()) rows.push_back(std::move(row));
  const int rounds = 1000 / static_cast<int>(rows.size()) + 1;
  ExpectFlat(rounds, [&] { SendAll(rows); });
  ExpectExamplesAreReal();
  ExpectHealthy();
}

TEST(BadRequestTableTest, TheTableNamesEveryReasonOfARequest) {
  // The rest cannot be provoked by one request to this daemon: they are about load, about the
  // end of a run, about the process, about bytes that are no request, or of the client library.
  const std::vector<Reason> others = {
      reason::kInternal,        reason::kMessageInvalid,     reason::kMessageTooLarge,
      reason::kNodeDraining,    reason::kChipBusy,           reason::kChipUnavailable,
      reason::kChipReset,       reason::kBufferInUse,        reason::kRunLimit,
      reason::kRunCancelled,    reason::kRunDeadline,        reason::kKernelFailed,
      reason::kQueueDeadline,   reason::kTaskDeadline,       reason::kWaitTimeout,
      reason::kStacksExhausted, reason::kKernelThrew,        reason::kConfigInvalid,
      reason::kInstanceRunning, reason::kPathUnusable,       reason::kListenFailed,
      reason::kServiceUnknown,  reason::kDaemonUnreachable,  reason::kClientTimeout,
      reason::kStreamEnded,     reason::kJobInvalid,         reason::kUsage,
      reason::kCheckFailed,     reason::kInterrupted,        reason::kStreamBroken,
      reason::kDomainLimit,     reason::kWorkspaceExhausted, reason::kChipLeased,
      reason::kQuotaSessions,   reason::kQuotaMemory,        reason::kQuotaWindows,
      reason::kQuotaRuns,       reason::kQuotaTasks,         reason::kQuotaEventLog,
      reason::kDaemonRestarted, reason::kJournalUnwritable,  reason::kJournalNewer,
      reason::kReasonMissing,   reason::kClientGone,
  };
  const std::vector<BadRequest> rows = AllBadRequests();
  for (const Reason* listed : AllReasons()) {
    const Reason& reason = *listed;
    const auto same = [&](const Reason& other) { return other.name == reason.name; };
    const bool in_table = std::any_of(rows.begin(), rows.end(), [&](const BadRequest& row) {
      return row.reason.name == reason.name;
    });
    EXPECT_NE(in_table, std::any_of(others.begin(), others.end(), same)) << reason.name;
  }
  for (const MethodDescriptor* method : AllMethods()) {
    const bool in_table = std::any_of(rows.begin(), rows.end(), [&](const BadRequest& row) {
      return row.method == PathOf(method);
    });
    // GetNode takes nothing; what a launch stream refuses is below.
    const bool nothing_to_refuse = method->name() == "GetNode" || method->name() == "LaunchStream";
    EXPECT_NE(in_table, nothing_to_refuse) << method->full_name();
  }
}

TEST_F(BadRequestTest, ALaunchStreamRefusesOneByOneAndGoesOn) {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + kCallTimeout));
  const auto stream = api().run->LaunchStream(&context);
  uint64_t tag = 0;
  const auto exchange = [&](const v1::LaunchStreamRequest& request) {
    EXPECT_TRUE(stream->Write(request));
    v1::LaunchCompletion completion;
    EXPECT_TRUE(stream->Read(&completion));
    EXPECT_EQ(completion.tag(), request.tag());
    return completion;
  };
  for (const BadRequest& row : BadLaunchRequests()) {
    // Without effect in a stream.
    if (!absl::EndsWith(row.method, "LaunchGraph") || row.field == "wait") continue;
    SCOPED_TRACE(row.what);
    v1::LaunchStreamRequest request;
    request.set_tag(++tag);
    *request.mutable_launch() = Proto<v1::LaunchGraphRequest>(row.messages[0]);
    const v1::LaunchCompletion completion = exchange(request);
    EXPECT_EQ(completion.run(), "");
    EXPECT_EQ(completion.state(), v1::Run::STATE_UNSPECIFIED);
    ExpectError(completion.error(), row.reason,
                row.field.empty() ? "launch" : absl::StrCat("launch.", row.field));
  }
  v1::LaunchStreamRequest request;
  request.set_tag(++tag);
  ExpectError(exchange(request).error(), reason::kFieldInvalid, "launch");
  *request.mutable_launch() = Proto<v1::LaunchGraphRequest>(
      "graph: 'sessions/main/graphs/g' buffers { slot: 'out' buffer: 'a' }");
  EXPECT_EQ(exchange(request).state(), v1::Run::SUCCEEDED);
  EXPECT_TRUE(stream->WritesDone());
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(BadRequestTest, BytesThatAreNoMessageEndTheCall) {
  ExpectFlat(10, [&] {
    for (const MethodDescriptor* method : AllMethods()) {
      // Refused before anything is read.
      if (method->name() == "RegisterKernel") continue;
      SCOPED_TRACE(method->full_name());
      ExpectMalformed(RawCall(api().channel, PathOf(method), {kBrokenVarint}));
      ExpectMalformed(RawCall(api().channel, PathOf(method), {kBrokenLength}));
      const bool text_first =
          method->input_type()->field_count() > 0 &&
          method->input_type()->field(0)->type() == google::protobuf::FieldDescriptor::TYPE_STRING;
      if (!text_first) continue;
      ExpectMalformed(RawCall(api().channel, PathOf(method), {kNotUtf8}));
    }
  });
  ExpectHealthy();
}

TEST_F(BadRequestTest, BytesThatAreNoMessageAreNotTheEndOfAStream) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> streams = {
      {"/pto.v1.BufferService/WriteBuffer", {"name: 'sessions/main/buffers/a' data: 'x'"}},
      {"/pto.v1.RunService/LaunchStream",
       {"tag: 1 launch { graph: 'sessions/main/graphs/g' "
        "buffers { slot: 'out' buffer: 'a' } }"}},
      // Complete, but for the end.
      {"/pto.v1.RunService/SubmitPackedRun",
       {"header { parent: 'sessions/main' id: 'broken' kernels: 'noop' chips: 'chips/0' }",
        "tasks { kernel: [0] }", "commit { task_count: 1 }"}},
      {"/pto.v1.RunService/RegisterPackedGraph",
       {"header { parent: 'sessions/main' id: 'broken' kernels: 'noop' chips: 'chips/0' }",
        "tasks { kernel: [0] }", "commit { task_count: 1 }"}},
  };
  ExpectFlat(10, [&] {
    for (const auto& [path, texts] : streams) {
      SCOPED_TRACE(path);
      std::vector<std::string> messages;
      for (const std::string& text : texts) messages.push_back(Serialize(FindMethod(path), text));
      messages.push_back(kBrokenLength);
      ExpectMalformed(RawCall(api().channel, path, messages));
    }
  });
  const auto found = Call(*api().run, &v1::RunService::Stub::GetRun,
                          Proto<v1::GetRunRequest>("name: 'sessions/main/runs/broken'"));
  EXPECT_THAT(found, HasReason(reason::kRunUnknown));
  const auto removed = Call(*api().run, &v1::RunService::Stub::DeleteGraph,
                            Proto<v1::DeleteGraphRequest>("name: 'sessions/main/graphs/broken'"));
  EXPECT_THAT(removed, HasReason(reason::kGraphUnknown));
  ExpectHealthy();
}

TEST_F(BadRequestTest, APageTokenIsGoodForItsOwnListOnly) {
  const std::string buffers = "/pto.v1.BufferService/ListBuffers";
  const std::string runs = "/pto.v1.RunService/ListRuns";
  const std::vector<std::pair<std::string, std::string>> lists = {
      {buffers, "parent: 'sessions/main'"},        {buffers, "parent: 'sessions/other'"},
      {runs, "parent: 'sessions/main'"},           {runs, "parent: 'sessions/-'"},
      {"/pto.v1.SessionService/ListSessions", ""}, {"/pto.v1.NodeService/ListChips", ""},
      {"/pto.v1.KernelService/ListKernels", ""},
  };
  const auto send = [&](size_t list, const std::string& token) {
    const auto& [path, text] = lists[list];
    return RawCall(api().channel, path,
                   {Serialize(FindMethod(path), absl::StrCat(text, " page_token: '", token, "'"))});
  };
  const auto buffer_page =
      Call(*api().buffer, &v1::BufferService::Stub::ListBuffers,
           Proto<v1::ListBuffersRequest>("parent: 'sessions/main' page_size: 1"));
  ASSERT_THAT(buffer_page, IsOk());
  const auto run_page = Call(*api().run, &v1::RunService::Stub::ListRuns,
                             Proto<v1::ListRunsRequest>("parent: 'sessions/main' page_size: 1"));
  ASSERT_THAT(run_page, IsOk());
  const auto chip_page = Call(*api().node, &v1::NodeService::Stub::ListChips,
                              Proto<v1::ListChipsRequest>("page_size: 1"));
  ASSERT_THAT(chip_page, IsOk());
  const std::vector<std::pair<size_t, std::string>> tokens = {
      {0, buffer_page->next_page_token()},
      {2, run_page->next_page_token()},
      {5, chip_page->next_page_token()},
  };
  for (const auto& [own, token] : tokens) {
    ASSERT_NE(token, "");
    for (size_t list = 0; list < lists.size(); ++list) {
      SCOPED_TRACE(absl::StrCat("token of ", own, " for ", list));
      const grpc::Status status = send(list, token);
      if (list == own) {
        EXPECT_TRUE(status.ok()) << status.error_message();
      } else {
        ExpectRefused(status, reason::kPageTokenInvalid, "page_token");
      }
    }
  }
}

TEST_F(BadRequestTest, AWriteEndsWhenItsBufferIsDeleted) {
  v1::WriteBufferRequest write;
  write.set_name("sessions/main/buffers/a");
  write.set_data("first");
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + kCallTimeout));
  v1::WriteBufferResponse response;
  const auto writer = api().buffer->WriteBuffer(&context, &response);
  ASSERT_TRUE(writer->Write(write));
  // Until the daemon has it.
  std::string seen;
  while (seen != "first") {
    grpc::ClientContext reading;
    reading.set_deadline(context.deadline());
    const auto reader = api().buffer->ReadBuffer(
        &reading, Proto<v1::ReadBufferRequest>("name: 'sessions/main/buffers/a' limit: 5"));
    v1::ReadBufferResponse part;
    ASSERT_TRUE(reader->Read(&part));
    seen = part.data();
    ASSERT_TRUE(reader->Finish().ok());
  }
  ASSERT_THAT(Call(*api().buffer, &v1::BufferService::Stub::DeleteBuffers,
                   Proto<v1::DeleteBuffersRequest>("names: 'sessions/main/buffers/a'")),
              IsOk());
  // What takes its place is another buffer, of the same name.
  MakeBuffer(api(), "sessions/main", "a", 4096);
  writer->Write(write);
  writer->WritesDone();
  ExpectRefused(writer->Finish(), reason::kBufferUnknown, "");
  ExpectHealthy();
}

TEST_F(BadRequestTest, AReadEndsWhenItsBufferIsDeleted) {
  // More than the connection holds, so that the daemon waits for us.
  MakeBuffer(api(), "sessions/other", "large", 60 << 20);
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + kCallTimeout));
  const auto reader = api().buffer->ReadBuffer(
      &context, Proto<v1::ReadBufferRequest>("name: 'sessions/other/buffers/large'"));
  v1::ReadBufferResponse part;
  ASSERT_TRUE(reader->Read(&part));
  ASSERT_THAT(Call(*api().buffer, &v1::BufferService::Stub::DeleteBuffers,
                   Proto<v1::DeleteBuffersRequest>("names: 'sessions/other/buffers/large'")),
              IsOk());
  while (reader->Read(&part)) {
  }
  ExpectRefused(reader->Finish(), reason::kBufferUnknown, "");
  ExpectHealthy();
}

TEST_F(BadRequestTest, AMessageThatIsTooLargeIsRefused) {
  v1::SubmitRunRequest request = SubmitRequest("sessions/main", Noops(1));
  request.mutable_graph()->mutable_tasks(0)->set_name(std::string(2 << 20, 'x'));
  const std::string bytes = request.SerializeAsString();
  v1::WriteBufferRequest write;
  write.set_name("sessions/main/buffers/a");
  const std::string first = write.SerializeAsString();
  write.set_data(std::string(2 << 20, 'x'));
  const std::string second = write.SerializeAsString();
  ExpectFlat(20, [&] {
    EXPECT_EQ(RawCall(api().channel, "/pto.v1.RunService/SubmitRun", {bytes}).error_code(),
              grpc::StatusCode::RESOURCE_EXHAUSTED);
    EXPECT_EQ(
        RawCall(api().channel, "/pto.v1.BufferService/WriteBuffer", {first, second}).error_code(),
        grpc::StatusCode::RESOURCE_EXHAUSTED);
  });
  ExpectHealthy();
}

TEST_F(BadRequestTest, AMethodThatDoesNotExistIsUnimplemented) {
  for (const char* path : {"/pto.v1.RunService/Nope", "/pto.v2.RunService/GetRun", "/x", "/"}) {
    EXPECT_EQ(RawCall(api().channel, path, {""}).error_code(), grpc::StatusCode::UNIMPLEMENTED)
        << path;
  }
  ExpectHealthy();
}

TEST_F(BadRequestTest, AClientThatGoesAwayInTheMiddleLeavesNothing) {
  ExpectFlat(50, [&] {
    for (const char* method : {"SubmitPackedRun", "RegisterPackedGraph"}) {
      grpc::ClientContext context;
      const std::string parts[] = {
          "header { parent: 'sessions/main' id: 'broken' kernels: 'noop' chips: 'chips/0' }",
          "tasks { kernel: [0, 0, 0] }"};
      v1::Run run;
      v1::Graph graph;
      const auto send = [&](auto writer) {
        for (const std::string& part : parts) writer->Write(Proto<v1::PackedGraphPart>(part));
        context.TryCancel();
        EXPECT_EQ(writer->Finish().error_code(), grpc::StatusCode::CANCELLED);
      };
      if (absl::string_view(method) == "SubmitPackedRun") {
        send(api().run->SubmitPackedRun(&context, &run));
      } else {
        send(api().run->RegisterPackedGraph(&context, &graph));
      }
    }
  });
  const auto found = Call(*api().run, &v1::RunService::Stub::GetRun,
                          Proto<v1::GetRunRequest>("name: 'sessions/main/runs/broken'"));
  EXPECT_THAT(found, HasReason(reason::kRunUnknown));
  ExpectHealthy();
}

}  // namespace
}  // namespace pto::testing
