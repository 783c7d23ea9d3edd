// Invalid requests about runs, launches and events.

#include "absl/strings/str_cat.h"
#include "tests/integration/bad_request.h"

namespace pto::testing {

std::string LaunchableGraph() {
  return R"(tensors { name: 'out' dtype: F32 shape: 1024 }
            scalars { name: 'value' value { f64: 1 } }
            scalars { name: 'us' value { i64: 0 } }
            tasks { kernel: 'fill' chip: 'chips/0' args: 'out' scalars { ref: 'value' } }
            tasks { kernel: 'spin' chip: 'chips/0' scalars { ref: 'us' } })";
}

std::vector<BadRequest> BadEventRequests() {
  const std::string watch = "/pto.v1.EventService/WatchEvents";
  const std::string main = "parent: 'sessions/main' ";
  return {
      {"no parent", watch, {""}, reason::kNameInvalid, "parent"},
      {"parent unknown", watch, {"parent: 'sessions/nope'"}, reason::kSessionUnknown, ""},
      {"parent ended", watch, {"parent: 'sessions/gone'"}, reason::kSessionEnded, ""},
      {"all sessions", watch, {"parent: 'sessions/-'"}, reason::kIdInvalid, "parent"},
      {"bad run", watch, {main + "runs: 'kept-1'"}, reason::kNameInvalid, "runs[0]"},
      {"run of another",
       watch,
       {main + "runs: 'sessions/main/runs/kept-1' runs: 'sessions/other/runs/kept-1'"},
       reason::kSessionMismatch,
       "runs[1]"},
      {"negative linger",
       watch,
       {main + "max_linger { nanos: -1 }"},
       reason::kFieldInvalid,
       "max_linger"},
      {"linger too long",
       watch,
       {main + "max_linger { seconds: 10 nanos: 1 }"},
       reason::kFieldInvalid,
       "max_linger"},
      {"progress too often",
       watch,
       {main + "progress_interval { nanos: 99999999 }"},
       reason::kFieldInvalid,
       "progress_interval"},
      {"negative progress",
       watch,
       {main + "progress_interval { seconds: -1 }"},
       reason::kFieldInvalid,
       "progress_interval"},
      {"in the future",
       watch,
       {main + "after_sequence: 1000000"},
       reason::kSequenceInFuture,
       "after_sequence"},
      {"largest number",
       watch,
       {main + "after_sequence: 18446744073709551615"},
       reason::kSequenceInFuture,
       "after_sequence"},
      {"another boot", watch, {main + "boot_id: 'another'"}, reason::kBootIdChanged, "boot_id"},
  };
}

std::vector<BadRequest> BadOpenRuns() {
  const std::string stream = "/pto.v1.RunService/StreamRun";
  const auto header = [](const std::string& rest) {
    return absl::StrCat("header { parent: 'sessions/main' run_id: 'open' ", rest, " }");
  };
  return {
      {"nothing", stream, {}, reason::kStreamEmpty, "header"},
      {"empty part", stream, {""}, reason::kFieldInvalid, "part"},
      {"segment first", stream, {"block { kernels: 'noop' }"}, reason::kStreamOrder, "block"},
      {"commit first", stream, {"commit { }"}, reason::kStreamOrder, "commit"},
      {"no parent", stream, {"header { run_id: 'open' }"}, reason::kNameInvalid, "header.parent"},
      {"no id",
       stream,
       {"header { parent: 'sessions/main' }"},
       reason::kIdInvalid,
       "header.run_id"},
      {"session unknown",
       stream,
       {"header { parent: 'sessions/nope' run_id: 'open' }"},
       reason::kSessionUnknown,
       ""},
      {"session ended",
       stream,
       {"header { parent: 'sessions/gone' run_id: 'open' }"},
       reason::kSessionEnded,
       ""},
      {"id of a run",
       stream,
       {"header { parent: 'sessions/main' run_id: 'kept-1' }"},
       reason::kRunIdUsed,
       "header.run_id"},
      {"id of a forgotten run",
       stream,
       {"header { parent: 'sessions/main' run_id: 'old' }"},
       reason::kRunIdUsed,
       "header.run_id"},
      {"negative wait",
       stream,
       {header("wait { seconds: -1 }")},
       reason::kFieldInvalid,
       "header.wait"},
      {"wait too long",
       stream,
       {header("wait { seconds: 3601 }")},
       reason::kFieldInvalid,
       "header.wait"},
      {"negative timeout",
       stream,
       {header("options { timeout { seconds: -1 } }")},
       reason::kFieldInvalid,
       "header.options.timeout"},
      {"level unknown",
       stream,
       {header("options { event_level: 77 }")},
       reason::kFieldInvalid,
       "header.options.event_level"},
  };
}

