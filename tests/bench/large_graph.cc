#include "tests/bench/large_graph.h"

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "grpcpp/client_context.h"
#include "runtime/base/status_macros.h"
#include "tests/bench/child_process.h"
#include "tests/bench/launches.h"
#include "tests/bench/samples.h"

namespace pto::bench {
namespace {

struct Alone {
  double decode = 0;
  double run = 0;
};

// A square in which each task follows its neighbours above and to the left.
absl::StatusOr<std::vector<v1::PackedGraphPart>> Wavefront(uint64_t tasks, uint32_t chunk_tasks) {
  const auto side = static_cast<uint32_t>(std::sqrt(static_cast<double>(tasks)));
  GraphBuilder graph;
  std::vector<TaskRef> above;
  for (uint32_t row = 0; row < side; ++row) {
    std::vector<TaskRef> line;
    for (uint32_t column = 0; column < side; ++column) {
      TaskRef task = graph.Task("noop", 0, {});
      if (row > 0) task.After(above[column]);
      if (column > 0) task.After(line.back());
      line.push_back(task);
    }
    above = std::move(line);
  }
  return graph.BuildPacked(chunk_tasks);
}

absl::Status WriteParts(const std::vector<v1::PackedGraphPart>& parts, const std::string& path) {
  std::ofstream file(path, std::ios::binary);
  for (const v1::PackedGraphPart& part : parts) {
    const std::string bytes = part.SerializeAsString();
    const auto size = static_cast<uint32_t>(bytes.size());
    file.write(reinterpret_cast<const char*>(&size), sizeof size);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  file.close();
  return file ? absl::OkStatus() : absl::InternalError(absl::StrCat("cannot write ", path));
}

absl::StatusOr<Alone> MeasureAlone(const std::string& program, const std::string& parts,
                                   int rounds) {
  std::FILE* const out = popen(absl::StrCat(program, " ", parts, " ", rounds).c_str(), "r");
  if (out == nullptr) return absl::InternalError(absl::StrCat("cannot start ", program));
  Alone alone;
  const int read = std::fscanf(out, "%lf %lf", &alone.decode, &alone.run);
  if (pclose(out) != 0 || read != 2) return absl::InternalError(absl::StrCat(program, " failed"));
  return alone;
}

// Seconds from sending the first chunk until the last task event and the end of the run have
// arrived.
absl::StatusOr<double> ThroughDaemon(Servers& servers, Session& session,
                                     v1::EventService::Stub& events,
                                     std::vector<v1::PackedGraphPart>& parts, uint64_t tasks,
                                     int round) {
  const std::string id = absl::StrCat("large-", round);
  parts[0].mutable_header()->set_parent(session.name());
  parts[0].mutable_header()->set_id(id);
  const std::string run_name = absl::StrCat(session.name(), "/runs/", id);
  v1::WatchEventsRequest watch;
  watch.set_parent(session.name());
  grpc::ClientContext watch_context;
  const auto reader = events.WatchEvents(&watch_context, watch);

  const double start = Seconds();
  grpc::ClientContext context;
  v1::Run run;
  const auto writer = servers.run().SubmitPackedRun(&context, &run);
  for (const v1::PackedGraphPart& part : parts) {
    if (!writer->Write(part)) break;
  }
  writer->WritesDone();
  PTO_RETURN_IF_ERROR(CallError("SubmitPackedRun", writer->Finish()));
  uint64_t seen = 0;
  bool ended = false;
  v1::EventBatch batch;
  while (!ended && reader->Read(&batch)) {
    for (const v1::Event& event : batch.events()) {
      if (event.tasks().run() == run_name) seen += event.tasks().task_size();
      if (event.run().name() != run_name) continue;
      ended = event.run().state() >= v1::Run::SUCCEEDED;
      if (ended) PTO_RETURN_IF_ERROR(CheckSucceeded(event.run()));
    }
  }
  const double took = Seconds() - start;
  watch_context.TryCancel();
  reader->Finish();
  if (ended && seen == tasks) return took;
  return absl::DataLossError(absl::StrCat(seen, " task events came, not ", tasks));
}

}  // namespace

absl::Status MeasureLargeGraph(Servers& servers, const std::string& alone_program,
                               const Effort& effort, Report& report) {
  PTO_ASSIGN_OR_RETURN(const TemporaryDirectory directory, TemporaryDirectory::Make());
  PTO_ASSIGN_OR_RETURN(std::vector<v1::PackedGraphPart> parts,
                       Wavefront(effort.large_graph_tasks, servers.limits().max_block_tasks()));
  const uint64_t tasks = parts.back().commit().task_count();
  PTO_ASSIGN_OR_RETURN(Session session, servers.client().CreateSession({.id = "large"}));
  parts[0].mutable_header()->set_parent(session.name());
  const std::string path = absl::StrCat(directory.path(), "/parts");
  PTO_RETURN_IF_ERROR(WriteParts(parts, path));
  PTO_ASSIGN_OR_RETURN(const Alone alone, MeasureAlone(alone_program, path, effort.long_rounds));
  const auto events = v1::EventService::NewStub(servers.ToDaemon());
  Rounds through;
  for (int round = 0; round < effort.long_rounds; ++round) {
    // A separate session for each run: its log holds all events of one run.
    PTO_ASSIGN_OR_RETURN(Session own, servers.client().CreateSession());
    PTO_ASSIGN_OR_RETURN(const double took,
                         ThroughDaemon(servers, own, *events, parts, tasks, round));
    through.Add(took);
  }
  const double per_task = 1e9 / static_cast<double>(tasks);
  report.Add({.name = "large_graph_decode_alone", .value = alone.decode * per_task, .unit = "ns"});
  report.Add({.name = "large_graph_run_alone", .value = alone.run * per_task, .unit = "ns"});
  report.Add({.name = "large_graph",
              .value = through.lowest() * per_task,
              .unit = "ns",
              .against = "decode and run alone",
              .against_value = (alone.decode + alone.run) * per_task,
              .target = Target::AtMost(3)});
  return absl::OkStatus();
}

}  // namespace pto::bench
