// Invalid requests: features of few tasks, and run options.

#include "absl/strings/str_cat.h"
#include "tests/integration/bad_request.h"

namespace pto::testing {
namespace {

constexpr char kSubmit[] = "/pto.v1.RunService/SubmitRun";
constexpr char kRegister[] = "/pto.v1.RunService/RegisterGraph";
constexpr char kLaunch[] = "/pto.v1.RunService/LaunchGraph";
constexpr char kSubmitPacked[] = "/pto.v1.RunService/SubmitPackedRun";
constexpr char kGetGraph[] = "/pto.v1.RunService/GetGraph";

// One task with tensors t (16 F32 of a), word (an I32 of b), wide (2 I32 of b), real (an F32 of
// b) and far (16 F32 on the other chip).
std::string WithTask(const std::string& task) {
  return absl::StrCat(R"(parent: 'sessions/main' graph {
                           tensors { name: 't' buffer: 'a' dtype: F32 shape: 16 }
                           tensors { name: 'word' buffer: 'b' dtype: I32 }
                           tensors { name: 'wide' buffer: 'b' dtype: I32 shape: 2 }
                           tensors { name: 'real' buffer: 'b' dtype: F32 }
                           tensors { name: 'far' dtype: F32 shape: 16 } tasks { )",
                      task, " } }");
}

BadRequest Bad(const std::string& what, const std::string& task, const Reason& reason,
               const std::string& field) {
  return {what, kSubmit, {WithTask(task)}, reason, "graph.tasks[0]." + field};
}

BadRequest BadNoop(const std::string& what, const std::string& rest, const Reason& reason,
                   const std::string& field) {
  return Bad(what, "kernel: 'noop' chip: 'chips/0' " + rest, reason, field);
}

// A task of the kernel `fill`, with one tensor and one scalar.
BadRequest BadFill(const std::string& what, const std::string& rest, const Reason& reason,
                   const std::string& field) {
  return Bad(what, "kernel: 'fill' scalars { f64: 1 } " + rest, reason, field);
}

std::vector<BadRequest> BadSpecDetails() {
  const std::string here = "members { chip: 'chips/0' args: 't' } ";
  return {
      // Gangs.
      BadNoop("more AIV than there are", "launch { block_num: 49 require_sync_start: true }",
              reason::kLaunchInvalid, "launch.block_num"),
      BadNoop("more AIC than there are",
              "launch { core: AIC block_num: 25 require_sync_start: true }", reason::kLaunchInvalid,
              "launch.block_num"),
      BadNoop("more clusters than there are",
              "launch { core: MIX block_num: 25 require_sync_start: true }", reason::kLaunchInvalid,
              "launch.block_num"),
      // Timeouts.
      BadNoop("negative time", "launch { timeout { seconds: -1 } }", reason::kFieldInvalid,
              "launch.timeout"),
      BadNoop("time of two signs", "launch { timeout { seconds: 1 nanos: -1 } }",
              reason::kFieldInvalid, "launch.timeout"),
      BadNoop("time malformed", "launch { timeout { nanos: 1000000000 } }", reason::kFieldInvalid,
              "launch.timeout"),
      BadNoop("time overflows", "launch { timeout { seconds: 9223372036854775807 } }",
              reason::kFieldInvalid, "launch.timeout"),
      // Kernels of the vector cores.
      BadNoop("vector kernel unknown", "launch { core: MIX vector_kernels: 'nope' }",
              reason::kKernelUnknown, "launch.vector_kernels[0]"),
      BadNoop("vector kernel empty", "launch { core: MIX vector_kernels: ['noop', ''] }",
              reason::kFieldInvalid, "launch.vector_kernels[1]"),
      BadNoop("three vector kernels",
              "launch { core: MIX vector_kernels: ['noop', 'noop', 'noop'] }",
              reason::kLaunchInvalid, "launch.vector_kernels"),
      BadNoop("vector kernel without a cluster", "launch { vector_kernels: 'noop' }",
              reason::kLaunchInvalid, "launch.vector_kernels"),
      BadNoop("vector kernel takes a tensor", "launch { core: MIX vector_kernels: 'copy' }",
              reason::kLaunchInvalid, "launch.vector_kernels[0]"),
      // Arguments without dependencies.
      BadNoop("no argument to order nothing", "no_dependency_args: 0", reason::kFieldInvalid,
              "no_dependency_args[0]"),
      BadFill("argument beyond", "chip: 'chips/0' args: 't' no_dependency_args: [0, 1]",
              reason::kFieldInvalid, "no_dependency_args[1]"),
      BadFill("largest argument", "chip: 'chips/0' args: 't' no_dependency_args: 4294967295",
              reason::kFieldInvalid, "no_dependency_args[0]"),
      // Predicates.
      BadNoop("predicate without tensor", "predicate { compare: EQ }", reason::kTensorUnknown,
              "predicate.tensor"),
      BadNoop("predicate of an unknown tensor", "predicate { tensor: 'x' compare: EQ }",
              reason::kTensorUnknown, "predicate.tensor"),
      BadNoop("predicate of two elements", "predicate { tensor: 'wide' compare: EQ }",
              reason::kArgumentInvalid, "predicate.tensor"),
      BadNoop("predicate of a float", "predicate { tensor: 'real' compare: EQ }",
              reason::kDtypeUnsupported, "predicate.tensor"),
      BadNoop("predicate without comparison", "predicate { tensor: 'word' }", reason::kFieldInvalid,
              "predicate.compare"),
      BadNoop("comparison unknown", "predicate { tensor: 'word' compare: 7 }",
              reason::kFieldInvalid, "predicate.compare"),
      BadNoop("comparison negative", "predicate { tensor: 'word' compare: -1 }",
              reason::kFieldInvalid, "predicate.compare"),
      // Members.
      BadFill("chip beside members", "chip: 'chips/0' " + here, reason::kFieldInvalid, "chip"),
      BadFill("arguments beside members", "args: 't' " + here, reason::kFieldInvalid, "args"),
      BadFill("member without chip", "members { args: 't' }", reason::kNameInvalid,
              "members[0].chip"),
      BadFill("member on an unknown chip", here + "members { chip: 'chips/2' args: 'far' }",
              reason::kChipUnknown, "members[1].chip"),
      BadFill("member on no chip", "members { chip: 'chip' args: 't' }", reason::kNameInvalid,
              "members[0].chip"),
      BadFill("two members on one chip", here + here, reason::kLaunchInvalid, "members[1].chip"),
      BadFill("member without argument", here + "members { chip: 'chips/1' }",
              reason::kArgumentCount, "members[1].args"),
      BadFill("member with an unknown tensor", here + "members { chip: 'chips/1' args: 'x' }",
              reason::kTensorUnknown, "members[1].args[0]"),
      BadFill("member with a tensor of another", here + "members { chip: 'chips/1' args: 't' }",
              reason::kBufferOnOtherChip, "members[1].args[0]"),
      BadFill("members with too many blocks",
              here + "members { chip: 'chips/1' args: 'far' } launch { block_num: 49 }",
              reason::kLaunchInvalid, "launch.block_num"),
      // Enum values as scalars.
      Bad("no comparison", "kernel: 'spin' chip: 'chips/0' scalars { compare: 0 }",
          reason::kScalarInvalid, "scalars[0].compare"),
      Bad("comparison unknown", "kernel: 'spin' chip: 'chips/0' scalars { compare: 99 }",
          reason::kScalarInvalid, "scalars[0].compare"),
      Bad("no operation", "kernel: 'spin' chip: 'chips/0' scalars { op: 0 }",
          reason::kScalarInvalid, "scalars[0].op"),
      Bad("operation unknown", "kernel: 'spin' chip: 'chips/0' scalars { op: 3 }",
          reason::kScalarInvalid, "scalars[0].op"),
      {"bound to no comparison",
       kLaunch,
       {"graph: 'sessions/main/graphs/g' buffers { slot: 'out' buffer: 'a' } "
        "scalars { name: 'us' value { compare: 7 } }"},
       reason::kScalarInvalid,
       "scalars[0].value.compare"},
      {"kept with a bad member",
       kRegister,
       {"parent: 'sessions/other' graph_id: 'g2' "
        "graph { tasks { kernel: 'noop' members { chip: 'chips/9' } } }"},
       reason::kChipUnknown,
       "graph.tasks[0].members[0].chip"},
  };
}

// Two tasks in columns, the second with `extra`.
BadRequest BadExtra(const std::string& what, const std::string& columns, const std::string& extra,
                    const Reason& reason, const std::string& field) {
  return {what,
          kSubmitPacked,
          {"header { parent: 'sessions/main' kernels: ['noop', 'copy'] "
           "chips: ['chips/0', 'chips/1'] buffers: ['a', 'far'] "
           "layouts { dtype: F32 shape: 16 } layouts { dtype: I64 } }",
           "tensors { buffer: [0, 1, 0] layout: [0, 0, 1] offset_delta: [0, 0, 0] }",
           absl::StrCat("tasks { ", columns, " extras { row: 1 ", extra, " } }")},
          reason,
          "tasks[block 0]." + field};
}

BadRequest BadHeader(const std::string& what, const std::string& launch, const std::string& field,
                     const Reason& reason = reason::kFieldInvalid) {
  return {what,
          kSubmitPacked,
          {absl::StrCat("header { parent: 'sessions/main' kernels: 'noop' chips: 'chips/0' "
                        "launches { ",
                        launch, " } }"),
           "tasks { kernel: 0 }"},
          reason,
          "header.launches[0]." + field};
}

std::vector<BadRequest> BadPackedDetails() {
  const std::string two = "kernel: [0, 0]";
  return {
      BadHeader("negative time", "timeout { nanos: -1 }", "timeout"),
      BadHeader("vector kernel empty", "core: MIX vector_kernels: ''", "vector_kernels[0]"),
      BadHeader("vector kernel unknown", "core: MIX vector_kernels: 'nope'", "vector_kernels[0]",
                reason::kKernelUnknown),
      BadHeader("vector kernel without a cluster", "vector_kernels: 'noop'", "vector_kernels",
                reason::kLaunchInvalid),
      BadHeader("vector kernel takes a tensor", "core: MIX vector_kernels: 'copy'",
                "vector_kernels[0]", reason::kLaunchInvalid),
      BadExtra("row beyond", "kernel: 0", "", reason::kBlockInvalid, "extras[0].row"),
      BadExtra("row twice", two, "} extras { row: 1", reason::kBlockInvalid, "extras[1].row"),
      BadExtra("rows fall", two, "} extras { row: 0", reason::kBlockInvalid, "extras[1].row"),
      BadExtra("predicate of an unknown tensor", two, "predicate { tensor: 3 compare: EQ }",
               reason::kBlockInvalid, "extras[0].predicate.tensor"),
      BadExtra("predicate of many elements", two, "predicate { tensor: 0 compare: EQ }",
               reason::kArgumentInvalid, "extras[0].predicate.tensor"),
      BadExtra("predicate without comparison", two, "predicate { tensor: 2 }",
               reason::kFieldInvalid, "extras[0].predicate.compare"),
      BadExtra("mask beyond", two, "no_dependency_mask: 1", reason::kBlockInvalid,
               "extras[0].no_dependency_mask"),
      BadExtra("largest mask", two, "no_dependency_mask: 4294967295", reason::kBlockInvalid,
               "extras[0].no_dependency_mask"),
      BadExtra("member on an unknown chip", two, "members { chip: 2 }", reason::kBlockInvalid,
               "extras[0].members[0].chip"),
      BadExtra("two members on one chip", two, "members { } members { }", reason::kLaunchInvalid,
               "extras[0].members[1].chip"),
      BadExtra("member with an unknown tensor", two, "members { args: 3 }", reason::kBlockInvalid,
               "extras[0].members[0].args[0]"),
      BadExtra("member without argument", "kernel: [0, 1]", "members { args: 0 }",
               reason::kArgumentCount, "extras[0].members[0].args"),
      BadExtra("member with a tensor of another", "kernel: [0, 1]",
               "members { args: [0, 0] } members { chip: 1 args: [1, 0] }",
               reason::kBufferOnOtherChip, "extras[0].members[1].args[1]"),
      BadExtra("chip beside members", two + " chip: [0, 1]", "members { }", reason::kBlockInvalid,
               "chip[1]"),
      BadExtra("arguments beside members", "kernel: [0, 1] arg_delta: [0, 0]",
               "members { args: [0, 0] }", reason::kBlockInvalid, "arg_delta[0]"),
  };
}

// Invalid options, by path, for all requests that take them.
std::vector<BadRequest> BadOptions() {
  const std::pair<std::string, std::string> wrong[] = {
      {"timeout { seconds: 31536001 }", "timeout"},
      {"queue_timeout { seconds: -1 }", "queue_timeout"},
      {"queue_timeout { seconds: 9223372036854775807 }", "queue_timeout"},
      {"task_timeout { nanos: -1 }", "task_timeout"},
      {"task_timeout { nanos: 1000000000 }", "task_timeout"},
      {"wait_timeout { seconds: -9223372036854775808 }", "wait_timeout"},
      {"wait_timeout { seconds: -1 nanos: 1 }", "wait_timeout"},
      // Timeouts must fit into the one that contains them.
      {"timeout { seconds: 1 } queue_timeout { seconds: 1 nanos: 1 }", "queue_timeout"},
      {"timeout { seconds: 1 } task_timeout { seconds: 2 }", "task_timeout"},
      {"timeout { seconds: 1 } wait_timeout { seconds: 2 }", "wait_timeout"},
      {"task_timeout { seconds: 1 } wait_timeout { seconds: 2 }", "wait_timeout"},
      {"priority: 4", "priority"},
      {"priority: -1", "priority"},
  };
  std::vector<BadRequest> rows;
  for (const auto& [options, field] : wrong) {
    const std::string text = "options { " + options + " } ";
    rows.push_back({options,
                    kSubmit,
                    {WithTask("kernel: 'noop' chip: 'chips/0'") + text},
                    reason::kFieldInvalid,
                    "options." + field});
    rows.push_back({options,
                    kLaunch,
                    {"graph: 'sessions/main/graphs/g' buffers { slot: 'out' buffer: 'a' } " + text},
                    reason::kFieldInvalid,
                    "options." + field});
    rows.push_back(
        {options,
         kSubmitPacked,
         {"header { parent: 'sessions/main' kernels: 'noop' chips: 'chips/0' " + text + "}"},
         reason::kFieldInvalid,
         "header.options." + field});
  }
  // A task's timeout must not exceed that of its run.
  const std::string short_run = " options { timeout { seconds: 1 } }";
  rows.push_back(
      {"task longer than its run",
       kSubmit,
       {WithTask("kernel: 'noop' chip: 'chips/0' launch { timeout { seconds: 2 } }") + short_run},
       reason::kFieldInvalid,
       "options.timeout"});
  rows.push_back({"task longer than its run",
                  kSubmitPacked,
                  {"header { parent: 'sessions/main' kernels: 'noop' chips: 'chips/0' "
                   "launches { timeout { seconds: 2 } }" +
                       short_run + " }",
                   "tasks { kernel: 0 }", "commit { task_count: 1 }"},
                  reason::kFieldInvalid,
                  "header.options.timeout"});
  return rows;
}

std::vector<BadRequest> BadGetGraphs() {
  const auto get = [](const std::string& what, const std::string& text, const Reason& reason,
                      const std::string& field) {
    return BadRequest{what, kGetGraph, {text}, reason, field};
  };
  const std::string g = "name: 'sessions/main/graphs/g' view: STRUCTURE ";
  return {
      get("no name", "", reason::kNameInvalid, "name"),
      get("other kind", "name: 'sessions/main/runs/g'", reason::kNameInvalid, "name"),
      get("bad id", "name: 'sessions/main/graphs/G'", reason::kIdInvalid, "name"),
      get("unknown", "name: 'sessions/main/graphs/nope'", reason::kGraphUnknown, ""),
      get("of another session", "name: 'sessions/other/graphs/g'", reason::kGraphUnknown, ""),
      get("session unknown", "name: 'sessions/nope/graphs/g'", reason::kSessionUnknown, ""),
      get("session ended", "name: 'sessions/gone/graphs/g'", reason::kSessionEnded, ""),
      get("view unknown", "name: 'sessions/main/graphs/g' view: 3", reason::kFieldInvalid, "view"),
      get("page beyond", g + "first_task: 3", reason::kFieldInvalid, "first_task"),
      get("page far beyond", g + "first_task: 18446744073709551615", reason::kFieldInvalid,
          "first_task"),
      get("page too large", g + "max_tasks: 100001", reason::kFieldInvalid, "max_tasks"),
  };
}

}  // namespace

std::vector<BadRequest> BadDetails() {
  std::vector<BadRequest> rows;
  for (const auto& more : {BadSpecDetails(), BadPackedDetails(), BadOptions(), BadGetGraphs()}) {
    rows.insert(rows.end(), more.begin(), more.end());
  }
  return rows;
}

std::vector<BadRequest> BadControlTasks() {
  const std::string notify = "kernel: 'notify' args: 'word' ";
  const std::string wait = "kernel: 'wait' args: 'word' ";
  const std::string value = "scalars { i64: 1 } ";
  return {
      Bad("chip unknown", "kernel: 'join' chip: 'chips/2'", reason::kChipUnknown, "chip"),
      Bad("a core for a join", "kernel: 'join' launch { core: AIV }", reason::kLaunchInvalid,
          "launch.core"),
      Bad("blocks of a join", "kernel: 'join' launch { block_num: 2 }", reason::kLaunchInvalid,
          "launch.block_num"),
      Bad("a gang of a join", "kernel: 'join' launch { require_sync_start: true }",
          reason::kLaunchInvalid, "launch.require_sync_start"),
      Bad("members of a join", "kernel: 'join' members { chip: 'chips/0' }", reason::kLaunchInvalid,
          "members"),
      Bad("vector kernels of a join", "kernel: 'join' launch { vector_kernels: 'noop' }",
          reason::kLaunchInvalid, "launch.vector_kernels"),
      Bad("a join as vector kernel",
          "kernel: 'noop' chip: 'chips/0' launch { core: MIX vector_kernels: 'join' }",
          reason::kLaunchInvalid, "launch.vector_kernels[0]"),
      Bad("a float as signal", "kernel: 'notify' args: 'real' scalars { op: ADD } " + value,
          reason::kDtypeUnsupported, "args[0]"),
      Bad("no way to notify", notify + "scalars { i64: 3 } " + value, reason::kScalarInvalid,
          "scalars[0]"),
      Bad("no way to compare", wait + "scalars { i64: 0 } " + value + value, reason::kScalarInvalid,
          "scalars[0]"),
      Bad("negative time to wait",
          wait + "scalars { compare: GE } " + value + "scalars { i64: -1 }", reason::kScalarInvalid,
          "scalars[2]"),
      Bad("too few scalars", wait + "scalars { compare: GE }", reason::kScalarCount, "scalars"),
      Bad("copy of another shape", "kernel: 'copy_async' args: ['t', 'real']",
          reason::kArgumentInvalid, "args"),
  };
}

}  // namespace pto::testing