std::vector<BadRequest> BadRunRequests() {
  const std::string get = "/pto.v1.RunService/GetRun";
  const std::string wait = "/pto.v1.RunService/WaitRun";
  const std::string cancel = "/pto.v1.RunService/CancelRun";
  const std::string list = "/pto.v1.RunService/ListRuns";
  const std::string kept = "name: 'sessions/main/runs/kept-1' ";
  std::vector<BadRequest> rows = {
      {"negative timeout",
       wait,
       {kept + "timeout { seconds: -1 }"},
       reason::kFieldInvalid,
       "timeout"},
      {"timeout too long",
       wait,
       {kept + "timeout { seconds: 3601 }"},
       reason::kFieldInvalid,
       "timeout"},
      {"reason too long",
       cancel,
       {kept + LongText("reason", 1025)},
       reason::kFieldInvalid,
       "reason"},
      {"no parent", list, {""}, reason::kNameInvalid, "parent"},
      {"parent unknown", list, {"parent: 'sessions/nope'"}, reason::kSessionUnknown, ""},
      {"parent ended", list, {"parent: 'sessions/gone'"}, reason::kSessionEnded, ""},
      {"token without number",
       list,
       {"parent: 'sessions/-' page_token: 'cDI6TGlzdFJ1bnM6c2Vzc2lvbnMvLTp4'"},
       reason::kPageTokenInvalid,
       "page_token"},
      {"too many tasks",
       "/pto.v1.RunService/ExplainRun",
       {kept + "max_tasks: 1001"},
       reason::kFieldInvalid,
       "max_tasks"},
  };
  const std::string explain = "/pto.v1.RunService/ExplainRun";
  const std::string graph = "/pto.v1.RunService/GetRunGraph";
  rows.push_back({"tasks behind the last",
                  graph,
                  {kept + "first_task: 1000000"},
                  reason::kFieldInvalid,
                  "first_task"});
  rows.push_back({"too many tasks at once",
                  graph,
                  {kept + "max_tasks: 100001"},
                  reason::kFieldInvalid,
                  "max_tasks"});
  for (const std::string& method : {get, wait, cancel, explain, graph}) {
    const auto name = [](const std::string& text) { return "name: '" + text + "'"; };
    rows.push_back({"no name", method, {""}, reason::kNameInvalid, "name"});
    rows.push_back({"an id", method, {name("kept-1")}, reason::kNameInvalid, "name"});
    rows.push_back(
        {"too long", method, {name("sessions/main/runs/a/b")}, reason::kNameInvalid, "name"});
    rows.push_back({"bad id", method, {name("sessions/main/runs/_")}, reason::kIdInvalid, "name"});
    rows.push_back({"unknown", method, {name("sessions/main/runs/nope")}, reason::kRunUnknown, ""});
    rows.push_back({"of another session",
                    method,
                    {name("sessions/other/runs/kept-1")},
                    reason::kRunUnknown,
                    ""});
    rows.push_back(
        {"no longer kept", method, {name("sessions/main/runs/old")}, reason::kRunExpired, ""});
    rows.push_back(
        {"session unknown", method, {name("sessions/nope/runs/r")}, reason::kSessionUnknown, ""});
    rows.push_back(
        {"session ended", method, {name("sessions/gone/runs/r")}, reason::kSessionEnded, ""});
  }
  for (BadRequest& row : BadPages(list, "parent: 'sessions/main' ")) rows.push_back(row);
  return rows;
}

