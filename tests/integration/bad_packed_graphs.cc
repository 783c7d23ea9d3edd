// Invalid graphs in columns.

#include "absl/strings/str_cat.h"
#include "tests/integration/bad_request.h"

namespace pto::testing {
namespace {

constexpr char kSubmit[] = "/pto.v1.RunService/SubmitPackedRun";
constexpr char kRegister[] = "/pto.v1.RunService/RegisterPackedGraph";

// The base of the rows below: kernels noop, copy and spin; chip 0; buffers a and b; one layout.
constexpr char kRest[] =
    "kernels: ['noop', 'copy', 'spin'] chips: 'chips/0' buffers: ['a', 'b'] "
    "layouts { dtype: F32 shape: 16 } ";

std::string Header(const std::string& more = "") {
  return absl::StrCat("header { parent: 'sessions/main' ", kRest, more, " }");
}

std::string Tensors(const std::string& columns) {
  return absl::StrCat("tensors { ", columns, " }");
}
std::string Tasks(const std::string& columns) { return absl::StrCat("tasks { ", columns, " }"); }
std::string Commit(int tasks) { return absl::StrCat("commit { task_count: ", tasks, " }"); }

std::string Repeated(const std::string& column, int count, const std::string& value) {
  std::string text;
  for (int i = 0; i < count; ++i) absl::StrAppend(&text, column, ": ", value, " ");
  return text;
}

// Valid columns for `count` tensors.
std::string Views(int count) {
  return absl::StrCat(Repeated("buffer", count, "0"), Repeated("layout", count, "0"),
                      Repeated("offset_delta", count, "0"));
}

std::vector<BadRequest> BadStreams() {
  const std::string noop = Tasks("kernel: 0");
  return {
      {"nothing", kSubmit, {}, reason::kStreamEmpty, "header"},
      {"empty part", kSubmit, {""}, reason::kFieldInvalid, "part"},
      {"tensors first", kSubmit, {Tensors("")}, reason::kStreamOrder, "tensors"},
      {"tasks first", kSubmit, {noop}, reason::kStreamOrder, "tasks"},
      {"commit first", kSubmit, {Commit(0)}, reason::kStreamOrder, "commit"},
      {"two headers", kSubmit, {Header(), Header()}, reason::kStreamOrder, "header"},
      {"no commit", kSubmit, {Header(), noop}, reason::kStreamEmpty, "commit"},
      {"after the commit",
       kSubmit,
       {Header(), noop, Commit(1), Commit(1)},
       reason::kStreamOrder,
       "commit"},
      {"commit miscounts",
       kSubmit,
       {Header(), noop, Commit(2)},
       reason::kBlockInvalid,
       "commit.task_count"},
      {"no task", kSubmit, {Header(), Commit(0)}, reason::kGraphEmpty, "tasks"},
      {"nothing", kRegister, {}, reason::kStreamEmpty, "header"},
      {"no id", kRegister, {Header()}, reason::kIdInvalid, "header.id"},
      {"run options",
       kRegister,
       {Header("id: 'n' options { }")},
       reason::kFieldInvalid,
       "header.options"},
      {"one too many", kRegister, {Header("id: 'n'"), noop, Commit(1)}, reason::kGraphLimit, ""},
      {"other contents",
       kRegister,
       {Header("id: 'g'"), noop, Commit(1)},
       reason::kIdConflict,
       "header.id"},
  };
}

std::vector<BadRequest> BadHeaders() {
  const auto header = [](const std::string& text) {
    return absl::StrCat("header { parent: 'sessions/main' ", text, " }");
  };
  return {
      {"no parent",
       kSubmit,
       {absl::StrCat("header { ", kRest, " }")},
       reason::kNameInvalid,
       "header.parent"},
      {"parent unknown",
       kSubmit,
       {absl::StrCat("header { parent: 'sessions/nope' ", kRest, " }")},
       reason::kSessionUnknown,
       ""},
      {"parent ended",
       kSubmit,
       {absl::StrCat("header { parent: 'sessions/gone' ", kRest, " }")},
       reason::kSessionEnded,
       ""},
      {"bad id", kSubmit, {Header("id: 'A'")}, reason::kIdInvalid, "header.id"},
      {"id in use",
       kSubmit,
       {Header("id: 'kept-1'"), Tasks("kernel: 0"), Commit(1)},
       reason::kIdConflict,
       "header.id"},
      {"id used",
       kSubmit,
       {Header("id: 'old'"), Tasks("kernel: 0"), Commit(1)},
       reason::kRunIdUsed,
       "header.id"},
      {"negative timeout",
       kSubmit,
       {Header("options { timeout { seconds: -1 } }")},
       reason::kFieldInvalid,
       "header.options.timeout"},
      {"empty kernel",
       kSubmit,
       {header("chips: 'chips/0' kernels: ''")},
       reason::kFieldInvalid,
       "header.kernels[0]"},
      {"kernel unknown",
       kSubmit,
       {header("chips: 'chips/0' kernels: 'x'")},
       reason::kKernelUnknown,
       "header.kernels[0]"},
      {"no chip", kSubmit, {header("kernels: 'noop'")}, reason::kFieldInvalid, "header.chips"},
      {"bad chip", kSubmit, {header("chips: '0'")}, reason::kNameInvalid, "header.chips[0]"},
      {"chip unknown",
       kSubmit,
       {header("chips: ['chips/1', 'chips/2']")},
       reason::kChipUnknown,
       "header.chips[1]"},
      {"bad buffer",
       kSubmit,
       {header("chips: 'chips/0' buffers: ''")},
       reason::kIdInvalid,
       "header.buffers[0]"},
      {"buffer of another session",
       kSubmit,
       {header("chips: 'chips/0' buffers: 'sessions/other/buffers/x'")},
       reason::kSessionMismatch,
       "header.buffers[0]"},
      {"no type",
       kSubmit,
       {header("chips: 'chips/0' layouts { shape: 1 }")},
       reason::kTensorInvalid,
       "header.layouts[0].dtype"},
      {"negative size",
       kSubmit,
       {header("chips: 'chips/0' layouts { dtype: F32 shape: -1 }")},
       reason::kTensorInvalid,
       "header.layouts[0].shape[0]"},
      {"core unknown",
       kSubmit,
       {Header("launches { core: 77 }")},
       reason::kLaunchInvalid,
       "header.launches[0].core"},
  };
}

std::vector<BadRequest> BadTensorBlocks() {
  const auto tensors = [](const std::string& columns) {
    return std::vector<std::string>{Header(), Tensors(columns)};
  };
  const std::string t = "tensors[block 0].";
  return {
      {"layouts missing", kSubmit, tensors("buffer: 0 offset_delta: 0"), reason::kBlockInvalid,
       t + "layout"},
      {"offsets missing", kSubmit, tensors("buffer: 0 layout: 0"), reason::kBlockInvalid,
       t + "offset_delta"},
      {"buffer beyond", kSubmit, tensors("buffer: [0, 2] layout: [0, 0] offset_delta: [0, 0]"),
       reason::kBlockInvalid, t + "buffer[1]"},
      {"layout beyond", kSubmit, tensors("buffer: 0 layout: 1 offset_delta: 0"),
       reason::kBlockInvalid, t + "layout[0]"},
      {"negative offset", kSubmit, tensors("buffer: [0, 0] layout: [0, 0] offset_delta: [1, -2]"),
       reason::kTensorInvalid, t + "offset_delta[1]"},
      {"offset overflows", kSubmit,
       tensors("buffer: [0, 0] layout: [0, 0] "
               "offset_delta: [72057594037927936, 9223372036854775807]"),
       reason::kBlockInvalid, t + "offset_delta[1]"},
      {"beyond the buffer",
       kSubmit,
       {Header(), Tensors("buffer: 0 layout: 0 offset_delta: 1009"),
        Tasks("kernel: 1 arg_delta: [0, 0]"), Commit(1)},
       reason::kTensorOutOfBounds,
       ""},
  };
}

std::vector<BadRequest> BadTaskBlocks() {
  const auto tasks = [](const std::string& columns) {
    return std::vector<std::string>{Header(), Tensors("buffer: 0 layout: 0 offset_delta: 0"),
                                    Tasks(columns)};
  };
  const std::string t = "tasks[block 0].";
  return {
      {"too many in a chunk", kSubmit, tasks(Repeated("kernel", 81, "0")), reason::kBlockInvalid,
       t + "kernel"},
      {"too many in all",
       kSubmit,
       {Header(), Tasks(Repeated("kernel", 80, "0")),
        Tasks("first_task: 80 " + Repeated("kernel", 21, "0"))},
       reason::kGraphTooLarge,
       "tasks[block 1].kernel"},
      {"too many edges in all",
       kSubmit,
       {Header(), Tasks("kernel: [0, 0] dep_count: [0, 150] " + Repeated("dep_back", 150, "1")),
        Tasks("first_task: 2 kernel: 0 dep_count: 51 " + Repeated("dep_back", 51, "1"))},
       reason::kGraphTooLarge,
       "tasks[block 1].dep_back"},
      {"too many tensors in all",
       kSubmit,
       {Header(), Tensors(Views(30)), Tensors(Views(21))},
       reason::kGraphTooLarge,
       "tensors[block 1].buffer"},
      {"first task wrong", kSubmit, tasks("first_task: 1 kernel: 0"), reason::kBlockInvalid,
       t + "first_task"},
      {"chips missing", kSubmit, tasks("kernel: [0, 0] chip: 0"), reason::kBlockInvalid,
       t + "chip"},
      {"launches missing", kSubmit, tasks("kernel: [0, 0] launch: 0"), reason::kBlockInvalid,
       t + "launch"},
      {"counts missing", kSubmit, tasks("kernel: [0, 0] dep_count: 0"), reason::kBlockInvalid,
       t + "dep_count"},
      {"kernel beyond", kSubmit, tasks("kernel: 3"), reason::kBlockInvalid, t + "kernel[0]"},
      {"chip beyond", kSubmit, tasks("kernel: 0 chip: 1"), reason::kBlockInvalid, t + "chip[0]"},
      {"launch beyond", kSubmit, tasks("kernel: 0 launch: 1"), reason::kBlockInvalid,
       t + "launch[0]"},
      {"argument missing", kSubmit, tasks("kernel: 1 arg_delta: 0"), reason::kBlockInvalid,
       t + "arg_delta[1]"},
      {"argument beyond", kSubmit, tasks("kernel: 1 arg_delta: [0, 1]"), reason::kBlockInvalid,
       t + "arg_delta[1]"},
      {"argument negative", kSubmit, tasks("kernel: 1 arg_delta: [0, -1]"), reason::kBlockInvalid,
       t + "arg_delta[1]"},
      {"argument overflows", kSubmit,
       tasks("kernel: 1 arg_delta: [9223372036854775807, 9223372036854775807]"),
       reason::kBlockInvalid, t + "arg_delta[0]"},
      {"scalar missing", kSubmit, tasks("kernel: 2"), reason::kBlockInvalid, t + "scalar[0]"},
      {"dependency missing", kSubmit, tasks("kernel: 0 dep_count: 4294967295"),
       reason::kBlockInvalid, t + "dep_count[0]"},
      {"waits for itself", kSubmit, tasks("kernel: [0, 0] dep_count: [0, 1] dep_back: 0"),
       reason::kBlockInvalid, t + "dep_back[0]"},
      {"waits for none", kSubmit, tasks("kernel: [0, 0] dep_count: [0, 1] dep_back: 2"),
       reason::kBlockInvalid, t + "dep_back[0]"},
      {"arguments left over", kSubmit, tasks("kernel: 0 arg_delta: 0"), reason::kBlockInvalid,
       t + "arg_delta[0]"},
      {"scalars left over", kSubmit, tasks("kernel: 0 scalar: 0"), reason::kBlockInvalid,
       t + "scalar[0]"},
      {"dependencies left over", kSubmit, tasks("kernel: [0, 0] dep_back: 1"),
       reason::kBlockInvalid, t + "dep_back[0]"},
      {"chunks together",
       kSubmit,
       {Header("launches { block_num: 49 require_sync_start: true }"), Tasks("kernel: 0")},
       reason::kLaunchInvalid,
       "header.launches[0].block_num"},
  };
}

}  // namespace

std::vector<BadRequest> BadPackedGraphs() {
  std::vector<BadRequest> rows = BadStreams();
  for (const auto& more : {BadHeaders(), BadTensorBlocks(), BadTaskBlocks()}) {
    rows.insert(rows.end(), more.begin(), more.end());
  }
  return rows;
}

}  // namespace pto::testing
