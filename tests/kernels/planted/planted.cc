// Kernels with one mistake each, which `ptoctl kernels check` must find. The symbol of each names
// the mistake.
#include <cstdlib>

#include "pto_kernel_cpp.h"

namespace {

using pto::kernel::Block;
using pto::kernel::Describe;
using pto::kernel::Range;
using pto::kernel::Signal;
using pto::kernel::View;

constexpr Describe Copies(const char* name) {
  return Describe(name, "Copies x to z, with a mistake.").In("x", PTO_F32).Out("z", PTO_F32);
}

// One element too many, without the checks of views.
void PastEnd(const Block& block) {
  const auto x = block.Tensor<const float>(0);
  const auto z = block.Tensor<float>(1);
  const Range share = block.Share(z.size());
  for (int64_t i = share.begin; i < share.end; ++i) z[i] = x[i];
  if (z.contiguous() && share.end == z.size() && z.size() > 0) z.data()[z.size()] = 1;
}

// As if all views were dense.
void IgnoresStrides(const Block& block) {
  const auto x = block.Tensor<const float>(0);
  const auto z = block.Tensor<float>(1);
  const Range share = block.Share(z.size());
  for (int64_t i = share.begin; i < share.end; ++i) z.data()[i] = x[i];
}

// The blocks' shares are rounded down.
void DropsRest(const Block& block) {
  const auto x = block.Tensor<const float>(0);
  const auto z = block.Tensor<float>(1);
  const int64_t each = z.size() / block.count();
  for (int64_t i = block.index() * each; i < (block.index() + 1) * each; ++i) z[i] = x[i];
}

// Scales its input in place, and copies that.
void WritesInput(const Block& block) {
  const auto x = block.Tensor<float>(0);
  const auto z = block.Tensor<float>(1);
  const Range share = block.Share(z.size());
  for (int64_t i = share.begin; i < share.end; ++i) z[i] = x[i] *= 2;
}

// A variable that keeps its value between tasks.
void KeepsState(const Block& block) {
  static float calls = 0;
  const auto x = block.Tensor<const float>(0);
  const auto z = block.Tensor<float>(1);
  const Range share = block.Share(z.size());
  calls += 1;
  for (int64_t i = share.begin; i < share.end; ++i) z[i] = x[i] + calls;
}

// Every block writes the whole output, each something else.
void LastBlockWins(const Block& block) {
  const auto z = block.Tensor<float>(1);
  for (int64_t i = 0; i < z.size(); ++i) z[i] = static_cast<float>(block.index());
}

// Correct, but depends on the number of blocks.
void CountsBlocks(const Block& block) {
  const auto z = block.Tensor<float>(1);
  const Range share = block.Share(z.size());
  for (int64_t i = share.begin; i < share.end; ++i) z[i] = static_cast<float>(block.count());
}

// Works on for seconds whatever happens.
void IgnoresCancel(const Block& block) {
  const auto x = block.Tensor<const float>(0);
  const auto z = block.Tensor<float>(1);
  volatile float sum = 0;
  if (block.cancelled()) {
    for (int64_t i = 0; i < 1'500'000'000; ++i) sum = sum + 1;
  }
  const Range share = block.Share(z.size());
  for (int64_t i = share.begin; i < share.end; ++i) z[i] = x[i];
}

// Never ends.
void Endless(const Block& block) {
  for (volatile int64_t i = 0;; i = i + 1) {
    if (block.count() == 0) return;
  }
}

// Divides by a share, which has nothing if there are more blocks than elements.
void DividesByZero(const Block& block) {
  const auto x = block.Tensor<const float>(0);
  const auto z = block.Tensor<float>(1);
  const Range share = block.Share(z.size());
  volatile int64_t mine = share.end - share.begin;
  volatile int64_t average = z.size() / mine;
  for (int64_t i = share.begin; i < share.end; ++i) z[i] = average > 0 ? x[i] : 0;
}

// Reads the right neighbour of the last element too.
void ReadsNeighbour(const Block& block) {
  const auto x = block.Tensor<const float>(0);
  const auto z = block.Tensor<float>(1);
  const Range share = block.Share(z.size());
  const int64_t stride = x.ndim() == 0 ? 1 : x.stride(x.ndim() - 1);
  for (int64_t i = share.begin; i < share.end; ++i) z[i] = (&x[i])[stride];
}

// Adds to an output as if it were zero.
void AddsToOutput(const Block& block) {
  const auto x = block.Tensor<const float>(0);
  const auto z = block.Tensor<float>(1);
  const Range share = block.Share(z.size());
  for (int64_t i = share.begin; i < share.end; ++i) z[i] += x[i];
}

// Reverses its input, so it reads what it has overwritten if both are the same view.
void Reverses(const Block& block) {
  const auto x = block.Tensor<const float>(0);
  const auto z = block.Tensor<float>(1);
  const Range share = block.Share(z.size());
  for (int64_t i = share.begin; i < share.end; ++i) z[i] = x[x.size() - 1 - i];
}

// Waits, but does not say so.
void WaitsSecretly(const Block& block) {
  const auto word = block.Tensor<int64_t>(0);
  block.Wait(Signal(word(0)), PTO_GE, 0);
}

// Waits for what nobody sends.
void WaitsForever(const Block& block) {
  const auto word = block.Tensor<int64_t>(0);
  block.Wait(Signal(word(0)), PTO_GE, 1);
}

void EndsProcess(const Block&) { std::_Exit(3); }

void Overflows(const Block& block) {
  volatile char space[4096];
  space[0] = static_cast<char>(block.index());
  if (block.count() > 0) Overflows(block);
  space[1] = space[0];
}

}  // namespace

#define EXPORT(name, function) PTO_EXPORT_KERNEL_AS(name, function, Copies(name))
EXPORT("past_end", PastEnd);
EXPORT("ignores_strides", IgnoresStrides);
EXPORT("drops_rest", DropsRest);
EXPORT("writes_input", WritesInput);
EXPORT("keeps_state", KeepsState);
EXPORT("last_block_wins", LastBlockWins);
EXPORT("counts_blocks", CountsBlocks);
EXPORT("ignores_cancel", IgnoresCancel);
EXPORT("endless", Endless);
EXPORT("divides_by_zero", DividesByZero);
EXPORT("reads_neighbour", ReadsNeighbour);
EXPORT("adds_to_output", AddsToOutput);
EXPORT("ends_process", EndsProcess);
EXPORT("overflows", Overflows);
PTO_EXPORT_KERNEL_AS("reverses", Reverses, Copies("reverses").MayBeSame(PTO_ARGUMENT_BIT(0)));
PTO_EXPORT_KERNEL_AS("waits_secretly", WaitsSecretly,
                     Describe("waits_secretly", "Waits.").NoDependency("word", PTO_I64));
PTO_EXPORT_KERNEL_AS(
    "waits_forever", WaitsForever,
    Describe("waits_forever", "Waits.").NoDependency("word", PTO_I64).Flags(PTO_KERNEL_WAITS));

// Without the C++ layer, which turns exceptions into errors and gives every error a text.
static int32_t FailsSilently(const pto_context*) { return 7; }
static const pto_argument_info kArguments[] = {{"z", PTO_OUTPUT, PTO_DTYPE_BIT(PTO_F32)}};
extern "C" __attribute__((visibility("default")))
const pto_kernel_info silent __asm__("fails_silently");
const pto_kernel_info silent = {sizeof(pto_kernel_info),
                                "fails_silently",
                                "Fails.",
                                FailsSilently,
                                nullptr,
                                PTO_AIV,
                                kArguments,
                                1,
                                nullptr,
                                0,
                                0,
                                0,
                                PTO_CONTROL_NONE};