std::vector<BadRequest> BadLaunchRequests() {
  const std::string launch = "/pto.v1.RunService/LaunchGraph";
  const std::string remove = "/pto.v1.RunService/DeleteGraph";
  const std::string graph = "graph: 'sessions/main/graphs/g' ";
  const std::string bound = graph + "buffers { slot: 'out' buffer: 'a' } ";
  const auto slot = [&](const std::string& binding) {
    return absl::StrCat(graph, "buffers { slot: 'out' ", binding, " }");
  };
  const auto scalar = [&](const std::string& text) {
    return absl::StrCat(bound, "scalars { ", text, " }");
  };
  return {
      {"no graph", launch, {""}, reason::kNameInvalid, "graph"},
      {"an id", launch, {"graph: 'g'"}, reason::kNameInvalid, "graph"},
      {"bad id", launch, {"graph: 'sessions/main/graphs/G'"}, reason::kIdInvalid, "graph"},
      {"unknown", launch, {"graph: 'sessions/main/graphs/nope'"}, reason::kGraphUnknown, ""},
      {"of another session",
       launch,
       {"graph: 'sessions/other/graphs/g'"},
       reason::kGraphUnknown,
       ""},
      {"session unknown", launch, {"graph: 'sessions/nope/graphs/g'"}, reason::kSessionUnknown, ""},
      {"session ended", launch, {"graph: 'sessions/gone/graphs/g'"}, reason::kSessionEnded, ""},
      {"bad run id", launch, {bound + "run_id: '-'"}, reason::kIdInvalid, "run_id"},
      {"run id in use", launch, {bound + "run_id: 'kept-1'"}, reason::kIdConflict, "run_id"},
      {"run id used", launch, {bound + "run_id: 'old'"}, reason::kRunIdUsed, "run_id"},
      {"negative wait", launch, {bound + "wait { seconds: -1 }"}, reason::kFieldInvalid, "wait"},
      {"wait too long", launch, {bound + "wait { seconds: 3601 }"}, reason::kFieldInvalid, "wait"},
      {"negative timeout",
       launch,
       {bound + "options { timeout { seconds: -1 } }"},
       reason::kFieldInvalid,
       "options.timeout"},
      {"event level unknown",
       launch,
       {bound + "options { event_level: 99 }"},
       reason::kFieldInvalid,
       "options.event_level"},
      {"nothing bound", launch, {graph}, reason::kBufferUnknown, ""},
      {"no slot",
       launch,
       {graph + "buffers { buffer: 'a' }"},
       reason::kIdInvalid,
       "buffers[0].slot"},
      {"slot unknown",
       launch,
       {graph + "buffers { slot: 'in' buffer: 'a' }"},
       reason::kSlotUnknown,
       "buffers[0].slot"},
      {"no buffer", launch, {slot("")}, reason::kIdInvalid, "buffers[0].buffer"},
      {"bad buffer",
       launch,
       {slot("buffer: 'sessions/main/a'")},
       reason::kNameInvalid,
       "buffers[0].buffer"},
      {"buffer of another",
       launch,
       {slot("buffer: 'sessions/other/buffers/x'")},
       reason::kSessionMismatch,
       "buffers[0].buffer"},
      {"buffer unknown",
       launch,
       {slot("buffer: 'nope'")},
       reason::kBufferUnknown,
       "buffers[0].buffer"},
      {"buffer stale",
       launch,
       {slot("buffer: 'deleted'")},
       reason::kBufferUnknown,
       "buffers[0].buffer"},
      {"buffer elsewhere",
       launch,
       {slot("buffer: 'far'")},
       reason::kBufferOnOtherChip,
       "buffers[0].buffer"},
      {"slot bound twice",
       launch,
       {bound + "buffers { slot: 'out' buffer: 'a' }"},
       reason::kFieldInvalid,
       "buffers[1].slot"},
      {"offset not aligned",
       launch,
       {slot("buffer: 'a' offset_bytes: 63")},
       reason::kFieldInvalid,
       "buffers[0].offset_bytes"},
      {"offset too large",
       launch,
       {slot("buffer: 'a' offset_bytes: 64")},
       reason::kTensorOutOfBounds,
       "buffers[0].offset_bytes"},
      {"offset at the end",
       launch,
       {slot("buffer: 'a' offset_bytes: 4096")},
       reason::kTensorOutOfBounds,
       "buffers[0].offset_bytes"},
      {"offset overflows",
       launch,
       {slot("buffer: 'a' offset_bytes: 18446744073709551552")},
       reason::kTensorOutOfBounds,
       "buffers[0].offset_bytes"},
      {"scalar without name",
       launch,
       {scalar("value { f64: 1 }")},
       reason::kScalarUnknown,
       "scalars[0].name"},
      {"scalar unknown",
       launch,
       {scalar("name: 'nope' value { f64: 1 }")},
       reason::kScalarUnknown,
       "scalars[0].name"},
      {"scalar bound twice",
       launch,
       {scalar("name: 'us' value { f64: 1 } } scalars { name: 'us' value { f64: 2 }")},
       reason::kFieldInvalid,
       "scalars[1].name"},
      {"scalar without value",
       launch,
       {scalar("name: 'value'")},
       reason::kScalarInvalid,
       "scalars[0].value"},
      {"scalar refers",
       launch,
       {scalar("name: 'value' value { ref: 'us' }")},
       reason::kScalarInvalid,
       "scalars[0].value"},
      {"fraction for an integer",
       launch,
       {scalar("name: 'us' value { f64: 0.5 }")},
       reason::kScalarInvalid,
       "scalars[0].value"},
      {"too large for an integer",
       launch,
       {scalar("name: 'us' value { f64: 1e19 }")},
       reason::kScalarInvalid,
       "scalars[0].value"},
      {"no number for an integer",
       launch,
       {scalar("name: 'us' value { f64: nan }")},
       reason::kScalarInvalid,
       "scalars[0].value"},
      {"no name", remove, {""}, reason::kNameInvalid, "name"},
      {"other kind", remove, {"name: 'sessions/main/runs/g'"}, reason::kNameInvalid, "name"},
      {"unknown", remove, {"name: 'sessions/main/graphs/nope'"}, reason::kGraphUnknown, ""},
      {"session unknown",
       remove,
       {"name: 'sessions/nope/graphs/g' allow_missing: true"},
       reason::kSessionUnknown,
       ""},
      {"session ended", remove, {"name: 'sessions/gone/graphs/g'"}, reason::kSessionEnded, ""},
  };
}

}  // namespace pto::testing
