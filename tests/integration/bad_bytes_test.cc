// Bytes that do not parse, messages that are too large, and streams that just stop: each ends its
// call, and none costs the daemon memory or files.

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "google/protobuf/descriptor.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"
#include "tests/harness/raw_call.h"
#include "tests/integration/bad_request_world.h"
#include "tests/integration/world.h"

namespace pto::testing {
namespace {

using google::protobuf::MethodDescriptor;

// Bytes that no message can parse, and bytes that do not parse where a string comes first.
constexpr char kBrokenVarint[] = "\xff\xff\xff\xff\xff";
constexpr char kBrokenLength[] = "\x0a\x7fxy";
constexpr char kNotUtf8[] = "\x0a\x02\xc3\x28";

void ExpectMalformed(const grpc::Status& status) {
  ExpectRefused(status, reason::kMessageInvalid, "");
}

TEST_F(BadRequestTest, BytesThatAreNoMessageEndTheCall) {
  ExpectFlat(10, [&] {
    for (const MethodDescriptor* method : AllMethods()) {
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
      // Complete, except for the commit.
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
