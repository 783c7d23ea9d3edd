// What a kernel in a host may ask the engine for: any calls in any order, with words and views
// anywhere, also while the engine has not answered the one before. The engine refuses what is
// wrong, writes nowhere but into the memory of the task, and in the end nothing is left of the run.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "runtime/base/log.h"
#include "runtime/engine/lane/lane_port.h"
#include "runtime/engine/testing/slow_testing.h"
#include "runtime/engine/testing/test_lane.h"
#include "tests/fuzz/byte_reader.h"

namespace pto::fuzz {
namespace {

using engine::LaneCall;
using engine::LanePost;
using engine::testing::SlowEngine;
using engine::testing::TestLane;

constexpr size_t kMostCalls = 12;
constexpr int kMostSteps = 400;
constexpr int64_t kGraceNs = 1'000'000;

// Mostly something small, sometimes anything.
int64_t Value(ByteReader& input) {
  const uint8_t kind = input.Byte();
  return kind < 200 ? kind % 8 : kind < 230 ? input.Number<int16_t>() : input.Number<int64_t>();
}

// Near the words, mostly within.
void* Address(ByteReader& input, SlowEngine& node) {
  const uint8_t kind = input.Byte();
  if (kind < 200) return node.word(kind % SlowEngine::kWords);
  if (kind == 255) return nullptr;
  return reinterpret_cast<char*>(node.word(0)) + input.Number<int16_t>();
}

uint32_t Type(ByteReader& input) {
  const uint8_t kind = input.Byte();
  return kind < 180 ? PTO_I64 : kind < 200 ? PTO_U64 : kind % 16;
}

pto_tensor View(ByteReader& input, SlowEngine& node) {
  pto_tensor view = {};
  view.data = Address(input, node);
  view.dtype = Type(input);
  view.ndim = input.Byte() % (PTO_MAX_DIMS + 2);
  for (int d = 0; d < PTO_MAX_DIMS; ++d) {
    view.shape[d] = Value(input);
    view.strides[d] = Value(input);
  }
  return view;
}

std::vector<LaneCall> Calls(ByteReader& input, SlowEngine& node) {
  std::vector<LaneCall> calls(input.Byte() % kMostCalls);
  for (LaneCall& call : calls) {
    call.kind = static_cast<LaneCall::Kind>(input.Byte() % 8);
    call.signal = {Address(input, node), Type(input)};
    call.how = input.Byte() % 8;
    call.value = Value(input);
    call.timeout_ns = Value(input);
    call.event = input.Byte() % 4;
    if (call.kind != LaneCall::Kind::kCopy) continue;
    call.to = View(input, node);
    call.from = input.Byte() % 2 == 0 ? View(input, node) : call.to;
  }
  return calls;
}

void Run(ByteReader& input) {
  static auto* const node = new SlowEngine({2}, 0, kGraceNs);
  for (uint32_t i = 0; i < SlowEngine::kWords; ++i) *node->word(i) = 0;
  TestLane::Quirks quirks;
  quirks.leaves = input.Byte() % 4;
  quirks.twice = input.Byte() % 4;
  quirks.drops = input.Byte() % 8 == 1 ? 4 : 0;
  const auto lane = std::make_shared<TestLane>("far", quirks);
  const std::shared_ptr<engine::LanePort> port =
      node->AddLane(lane, "far", PTO_KERNEL_WAITS | PTO_KERNEL_NOTIFIES);
  lane->SetScript([&](const LanePost&) { return Calls(input, *node); });
  const engine::testing::KernelBody body = [](uint32_t, const pto_context&) { return 0; };
  const uint8_t shape = input.Byte();
  const std::shared_ptr<engine::Run> run = node->Start(
      {{.kernel = "far", .block_num = 1u + shape % 3, .together = shape % 2 == 0}, {.after = {0}}},
      body);
  const TestLane::Chooser choose = [&](size_t count) { return input.Byte() % count; };
  for (int step = 0; step < kMostSteps && !IsFinal(run->state()); ++step) {
    node->RunAll();
    if (lane->CanAct()) {
      lane->Act(choose);
    } else if (input.empty()) {
      break;
    } else if (input.Byte() % 2 == 0) {
      node->Notify(input.Byte() % SlowEngine::kWords, PTO_ADD, 1);
      node->engine->LookAtForeignWords();
    } else {
      node->clock.Advance(absl::Nanoseconds(1 + input.Byte()));
      node->timers.RunDue();
    }
  }
  if (!IsFinal(run->state())) node->Cancel(*run);
  lane->reports()->ReportDeath("the input ends");
  node->RunAll();
  PTO_CHECK(IsFinal(run->state()), "a run does not end");
  PTO_CHECK(node->engine->waiting() == 0, "a wait is left");
  PTO_CHECK(node->engine->chip_use(0).busy_cores == 0, "a core is left");
  const engine::PostTable::Counts counts = port->counts();
  PTO_CHECK(counts.outstanding == 0, "a post is left");
  PTO_CHECK(counts.calls == lane->seen().calls, "a call is not counted");
}

}  // namespace
}  // namespace pto::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  pto::fuzz::ByteReader input(data, size);
  pto::fuzz::Run(input);
  return 0;
}
