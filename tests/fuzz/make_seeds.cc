// make_seeds DIRECTORY JOB...: writes the initial inputs of all fuzz targets, from what clients
// really send: graphs of the client library's builder, the given job files, and messages of the
// broker's clients. Overwrites existing files only if they have the same name.

#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"
#include "client/graph_builder.h"
#include "client/job/job_file.h"
#include "client/job/npy.h"
#include "client/job/prepared_job.h"
#include "client/job/read_file.h"
#include "google/protobuf/text_format.h"
#include "google/protobuf/util/json_util.h"
#include "proto/broker/message.h"
#include "runtime/base/log.h"
#include "tests/fuzz/packed_graph.pb.h"

namespace pto::fuzz {
namespace {

class Directory {
 public:
  explicit Directory(std::filesystem::path path) : path_(std::move(path)) {
    std::filesystem::create_directories(path_);
  }
  void Write(const std::string& name, absl::string_view bytes) const {
    std::ofstream file(path_ / name, std::ios::binary);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    PTO_CHECK(file.good(), absl::StrCat("cannot write ", name));
    std::cout << (path_ / name).string() << ": " << bytes.size() << " bytes\n";
  }

 private:
  const std::filesystem::path path_;
};

// ---- graphs

void Arithmetic(GraphBuilder& g) {
  const TensorRef a = g.Tensor("a", "a", v1::F32, {4, 4});
  const TensorRef b = g.Tensor("b", "b", v1::F32, {4, 4});
  const TensorRef c = g.Tensor("c", "c", v1::F32, {4, 4});
  const TensorRef half = g.Tensor("half", "c", v1::F32, {2, 4}, {}, 8);
  const TensorRef column = g.Tensor("column", "c", v1::F32, {4, 1}, {4, 1}, 2);
  const TensorRef sum = g.Tensor("sum", "sum", v1::F32, {1});
  const TensorRef whole = g.Tensor("whole", "whole", v1::I64, {16});
  const TensorRef count = g.Tensor("count", "count", v1::I64, {1});
  g.Task("iota", 0, {a}).Scalar(1.0).Scalar(0.5).Name("first");
  g.Task("fill", 0, {b}).Scalar(2.0).Blocks(2);
  g.Task("matmul", 0, {a, b, c}).Core(v1::AIC).Blocks(4);
  g.Task("add", 0, {a, b, c});
  g.Task("axpy", 0, {a, c}).Scalar(-1.0);
  g.Task("scale", 0, {half, half}).Scalar(3.0).Timeout(absl::Seconds(5));
  g.Task("copy", 0, {column, column});
  g.Task("reduce_sum", 0, {c, sum});
  g.Task("fill", 0, {whole}).Scalar(7.0);
  g.Task("compare", 0, {a, b, count}).Scalar(0.1);
}

void Launches(GraphBuilder& g) {
  const TensorRef a = g.Tensor("a", "a", v1::F32, {8});
  const TensorRef b = g.Tensor("b", "b", v1::F32, {8});
  const TensorRef c = g.Tensor("c", "c", v1::F32, {8});
  g.Task("add", 0, {a, b, c}).Core(v1::MIX).VectorKernels({"sub", "mul"}).Blocks(2);
  g.Task("add", 0, {a, b, c}).SyncStart().Blocks(4);
  g.Task("noop", 2, {}).Core(v1::AIC).Blocks(9);
  g.Task("fail", 1, {}).Scalar(0);
}

void Control(GraphBuilder& g) {
  const TensorRef near = g.Tensor("near", "near", v1::F32, {8});
  const TensorRef far = g.Tensor("far", "domains/d/ranks/1/buffers/x", v1::F32, {8});
  const TensorRef signal = g.Tensor("signal", "domains/d/ranks/1/signals", v1::I64, {1});
  const TensorRef flag = g.Tensor("flag", "flag", v1::I32, {1});
  const TensorRef token = g.Tensor("token", "token", v1::I32, {1});
  g.Task("fill", 0, {near}).Scalar(1.5).Name("make");
  const TaskRef sent = g.Copy(far, near);
  g.Notify(signal, 1, v1::ADD).After(sent);
  const TaskRef heard = g.WaitFor(signal, v1::GE, 1, absl::Milliseconds(20));
  g.WaitFor(signal, token, v1::NE, 0, absl::Seconds(1));
  g.Task("fill", 1, {far}).Scalar(2.0).After(heard).If(flag, v1::EQ, 0);
  g.Task("fill", 1, {far}).Scalar(3.0).NoDependency(0).If(flag, v1::LT, 0);
  const TaskRef end = g.Join({heard});
  g.Task("hold", 1, {flag}).Scalar(0).After(end);
}

void Groups(GraphBuilder& g) {
  std::vector<TensorRef> in, out, wide;
  for (int chip = 0; chip < 3; ++chip) {
    in.push_back(g.Tensor(absl::StrCat("in-", chip), "", v1::F32, {6}));
    out.push_back(g.Tensor(absl::StrCat("out-", chip), "", v1::F32, {6}));
    wide.push_back(g.Tensor(absl::StrCat("wide-", chip), "", v1::F32, {18}));
  }
  const auto members = [](const std::vector<TensorRef>& a, const std::vector<TensorRef>& b) {
    return std::vector<GroupMember>{{0, {a[0], b[0]}}, {1, {a[1], b[1]}}, {2, {a[2], b[2]}}};
  };
  g.Group("fill", {{0, {in[0]}}, {2, {in[2]}}}).Scalar(2.0);
  g.Group("all_reduce", members(in, out)).Scalar(1).Scalar(0).Scalar(0);
  g.Group("all_reduce", members(in, out)).Scalar(2).Scalar(3).Scalar(1);
  g.Group("all_gather", members(in, wide));
  g.Group("reduce_scatter", members(wide, in)).Scalar(1);
  g.Group("broadcast", members(in, out)).Scalar(1);
  g.Group("all_to_all", members(in, out));
}

void Rows(GraphBuilder& g) {
  const TensorRef in = g.Tensor("in", "in", v1::F16, {4, 3});
  const TensorRef index = g.Tensor("index", "index", v1::I32, {2});
  const TensorRef weight = g.Tensor("weight", "weight", v1::F32, {4});
  const TensorRef out = g.Tensor("out", "out", v1::F16, {2, 3});
  const TensorRef again = g.Tensor("again", "again", v1::F16, {4, 3});
  g.ExplicitDependenciesOnly();
  const TaskRef first = g.Task("take_rows", 0, {in, index, out});
  g.Task("scale_rows", 0, {in, weight, again}).After(first);
  for (int i = 0; i < 20; ++i) g.Task("noop", 0, {}).After(first);
}

void NamedScalars(GraphBuilder& g) {
  const ScalarRef factor = g.Scalar("factor", 2.5);
  const ScalarRef code = g.Scalar("code", 0);
  const TensorRef a = g.Tensor("a", "sessions/s/buffers/a", v1::F64, {3});
  g.Task("kernels/scale", 0, {a, a}).Scalar(factor);
  g.Task("fail", 0, {}).Scalar(code);
}

void Domains(GraphBuilder& g) {
  g.Task("ranked", 0, {}).Domain("d").Scalar(1);
  g.Task("ranked", 1, {}).Domain("sessions/s/domains/d").Scalar(-1);
  g.Task("ranked", 2, {}).Domain("e").Scalar(7);
}

// The same as an open run: lists and tensors first, then one message for each chunk of tasks.
void AddSegments(const std::vector<v1::PackedGraphPart>& parts, PackedGraphInput* input) {
  const v1::PackedHeader& header = parts[0].header();
  v1::StreamRunBlock& first = *input->add_blocks();
  *first.mutable_kernels() = header.kernels();
  *first.mutable_chips() = header.chips();
  *first.mutable_buffers() = header.buffers();
  *first.mutable_domains() = header.domains();
  *first.mutable_layouts() = header.layouts();
  *first.mutable_launches() = header.launches();
  for (const v1::PackedGraphPart& part : parts) {
    if (part.has_tensors()) *input->add_blocks()->mutable_tensors() = part.tensors();
    if (part.has_tasks()) *input->add_blocks()->mutable_tasks() = part.tasks();
  }
}

void WriteGraphs(const Directory& specs, const Directory& packed) {
  const std::pair<const char*, std::function<void(GraphBuilder&)>> graphs[] = {
      {"arithmetic", Arithmetic}, {"launches", Launches}, {"control", Control},
      {"groups", Groups},         {"rows", Rows},         {"named_scalars", NamedScalars},
      {"domains", Domains}};
  for (const auto& [name, fill] : graphs) {
    GraphBuilder builder;
    fill(builder);
    PTO_CHECK(builder.status().ok(), std::string(builder.status().message()));
    specs.Write(name, builder.Build().value().SerializeAsString());
    absl::StatusOr<std::vector<v1::PackedGraphPart>> parts = builder.BuildPacked(3);
    if (!parts.ok()) continue;  // named scalars have no packed form
    (*parts)[0].mutable_header()->set_parent("sessions/s");
    PackedGraphInput graph, run;
    for (const v1::PackedGraphPart& part : *parts) *graph.add_parts() = part;
    AddSegments(*parts, &run);
    packed.Write(name, graph.SerializeAsString());
    packed.Write(absl::StrCat(name, "_open"), run.SerializeAsString());
  }
}

// ---- job files

// Smaller versions: the target skips large jobs.
std::string Shrunk(const std::string& text) {
  return absl::StrReplaceAll(
      text,
      {{"65536", "64"}, {"1024", "8"}, {"128", "8"}, {"[32", "[4"}, {"[64", "[8"}, {"64]", "8]"}});
}

void WriteJobs(const Directory& jobs, const Directory& specs,
               const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    const std::string name = std::filesystem::path(file).filename().string();
    const std::string text = Shrunk(job::ReadFile(file).value());
    jobs.Write(name, text);
    absl::StatusOr<job::JobFile> job = job::ParseJob(name, text);
    PTO_CHECK(job.ok(), job.status().ToString());
    std::string other;
    if (absl::EndsWith(name, ".json")) {
      PTO_CHECK(google::protobuf::TextFormat::PrintToString(job->job, &other), "cannot print");
    } else {
      PTO_CHECK(google::protobuf::util::MessageToJsonString(job->job, &other).ok(), "cannot print");
    }
    jobs.Write(absl::StrCat(name, ".other"), other);
    absl::StatusOr<job::PreparedJob> prepared = job::PrepareJob(*std::move(job));
    PTO_CHECK(prepared.ok(), prepared.status().ToString());
    specs.Write(name, prepared->graph.SerializeAsString());
  }
  jobs.Write("all.json", R"({"chips": ["0-1"],
 "buffers": [{"name": "a", "dtype": "F32", "shape": [4], "init": {"iota": {}}},
  {"name": "b", "chip": 1, "dtype": "I8", "shape": [2, 2], "init": {"constant": 3}},
  {"name": "m", "dtype": "F64", "shape": [2, 2], "init": {"inline": {"values": [1, 2, 3, 4]}}},
  {"name": "n", "dtype": "I64", "init": {"random": {"seed": 1, "low": -5, "high": 5}}}],
 "graph": {"tensors": [{"name": "half", "buffer": "a", "shape": [2], "offset": 2},
   {"name": "diagonal", "buffer": "m", "shape": [2], "strides": [3]}],
  "scalars": [{"name": "f", "value": {"f64": 2}}],
  "tasks": [{"name": "t", "kernel": "copy", "args": ["half", "half"]},
   {"kernel": "copy", "chip": "chips/1", "args": ["b", "b"], "after": ["t"]},
   {"kernel": "scale", "args": ["a", "a"], "scalars": [{"ref": "f"}], "after": ["0"]},
   {"kernel": "matmul", "args": ["m", "m", "m"], "predicate": {"tensor": "n", "compare": "NE", "value": "9"}},
   {"kernel": "reduce_sum", "args": ["m", "n"], "launch": {"blockNum": 2, "timeout": "1.5s"}}]},
 "options": {"labels": {"x": "y"}, "timeout": "3s", "priority": "HIGH"},
 "references": [{"name": "r", "op": "SCALE", "inputs": ["a"], "scalar": 2},
  {"name": "p", "op": "MATMUL", "inputs": ["m", "m"]}, {"name": "q", "op": "SUB", "inputs": ["p", "m"]}],
 "outputs": [{"tensor": "b", "print": 2, "save": "b.npy"}],
 "checks": [{"tensor": "a", "reference": "r", "tolerance": {"absolute": 0.5}},
  {"tensor": "m", "replay": true}, {"tensor": "half", "equals": "diagonal"},
  {"tensor": "b", "values": {"zeros": true}}]})");
  for (const auto dtype : {pto::v1::F32, pto::v1::BOOL, pto::v1::I64}) {
    job::Array array = job::MakeArray(dtype, {2, 3});
    for (int64_t i = 0; i < array.size(); ++i) array.Set(i, static_cast<double>(i));
    jobs.Write(absl::StrCat(pto::v1::DType_Name(dtype), ".npy"), job::FormatNpy(array));
  }
}

