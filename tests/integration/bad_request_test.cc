// More than a thousand invalid requests: each is refused with the right reason, whose page shows a
// real example, and the daemon is unchanged.

#include "tests/integration/bad_request.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/ptoctl/error_pages.h"
#include "google/protobuf/descriptor.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"
#include "tests/harness/raw_call.h"
#include "tests/integration/bad_request_world.h"
#include "tests/integration/world.h"

namespace pto::testing {
namespace {

using google::protobuf::MethodDescriptor;

// Whether `said` matches `example`, in which `…` stands for any text.
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

class BadRequestRowsTest : public BadRequestTest {
 protected:
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

  // The examples in deploy/docs/errors are real messages of the daemon.
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

  // Messages by reason.
  std::map<absl::string_view, std::set<std::string>> said_;
};

TEST_F(BadRequestRowsTest, EveryOneOfAThousandIsRefusedWithItsReason) {
  std::vector<BadRequest> rows = AllBadRequests();
  for (BadRequest& row : BadControlTasks()) rows.push_back(std::move(row));
  const int rounds = 1000 / static_cast<int>(rows.size()) + 1;
  ExpectFlat(rounds, [&] { SendAll(rows); });
  ExpectExamplesAreReal();
  ExpectHealthy();
}

TEST(BadRequestTableTest, TheTableNamesEveryReasonOfARequest) {
  // The other reasons cannot be provoked by one request to this daemon: they are about load, the
  // end of a run, the process, bytes that do not parse, or the client library.
  const std::vector<Reason> others = {
      reason::kInternal,          reason::kMessageInvalid,     reason::kMessageTooLarge,
      reason::kNodeDraining,      reason::kChipBusy,           reason::kChipUnavailable,
      reason::kChipReset,         reason::kBufferInUse,        reason::kRunLimit,
      reason::kRunCancelled,      reason::kRunDeadline,        reason::kKernelFailed,
      reason::kQueueDeadline,     reason::kTaskDeadline,       reason::kWaitTimeout,
      reason::kStacksExhausted,   reason::kKernelThrew,        reason::kConfigInvalid,
      reason::kInstanceRunning,   reason::kPathUnusable,       reason::kListenFailed,
      reason::kServiceUnknown,    reason::kDaemonUnreachable,  reason::kClientTimeout,
      reason::kStreamEnded,       reason::kJobInvalid,         reason::kUsage,
      reason::kCheckFailed,       reason::kInterrupted,        reason::kStreamBroken,
      reason::kDomainLimit,       reason::kWorkspaceExhausted, reason::kChipLeased,
      reason::kQuotaSessions,     reason::kQuotaMemory,        reason::kQuotaWindows,
      reason::kUnauthenticated,   reason::kPermissionDenied,   reason::kMemoryBudget,
      reason::kTaskTooLong,       reason::kExecutorsStuck,     reason::kQuotaRuns,
      reason::kQuotaTasks,        reason::kQuotaEventLog,      reason::kDaemonRestarted,
      reason::kJournalUnwritable, reason::kJournalNewer,       reason::kReasonMissing,
      reason::kClientGone,        reason::kHostLost,           reason::kQuotaChips,
      reason::kNotAvailable,      reason::kKernelInvalid,      reason::kUploadDeadline,
      reason::kQuotaKernels,      reason::kCannUnusable,       reason::kDeviceFailed,
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
    // Two methods take no arguments; errors of a launch stream are tested below.
    const bool nothing_to_refuse = method->name() == "GetNode" || method->name() == "GetConfig" ||
                                   method->name() == "LaunchStream";
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
    // No effect in a stream.
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

TEST_F(BadRequestTest, APageTokenIsGoodForItsOwnListOnly) {
  const std::string buffers = "/pto.v1.BufferService/ListBuffers";
  const std::string runs = "/pto.v1.RunService/ListRuns";
  const std::vector<std::pair<std::string, std::string>> lists = {
      {buffers, "parent: 'sessions/main'"},        {buffers, "parent: 'sessions/other'"},
      {runs, "parent: 'sessions/main'"},           {runs, "parent: 'sessions/-'"},
      {"/pto.v1.SessionService/ListSessions", ""}, {"/pto.v1.NodeService/ListChips", ""},
      {"/pto.v1.KernelService/ListKernels", ""},   {"/pto.v1.NodeService/ListUsage", ""},
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
  // Until the daemon has received it.
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
  // A new buffer with the same name is a different buffer.
  MakeBuffer(api(), "sessions/main", "a", 4096);
  writer->Write(write);
  writer->WritesDone();
  ExpectRefused(writer->Finish(), reason::kBufferUnknown, "");
  ExpectHealthy();
}

TEST_F(BadRequestTest, AReadEndsWhenItsBufferIsDeleted) {
  // More than the connection buffers, so that the daemon waits for us.
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

TEST_F(BadRequestTest, AMethodThatDoesNotExistIsUnimplemented) {
  for (const char* path : {"/pto.v1.RunService/Nope", "/pto.v2.RunService/GetRun", "/x", "/"}) {
    EXPECT_EQ(RawCall(api().channel, path, {""}).error_code(), grpc::StatusCode::UNIMPLEMENTED)
        << path;
  }
  ExpectHealthy();
}

}  // namespace
}  // namespace pto::testing
