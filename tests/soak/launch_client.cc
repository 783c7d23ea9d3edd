// Launches a registered graph again and again, bound to other buffers and scalars each time.

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"
#include "tests/soak/kinds.h"

namespace pto::soak {
namespace {

constexpr int64_t kCount = 256;

}  // namespace

absl::Status LaunchRound(Visit& visit) {
  PTO_ASSIGN_OR_RETURN(Client client, visit.Connect());
  PTO_ASSIGN_OR_RETURN(Session session, visit.CreateSession(client));
  const uint32_t chip = visit.AnyChip();
  std::vector<Buffer> buffers;
  for (const char* id : {"a", "b", "c"}) {
    PTO_ASSIGN_OR_RETURN(Buffer buffer, visit.Insist([&] {
      return session.CreateBuffer(id, chip, kCount * sizeof(float));
    }));
    buffers.push_back(std::move(buffer));
  }
  // out = value * 3, through an intermediate buffer.
  GraphBuilder graph;
  const TensorRef between = graph.Tensor("between", "a", v1::F32, {kCount});
  const TensorRef out = graph.Tensor("out", "b", v1::F32, {kCount});
  graph.Task("fill", chip, {between}).Scalar(graph.Scalar("value", 1.0)).Blocks(4);
  graph.Task("scale", chip, {between, out}).Scalar(3.0).Blocks(3);
  PTO_ASSIGN_OR_RETURN(const v1::Graph registered,
                       visit.Insist([&] { return session.Register("triple", graph); }));

  const uint64_t launches = 10 + visit.Below(40);
  for (uint64_t i = 0; i < launches && !visit.place().stopping; ++i) {
    const auto value = static_cast<float>(visit.Below(1000));
    const Buffer& target = buffers[1 + visit.Below(2)];
    v1::LaunchGraphRequest request;
    request.set_graph(registered.name());
    request.set_run_id(absl::StrCat("r", i));
    v1::BufferBinding& binding = *request.add_buffers();
    binding.set_slot("b");
    binding.set_buffer(target.name());
    v1::ScalarSpec& scalar = *request.add_scalars();
    scalar.set_name("value");
    scalar.mutable_value()->set_f64(static_cast<double>(value));
    if (visit.OneIn(2)) request.mutable_wait()->set_seconds(10);
    PTO_ASSIGN_OR_RETURN(const Run run, visit.Insist([&] { return session.Launch(request); }));
    PTO_RETURN_IF_ERROR(visit.Finish(run));
    PTO_ASSIGN_OR_RETURN(const std::vector<float> have,
                         visit.Insist([&] { return target.Read<float>(kCount); }));
    PTO_RETURN_IF_ERROR(ExpectAll(visit, "out", have, 3 * value));
  }
  return visit.Insist([&] { return session.Close(); });
}

}  // namespace pto::soak