// ---- broker

std::string Message(const broker::Request& request) {
  const broker::RequestBytes bytes = broker::Encode(request);
  return std::string(1, '\0') + std::string(bytes.begin(), bytes.end());
}

std::string Message(const broker::Reply& reply) {
  const broker::ReplyBytes bytes = broker::Encode(reply);
  return std::string(1, '\6') + std::string(bytes.begin(), bytes.end());
}

void WriteBroker(const Directory& directory) {
  broker::Request attach;
  attach.op = broker::Op::kAttach;
  attach.number = 1;
  attach.key.fill('k');
  attach.name = "s";
  broker::Request map;
  map.op = broker::Op::kMap;
  map.number = 2;
  map.name = "x";
  broker::Request check;
  check.op = broker::Op::kCheck;
  check.number = 3;
  check.region = 1;
  broker::Request release = check;
  release.op = broker::Op::kRelease;
  const std::string toggle(1, '\7');
  directory.Write("visit", Message(attach) + Message(map) + Message(check) + Message(release));
  directory.Write("gone", Message(attach) + Message(map) + toggle + Message(check) + Message(map) +
                              toggle + Message(map) + Message(check));
  directory.Write("stranger", Message(map) + Message(check) + Message(release) + Message(attach));
  map.name = "y-1";
  directory.Write("two", Message(attach) + Message(map) + Message(map) + Message(attach));
  attach.key.fill('l');
  directory.Write("denied", Message(attach));
  directory.Write("short", Message(attach).substr(0, 60));
  broker::Reply mapped;
  mapped.op = broker::Op::kMap;
  mapped.region = 7;
  mapped.bytes = 4096;
  broker::Reply refused;
  refused.op = broker::Op::kCheck;
  refused.outcome = broker::Outcome::kBufferInUse;
  directory.Write("replies", Message(mapped) + Message(refused));
}

