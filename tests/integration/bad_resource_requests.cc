// Invalid requests to the services for nodes, sessions, buffers and kernels.

#include "absl/strings/str_cat.h"
#include "tests/integration/bad_request.h"

namespace pto::testing {

std::vector<std::string> BadRequestFlags() {
  return {"--sim-chips=2",           "--sim-memory=64M",        "--max-sessions=2",
          "--max-buffer-bytes=128M", "--max-session-graphs=1",  "--max-session-finished-runs=2",
          "--max-graph-tasks=100",   "--max-session-buffers=8", "--max-block-tasks=80",
          "--max-chunk-bytes=64K",   "--log-level=warning",     "--max-message-bytes=1M",
          "--max-graph-tensors=50",  "--max-graph-edges=200",   "--max-client-sessions=2"};
}

std::string LongText(const std::string& name, size_t size) {
  return absl::StrCat(" ", name, ": \"", std::string(size, 'x'), "\" ");
}

std::vector<BadRequest> BadPages(const std::string& method, const std::string& rest) {
  return {
      {"page of -1", method, {rest + "page_size: -1"}, reason::kFieldInvalid, "page_size"},
      {"page too large", method, {rest + "page_size: 1001"}, reason::kFieldInvalid, "page_size"},
      {"page size least",
       method,
       {rest + "page_size: -2147483648"},
       reason::kFieldInvalid,
       "page_size"},
      {"token is no token",
       method,
       {rest + "page_token: '!!'"},
       reason::kPageTokenInvalid,
       "page_token"},
      {"token of another",
       method,
       {rest + "page_token: 'b3RoZXI'"},
       reason::kPageTokenInvalid,
       "page_token"},
      {"token too long",
       method,
       {rest + LongText("page_token", 100'000)},
       reason::kPageTokenInvalid,
       "page_token"},
  };
}

std::vector<BadRequest> BadNodeRequests() {
  const std::string get = "/pto.v1.NodeService/GetChip";
  const std::string drain = "/pto.v1.NodeService/DrainNode";
  const std::string reset = "/pto.v1.NodeService/ResetChip";
  std::vector<BadRequest> rows = {
      {"no name", get, {""}, reason::kNameInvalid, "name"},
      {"other form", get, {"name: 'chip/0'"}, reason::kNameInvalid, "name"},
      {"negative", get, {"name: 'chips/-1'"}, reason::kNameInvalid, "name"},
      {"leading zero", get, {"name: 'chips/01'"}, reason::kNameInvalid, "name"},
      {"beyond 32 bits", get, {"name: 'chips/4294967296'"}, reason::kNameInvalid, "name"},
      {"unknown", get, {"name: 'chips/2'"}, reason::kChipUnknown, "name"},
      {"largest", get, {"name: 'chips/4294967295'"}, reason::kChipUnknown, "name"},
      {"no name", reset, {"force: true"}, reason::kNameInvalid, "name"},
      {"unknown", reset, {"name: 'chips/7' force: true"}, reason::kChipUnknown, "name"},
      {"negative grace", drain, {"grace { seconds: -1 }"}, reason::kFieldInvalid, "grace"},
      {"grace too long", drain, {"grace { seconds: 86401 }"}, reason::kFieldInvalid, "grace"},
      {"grace malformed", drain, {"grace { nanos: 1000000000 }"}, reason::kFieldInvalid, "grace"},
      {"signs differ", drain, {"grace { seconds: 1 nanos: -1 }"}, reason::kFieldInvalid, "grace"},
      {"reason too long", drain, {LongText("reason", 1025)}, reason::kFieldInvalid, "reason"},
      {"token is no number",
       "/pto.v1.NodeService/ListChips",
       {"page_token: 'cDI6TGlzdENoaXBzOjp4'"},
       reason::kPageTokenInvalid,
       "page_token"},
  };
  for (BadRequest& row : BadPages("/pto.v1.NodeService/ListChips", "")) rows.push_back(row);
  const std::string usage = "/pto.v1.NodeService/ListUsage";
  rows.insert(rows.end(), {{"begins too late",
                            usage,
                            {"start_time { seconds: 253402300800 }"},
                            reason::kFieldInvalid,
                            "start_time"},
                           {"nanos malformed",
                            usage,
                            {"start_time { nanos: -1 }"},
                            reason::kFieldInvalid,
                            "start_time"},
                           {"ends too early",
                            usage,
                            {"end_time { seconds: -62135596801 }"},
                            reason::kFieldInvalid,
                            "end_time"},
                           {"ends before it begins",
                            usage,
                            {"start_time { seconds: 7200 } end_time { seconds: 3600 }"},
                            reason::kFieldInvalid,
                            "end_time"}});
  for (BadRequest& row : BadPages(usage, "")) rows.push_back(row);
  return rows;
}

std::vector<BadRequest> BadSessionRequests() {
  const std::string create = "/pto.v1.SessionService/CreateSession";
  const std::string renew = "/pto.v1.SessionService/RenewSession";
  const std::string get = "/pto.v1.SessionService/GetSession";
  const std::string remove = "/pto.v1.SessionService/DeleteSession";
  const std::string lease = "/pto.v1.SessionService/LeaseChips";
  std::string labels = "session_id: 's' ";
  for (int i = 0; i < 33; ++i) absl::StrAppend(&labels, "labels { key: 'k", i, "' value: '' } ");
  std::vector<BadRequest> rows = {
      {"no id", create, {""}, reason::kIdInvalid, "session_id"},
      {"client no id", create, {"session_id: 's' client: 'A'"}, reason::kIdInvalid, "client"},
      {"lease no name", create, {"session_id: 's' lease: 's'"}, reason::kNameInvalid, "lease"},
      {"no session", lease, {"count: 1"}, reason::kNameInvalid, "name"},
      {"no chips", lease, {"name: 'sessions/s'"}, reason::kFieldInvalid, "count"},
      {"more chips", lease, {"name: 'sessions/s' count: 3"}, reason::kFieldInvalid, "count"},
      {"wait too long",
       lease,
       {"name: 'sessions/s' count: 1 wait { seconds: 3601 }"},
       reason::kFieldInvalid,
       "wait"},
      {"unknown", lease, {"name: 'sessions/none' count: 1"}, reason::kSessionUnknown, ""},
      {"upper case", create, {"session_id: 'S'"}, reason::kIdInvalid, "session_id"},
      {"digit first", create, {"session_id: '1s'"}, reason::kIdInvalid, "session_id"},
      {"underscore", create, {"session_id: 'a_b'"}, reason::kIdInvalid, "session_id"},
      {"full name", create, {"session_id: 'sessions/s'"}, reason::kIdInvalid, "session_id"},
      {"id too long", create, {LongText("session_id", 64)}, reason::kIdInvalid, "session_id"},
      {"id far too long",
       create,
       {LongText("session_id", 500'000)},
       reason::kIdInvalid,
       "session_id"},
      {"negative ttl",
       create,
       {"session_id: 's' ttl { seconds: -1 }"},
       reason::kFieldInvalid,
       "ttl"},
      {"ttl overflows",
       create,
       {"session_id: 's' ttl { seconds: 9223372036854775807 }"},
       reason::kFieldInvalid,
       "ttl"},
      {"ttl least",
       create,
       {"session_id: 's' ttl { seconds: -9223372036854775808 }"},
       reason::kFieldInvalid,
       "ttl"},
      {"ttl malformed",
       create,
       {"session_id: 's' ttl { nanos: 2000000000 }"},
       reason::kFieldInvalid,
       "ttl"},
      {"too many labels", create, {labels}, reason::kFieldInvalid, "labels"},
      {"label without key",
       create,
       {"session_id: 's' labels { key: '' value: 'v' }"},
       reason::kFieldInvalid,
       "labels"},
      {"label too long",
       create,
       {absl::StrCat("session_id: 's' labels { key: 'k' ", LongText("value", 257), "}")},
       reason::kFieldInvalid,
       "labels"},
      {"later api",
       create,
       {"session_id: 's' api_min: 2"},
       reason::kApiVersionUnsupported,
       "api_min"},
      {"weight too large",
       create,
       {"session_id: 's' weight: 1001"},
       reason::kFieldInvalid,
       "weight"},
      {"largest weight",
       create,
       {"session_id: 's' weight: 4294967295"},
       reason::kFieldInvalid,
       "weight"},
      {"used otherwise",
       create,
       {"session_id: 'main' labels { key: 'k' value: 'v' }"},
       reason::kIdConflict,
       "session_id"},
      {"has ended", create, {"session_id: 'gone'"}, reason::kSessionIdUsed, "session_id"},
      {"one too many", create, {"session_id: 'third'"}, reason::kSessionLimit, ""},
  };
  for (const std::string& method : {renew, get, remove}) {
    rows.push_back({"no name", method, {""}, reason::kNameInvalid, "name"});
    rows.push_back({"an id", method, {"name: 'main'"}, reason::kNameInvalid, "name"});
    rows.push_back({"bad id", method, {"name: 'sessions/M'"}, reason::kIdInvalid, "name"});
    rows.push_back({"empty id", method, {"name: 'sessions/'"}, reason::kIdInvalid, "name"});
    rows.push_back(
        {"a child", method, {"name: 'sessions/main/runs/r'"}, reason::kNameInvalid, "name"});
    rows.push_back({"unknown", method, {"name: 'sessions/nope'"}, reason::kSessionUnknown, ""});
    if (method == remove) continue;
    rows.push_back({"ended", method, {"name: 'sessions/gone'"}, reason::kSessionEnded, ""});
  }
  for (BadRequest& row : BadPages("/pto.v1.SessionService/ListSessions", "")) rows.push_back(row);
  return rows;
}

std::vector<BadRequest> BadBufferRequests() {
  const std::string create = "/pto.v1.BufferService/CreateBuffers";
  const std::string get = "/pto.v1.BufferService/GetBuffer";
  const std::string list = "/pto.v1.BufferService/ListBuffers";
  const std::string write = "/pto.v1.BufferService/WriteBuffer";
  const std::string read = "/pto.v1.BufferService/ReadBuffer";
  const std::string remove = "/pto.v1.BufferService/DeleteBuffers";
  const auto one = [](const std::string& parent, const std::string& buffer) {
    return absl::StrCat("parent: 'sessions/", parent, "' buffers { ", buffer, " }");
  };
  const std::string good = "buffer_id: 'n' chip: 'chips/0' bytes: 1";
  std::vector<BadRequest> rows = {
      {"no parent", create, {"buffers { " + good + " }"}, reason::kNameInvalid, "parent"},
      {"parent unknown", create, {one("nope", good)}, reason::kSessionUnknown, ""},
      {"parent ended", create, {one("gone", good)}, reason::kSessionEnded, ""},
      {"nothing", create, {"parent: 'sessions/main'"}, reason::kFieldInvalid, "buffers"},
      {"no id",
       create,
       {one("main", "chip: 'chips/0' bytes: 1")},
       reason::kIdInvalid,
       "buffers[0].buffer_id"},
      {"bad id",
       create,
       {one("main", "buffer_id: 'A' chip: 'chips/0' bytes: 1")},
       reason::kIdInvalid,
       "buffers[0].buffer_id"},
      {"twice",
       create,
       {one("main", good) + " buffers { " + good + " }"},
       reason::kIdConflict,
       "buffers[1].buffer_id"},
      {"no chip",
       create,
       {one("main", "buffer_id: 'n' bytes: 1")},
       reason::kNameInvalid,
       "buffers[0].chip"},
      {"chip unknown",
       create,
       {one("main", "buffer_id: 'n' chip: 'chips/2' bytes: 1")},
       reason::kChipUnknown,
       "buffers[0].chip"},
      {"no bytes",
       create,
       {one("main", "buffer_id: 'n' chip: 'chips/0'")},
       reason::kFieldInvalid,
       "buffers[0].bytes"},
      {"too large",
       create,
       {one("main", "buffer_id: 'n' chip: 'chips/0' bytes: 134217729")},
       reason::kBufferTooLarge,
       "buffers[0].bytes"},
      {"far too large",
       create,
       {one("main", "buffer_id: 'n' chip: 'chips/0' bytes: 18446744073709551615")},
       reason::kBufferTooLarge,
       "buffers[0].bytes"},
      {"other size",
       create,
       {one("main", "buffer_id: 'a' chip: 'chips/0' bytes: 4095")},
       reason::kIdConflict,
       "buffers[0].buffer_id"},
      {"other chip",
       create,
       {one("main", "buffer_id: 'a' chip: 'chips/1' bytes: 4096")},
       reason::kIdConflict,
       "buffers[0].buffer_id"},
      {"one too many", create, {one("main", good)}, reason::kBufferLimit, ""},
      {"more than the chip has",
       create,
       {one("other", "buffer_id: 'n' chip: 'chips/0' bytes: 100000000")},
       reason::kChipMemoryExhausted,
       "buffers[0].bytes"},
      {"together more than the chip has",
       create,
       {one("other", "buffer_id: 'n' chip: 'chips/1' bytes: 40000000") +
        " buffers { buffer_id: 'o' chip: 'chips/1' bytes: 40000000 }"},
       reason::kChipMemoryExhausted,
       "buffers[1].bytes"},
      {"no parent", list, {""}, reason::kNameInvalid, "parent"},
      {"unknown", list, {"parent: 'sessions/nope'"}, reason::kSessionUnknown, ""},
      {"ended", list, {"parent: 'sessions/gone'"}, reason::kSessionEnded, ""},
      {"nothing", write, {}, reason::kStreamEmpty, ""},
      {"beyond the end",
       write,
       {"name: 'sessions/main/buffers/a' offset: 4096 data: 'x'"},
       reason::kRangeOutOfBounds,
       "offset"},
      {"offset overflows",
       write,
       {"name: 'sessions/main/buffers/a' offset: 18446744073709551615 data: 'xx'"},
       reason::kRangeOutOfBounds,
       "offset"},
      {"chunk too large",
       write,
       {"name: 'sessions/main/buffers/a' " + LongText("data", (64 << 10) + 1)},
       reason::kChunkTooLarge,
       "data"},
      {"name changes",
       write,
       {"name: 'sessions/main/buffers/a'", "name: 'sessions/main/buffers/b' data: 'x'"},
       reason::kFieldInvalid,
       "name"},
      {"second goes beyond the end",
       write,
       {"name: 'sessions/main/buffers/a' data: 'x'", "offset: 4095 data: 'xx'"},
       reason::kRangeOutOfBounds,
       "offset"},
      {"beyond the end",
       read,
       {"name: 'sessions/main/buffers/a' offset: 4097"},
       reason::kRangeOutOfBounds,
       "offset"},
      {"more than there is",
       read,
       {"name: 'sessions/main/buffers/a' offset: 1 limit: 4096"},
       reason::kRangeOutOfBounds,
       "offset"},
      {"limit overflows",
       read,
       {"name: 'sessions/main/buffers/a' offset: 64 limit: 18446744073709551615"},
       reason::kRangeOutOfBounds,
       "offset"},
      {"nothing", remove, {""}, reason::kFieldInvalid, "names"},
      {"bad name",
       remove,
       {"names: 'sessions/main/buffers/a' names: 'b'"},
       reason::kNameInvalid,
       "names[1]"},
      {"two sessions",
       remove,
       {"names: 'sessions/main/buffers/a' names: 'sessions/other/buffers/x'"},
       reason::kSessionMismatch,
       "names[1]"},
      {"unknown", remove, {"names: 'sessions/main/buffers/nope'"}, reason::kBufferUnknown, ""},
      {"one of two unknown",
       remove,
       {"names: 'sessions/main/buffers/a' names: 'sessions/main/buffers/nope'"},
       reason::kBufferUnknown,
       ""},
      {"session ended",
       remove,
       {"names: 'sessions/gone/buffers/a' allow_missing: true"},
       reason::kSessionEnded,
       ""},
  };
  for (const std::string& method : {get, write, read}) {
    const auto name = [](const std::string& text) { return "name: '" + text + "'"; };
    rows.push_back({"no name", method, {""}, reason::kNameInvalid, "name"});
    rows.push_back({"an id", method, {name("a")}, reason::kNameInvalid, "name"});
    rows.push_back(
        {"other kind", method, {name("sessions/main/runs/a")}, reason::kNameInvalid, "name"});
    rows.push_back(
        {"bad id", method, {name("sessions/main/buffers/A")}, reason::kIdInvalid, "name"});
    rows.push_back(
        {"unknown", method, {name("sessions/main/buffers/x")}, reason::kBufferUnknown, ""});
    rows.push_back(
        {"stale", method, {name("sessions/main/buffers/deleted")}, reason::kBufferUnknown, ""});
    rows.push_back({"session unknown",
                    method,
                    {name("sessions/nope/buffers/a")},
                    reason::kSessionUnknown,
                    ""});
    rows.push_back(
        {"session ended", method, {name("sessions/gone/buffers/a")}, reason::kSessionEnded, ""});
  }
  for (BadRequest& row : BadPages(list, "parent: 'sessions/main' ")) rows.push_back(row);
  return rows;
}

std::vector<BadRequest> BadKernelRequests() {
  const std::string get = "/pto.v1.KernelService/GetKernel";
  const std::string list = "/pto.v1.KernelService/ListKernels";
  const std::string remove = "/pto.v1.KernelService/DeleteKernel";
  const std::string upload = "/pto.v1.KernelService/RegisterKernel";
  const std::string parent = "parent: 'sessions/main' ";
  const std::string digest = absl::StrCat("sha256: '", std::string(32, 'x'), "' ");
  std::vector<BadRequest> rows = {
      {"no name", get, {""}, reason::kNameInvalid, "name"},
      {"an id", get, {"name: 'add'"}, reason::kNameInvalid, "name"},
      {"bad id", get, {"name: 'kernels/a-b'"}, reason::kIdInvalid, "name"},
      {"unknown", get, {"name: 'kernels/nope'"}, reason::kKernelUnknown, "name"},
      {"unknown of a session",
       get,
       {"name: 'sessions/main/kernels/nope'"},
       reason::kKernelUnknown,
       "name"},
      {"bad id of a session",
       get,
       {"name: 'sessions/main/kernels/a-b'"},
       reason::kIdInvalid,
       "name"},
      {"of no session", get, {"name: 'sessions/nope/kernels/a'"}, reason::kSessionUnknown, ""},
      {"no collection", get, {"name: 'sessions/main/a'"}, reason::kNameInvalid, "name"},
      {"deletion of a built-in one", remove, {"name: 'kernels/add'"}, reason::kNameInvalid, "name"},
      {"deletion", remove, {"name: 'sessions/main/kernels/add'"}, reason::kKernelUnknown, "name"},
      {"deletion in a session that has ended",
       remove,
       {"name: 'sessions/gone/kernels/add'"},
       reason::kSessionEnded,
       ""},
      {"list of no session", list, {"parent: 'sessions/nope'"}, reason::kSessionUnknown, ""},
      {"list of a wrong name", list, {"parent: 'main'"}, reason::kNameInvalid, "parent"},
      {"empty upload", upload, {}, reason::kStreamEmpty, ""},
      {"upload for nobody", upload, {""}, reason::kNameInvalid, "parent"},
      {"upload for an unknown session",
       upload,
       {"parent: 'sessions/nope'"},
       reason::kSessionUnknown,
       ""},
      {"upload without a size", upload, {parent}, reason::kFieldInvalid, "file_bytes"},
      {"upload that is too large",
       upload,
       {parent + "file_bytes: 1000000000000"},
       reason::kFieldInvalid,
       "file_bytes"},
      {"upload without a digest",
       upload,
       {parent + "file_bytes: 4"},
       reason::kFieldInvalid,
       "sha256"},
      {"upload with a bad id",
       upload,
       {parent + "kernel_id: 'A'"},
       reason::kIdInvalid,
       "kernel_id"},
      {"upload with a folder",
       upload,
       {parent + "file_name: '../a.so'"},
       reason::kFieldInvalid,
       "file_name"},
      {"upload with a long entry",
       upload,
       {absl::StrCat(parent, "entry: '", std::string(256, 'e'), "'")},
       reason::kFieldInvalid,
       "entry"},
      {"upload with a long signature",
       upload,
       {absl::StrCat(parent, "signature: '", std::string(5000, 'e'), "'")},
       reason::kFieldInvalid,
       "signature"},
      {"upload of too many bytes",
       upload,
       {parent + digest + "file_bytes: 4 data: '12345'"},
       reason::kFieldInvalid,
       "data"},
      {"upload of too few bytes",
       upload,
       {parent + digest + "file_bytes: 4 data: '12'", "data: '3'"},
       reason::kFieldInvalid,
       "data"},
      {"upload of other bytes",
       upload,
       {parent + digest + "file_bytes: 4 data: '1234'"},
       reason::kFieldInvalid,
       "sha256"},
      {"upload in chunks that are too large",
       upload,
       {absl::StrCat(parent, digest, "file_bytes: 4000000 data: '", std::string(70'000, 'd'), "'")},
       reason::kChunkTooLarge,
       "data"},
  };
  for (BadRequest& row : BadPages("/pto.v1.KernelService/ListHosts", "")) rows.push_back(row);
  for (BadRequest& row : BadPages("/pto.v1.KernelService/ListKernels", "")) rows.push_back(row);
  return rows;
}

}  // namespace pto::testing
