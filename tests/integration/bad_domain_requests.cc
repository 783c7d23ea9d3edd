// Invalid requests to DomainService, and invalid uses of domains' contents.

#include "absl/strings/str_cat.h"
#include "tests/integration/bad_request.h"

namespace pto::testing {
namespace {

std::vector<BadRequest> BadDomains() {
  const std::string method = "/pto.v1.DomainService/CreateDomain";
  const auto create = [](const std::string& rest, const std::string& id = "n") {
    return absl::StrCat("parent: 'sessions/main' domain_id: '", id, "' ", rest);
  };
  const std::string chips = "chips: ['chips/0', 'chips/1'] ";
  const std::string x = "buffers { name: 'x' dtype: F32 count: 16 } ";
  std::string many = "signal_count: 1 ";
  for (int i = 0; i < 65; ++i) absl::StrAppend(&many, "chips: 'chips/", i % 2, "' ");
  std::string crowd = chips;
  for (int i = 0; i < 1025; ++i) {
    absl::StrAppend(&crowd, "buffers { name: 'n", i, "' dtype: I8 count: 1 } ");
  }
  return {
      {"nothing", method, {""}, reason::kNameInvalid, "parent"},
      {"no id", method, {"parent: 'sessions/main' " + chips + x}, reason::kIdInvalid, "domain_id"},
      {"bad id", method, {create(chips + x, "N")}, reason::kIdInvalid, "domain_id"},
      {"session unknown",
       method,
       {"parent: 'sessions/nope' domain_id: 'n' " + chips + x},
       reason::kSessionUnknown,
       ""},
      {"session ended",
       method,
       {"parent: 'sessions/gone' domain_id: 'n' " + chips + x},
       reason::kSessionEnded,
       ""},
      {"no chips", method, {create(x)}, reason::kFieldInvalid, "chips"},
      {"too many chips", method, {create(many)}, reason::kFieldInvalid, "chips"},
      {"not a chip", method, {create("chips: 'chip/0' " + x)}, reason::kNameInvalid, "chips[0]"},
      {"unknown chip",
       method,
       {create("chips: ['chips/0', 'chips/2'] " + x)},
       reason::kChipUnknown,
       "chips[1]"},
      {"a chip twice",
       method,
       {create("chips: ['chips/1', 'chips/0', 'chips/1'] " + x)},
       reason::kFieldInvalid,
       "chips[2]"},
      {"nothing in it", method, {create(chips)}, reason::kFieldInvalid, "buffers"},
      {"a large nothing",
       method,
       {create(chips + "window_bytes: 4096")},
       reason::kFieldInvalid,
       "buffers"},
      {"buffer without a name",
       method,
       {create(chips + "buffers { dtype: F32 count: 1 }")},
       reason::kIdInvalid,
       "buffers[0].name"},
      {"bad buffer name",
       method,
       {create(chips + "buffers { name: 'a/b' dtype: F32 count: 1 }")},
       reason::kIdInvalid,
       "buffers[0].name"},
      {"a buffer twice", method, {create(chips + x + x)}, reason::kFieldInvalid, "buffers[1].name"},
      {"no type",
       method,
       {create(chips + "buffers { name: 'x' count: 1 }")},
       reason::kFieldInvalid,
       "buffers[0].dtype"},
      {"strange type",
       method,
       {create(chips + "buffers { name: 'x' dtype: 99 count: 1 }")},
       reason::kFieldInvalid,
       "buffers[0].dtype"},
      {"too many buffers", method, {create(crowd)}, reason::kFieldInvalid, "buffers"},
      {"window too small",
       method,
       {create(chips + x + "window_bytes: 63")},
       reason::kFieldInvalid,
       "window_bytes"},
      {"window too small for its signals",
       method,
       {create(chips + x + "signal_count: 2 window_bytes: 79")},
       reason::kFieldInvalid,
       "window_bytes"},
      {"window too large",
       method,
       {create(chips + x + "window_bytes: 134217729")},
       reason::kBufferTooLarge,
       "window_bytes"},
      {"buffers too large",
       method,
       {create(chips + x + "buffers { name: 'y' dtype: F64 count: 16777216 }")},
       reason::kBufferTooLarge,
       "buffers[1].count"},
      {"count overflows",
       method,
       {create(chips + "buffers { name: 'y' dtype: F64 count: 2305843009213693953 }")},
       reason::kBufferTooLarge,
       "buffers[0].count"},
      {"count and bytes disagree",
       method,
       {create(chips + x + "buffers { name: 'y' dtype: F32 count: 16 bytes: 60 }")},
       reason::kFieldInvalid,
       "buffers[1].bytes"},
      {"half an element",
       method,
       {create(chips + "buffers { name: 'y' dtype: F32 bytes: 62 }")},
       reason::kFieldInvalid,
       "buffers[0].bytes"},
      {"bytes of no type",
       method,
       {create(chips + "buffers { name: 'y' bytes: 64 }")},
       reason::kFieldInvalid,
       "buffers[0].dtype"},
      {"bytes too large",
       method,
       {create(chips + "buffers { name: 'y' dtype: F32 bytes: 134217732 }")},
       reason::kBufferTooLarge,
       "buffers[0].bytes"},
      {"window too small for its bytes",
       method,
       {create(chips + "buffers { name: 'y' dtype: F32 bytes: 64 } window_bytes: 63")},
       reason::kFieldInvalid,
       "window_bytes"},
      {"too many signals",
       method,
       {create(chips + "signal_count: 65537")},
       reason::kFieldInvalid,
       "signal_count"},
      {"more than a chip has",
       method,
       {create(chips + x + "window_bytes: 100000000")},
       reason::kChipMemoryExhausted,
       "chips[0]"},
      {"other chips", method, {create(chips + x, "d")}, reason::kIdConflict, "domain_id"},
      {"other signals",
       method,
       {create("chips: ['chips/1', 'chips/0'] " + x + "signal_count: 5", "d")},
       reason::kIdConflict,
       "domain_id"},
      {"other bytes",
       method,
       {create("chips: ['chips/1', 'chips/0'] buffers { name: 'x' dtype: F32 bytes: 60 } "
               "signal_count: 4",
               "d")},
       reason::kIdConflict,
       "domain_id"},
      {"other window",
       method,
       {create(GoodDomain() + "window_bytes: 4096", "d")},
       reason::kIdConflict,
       "domain_id"},
  };
}

std::vector<BadRequest> BadSignals() {
  const std::string notify = "/pto.v1.DomainService/Notify";
  const std::string read = "/pto.v1.DomainService/ReadSignals";
  const std::string d = "name: 'sessions/main/domains/d' ";
  return {
      {"no operation", notify, {d}, reason::kFieldInvalid, "operation"},
      {"strange operation", notify, {d + "operation: 3"}, reason::kFieldInvalid, "operation"},
      {"no such rank", notify, {d + "operation: SET rank: 2"}, reason::kRangeOutOfBounds, "rank"},
      {"no such signal",
       notify,
       {d + "operation: ADD signal: 4"},
       reason::kRangeOutOfBounds,
       "signal"},
      {"revoked",
       notify,
       {"name: 'sessions/main/domains/dead' operation: SET"},
       reason::kDomainRevoked,
       ""},
      {"no such rank", read, {d + "rank: 4294967295"}, reason::kRangeOutOfBounds, "rank"},
      {"from beyond", read, {d + "first: 5"}, reason::kRangeOutOfBounds, "first"},
      {"too many", read, {d + "first: 1 count: 4"}, reason::kRangeOutOfBounds, "count"},
      {"far too many",
       read,
       {d + "first: 4 count: 4294967295"},
       reason::kRangeOutOfBounds,
       "count"},
  };
}

// Runs and transfers that name objects in domains.
std::vector<BadRequest> BadWindows() {
  const std::string submit = "/pto.v1.RunService/SubmitRun";
  const auto fill = [](const std::string& buffer, const std::string& chip = "chips/0",
                       int count = 16) {
    return absl::StrCat("parent: 'sessions/main' graph { tensors { name: 't' buffer: '", buffer,
                        "' dtype: F32 shape: ", count, " } tasks { kernel: 'fill' chip: '", chip,
                        "' args: 't' scalars { f64: 1 } } }");
  };
  std::vector<BadRequest> rows = {
      {"no such domain", submit, {fill("domains/n/ranks/0/buffers/x")}, reason::kDomainUnknown, ""},
      {"no such rank", submit, {fill("domains/d/ranks/2/buffers/x")}, reason::kBufferUnknown, ""},
      {"no such buffer", submit, {fill("domains/d/ranks/1/buffers/y")}, reason::kBufferUnknown, ""},
      {"not a name",
       submit,
       {fill("domains/d/ranks/01/buffers/x")},
       reason::kNameInvalid,
       "graph.tensors[0].buffer"},
      {"half a name", submit, {fill("domains/d")}, reason::kNameInvalid, "graph.tensors[0].buffer"},
      {"of another session",
       submit,
       {fill("sessions/other/domains/d/ranks/1/buffers/x")},
       reason::kSessionMismatch,
       "graph.tensors[0].buffer"},
      {"on another chip",
       submit,
       {fill("domains/d/ranks/0/buffers/x")},
       reason::kBufferOnOtherChip,
       ""},
      {"beyond its end",
       submit,
       {fill("domains/d/ranks/0/buffers/x", "chips/1", 17)},
       reason::kTensorOutOfBounds,
       ""},
      {"revoked", submit, {fill("domains/dead/ranks/1/buffers/x")}, reason::kDomainRevoked, ""},
      {"bound to a domain that is not there",
       "/pto.v1.RunService/LaunchGraph",
       {"graph: 'sessions/main/graphs/g' "
        "buffers { slot: 'out' buffer: 'domains/n/ranks/0/buffers/x' }"},
       reason::kDomainUnknown,
       "buffers[0].buffer"},
      {"writes signals",
       "/pto.v1.BufferService/WriteBuffer",
       {"name: 'sessions/main/domains/d/ranks/0/signals' data: '12345678'"},
       reason::kFieldInvalid,
       "name"},
      {"writes beyond the end",
       "/pto.v1.BufferService/WriteBuffer",
       {"name: 'sessions/main/domains/d/ranks/0/buffers/x' offset: 63 data: '12'"},
       reason::kRangeOutOfBounds,
       "offset"},
  };
  for (const char* method : {"GetBuffer", "ReadBuffer", "WriteBuffer"}) {
    const std::string path = absl::StrCat("/pto.v1.BufferService/", method);
    const auto name = [](const std::string& rest) {
      return absl::StrCat("name: 'sessions/main/domains/", rest, "'");
    };
    rows.push_back({"no rank", path, {name("d/buffers/x")}, reason::kNameInvalid, "name"});
    rows.push_back({"other domain", path, {name("n/ranks/0/signals")}, reason::kDomainUnknown, ""});
    rows.push_back({"other rank", path, {name("d/ranks/7/buffers/x")}, reason::kBufferUnknown, ""});
    rows.push_back({"without its session",
                    path,
                    {"name: 'domains/d/ranks/0/buffers/x'"},
                    reason::kNameInvalid,
                    "name"});
  }
  return rows;
}

}  // namespace

std::string GoodDomain() {
  return "chips: ['chips/1', 'chips/0'] buffers { name: 'x' dtype: F32 count: 16 } "
         "signal_count: 4 ";
}

std::vector<BadRequest> BadDomainRequests() {
  std::vector<BadRequest> rows;
  for (const auto& some : {BadDomains(), BadSignals(), BadWindows()}) {
    rows.insert(rows.end(), some.begin(), some.end());
  }
  for (const char* name : {"GetDomain", "RevokeDomain", "DeleteDomain", "Notify", "ReadSignals"}) {
    const std::string method = absl::StrCat("/pto.v1.DomainService/", name);
    const auto message = [&](const std::string& text) -> std::vector<std::string> {
      return {absl::StrCat("name: '", text, "'",
                           absl::string_view(name) == "Notify" ? " operation: SET" : "")};
    };
    rows.push_back({"no name", method, message(""), reason::kNameInvalid, "name"});
    rows.push_back({"an id", method, message("d"), reason::kNameInvalid, "name"});
    rows.push_back(
        {"other kind", method, message("sessions/main/buffers/d"), reason::kNameInvalid, "name"});
    rows.push_back(
        {"bad id", method, message("sessions/main/domains/D"), reason::kIdInvalid, "name"});
    rows.push_back(
        {"unknown", method, message("sessions/main/domains/nope"), reason::kDomainUnknown, ""});
    rows.push_back({"session unknown", method, message("sessions/nope/domains/d"),
                    reason::kSessionUnknown, ""});
    rows.push_back(
        {"session ended", method, message("sessions/gone/domains/d"), reason::kSessionEnded, ""});
  }
  rows.push_back({"reason too long",
                  "/pto.v1.DomainService/RevokeDomain",
                  {"name: 'sessions/main/domains/d' " + LongText("reason", 1025)},
                  reason::kFieldInvalid,
                  "reason"});
  const std::string list = "/pto.v1.DomainService/ListDomains";
  rows.push_back({"no parent", list, {""}, reason::kNameInvalid, "parent"});
  rows.push_back({"unknown", list, {"parent: 'sessions/nope'"}, reason::kSessionUnknown, ""});
  rows.push_back({"ended", list, {"parent: 'sessions/gone'"}, reason::kSessionEnded, ""});
  for (BadRequest& row : BadPages(list, "parent: 'sessions/main' ")) rows.push_back(row);
  return rows;
}

}  // namespace pto::testing