// ---- events

// Random steps of the target: small and large logs, few and many readers.
void WriteEvents(const Directory& directory) {
  std::mt19937 random(7);
  for (const int bytes : {2'000, 20'000, 65'000}) {
    for (const int steps : {12, 60}) {
      std::string input;
      input.push_back(static_cast<char>(bytes & 0xff));
      input.push_back(static_cast<char>(bytes >> 8));
      for (int i = 0; i < 5 * steps; ++i) input.push_back(static_cast<char>(random()));
      directory.Write(absl::StrCat("log_", bytes, "_", steps), input);
    }
  }
}

}  // namespace
}  // namespace pto::fuzz

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "Usage: make_seeds DIRECTORY JOB...\n";
    return 2;
  }
  const std::filesystem::path root = argv[1];
  const pto::fuzz::Directory specs(root / "graph_spec");
  pto::fuzz::WriteGraphs(specs, pto::fuzz::Directory(root / "packed_graph"));
  pto::fuzz::WriteJobs(pto::fuzz::Directory(root / "job_file"), specs, {argv + 2, argv + argc});
  pto::fuzz::WriteBroker(pto::fuzz::Directory(root / "broker_message"));
  pto::fuzz::WriteEvents(pto::fuzz::Directory(root / "event_resume"));
  return 0;
}
