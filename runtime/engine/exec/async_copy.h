#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "kernels/pto_kernel.h"
#include "kernels/strided.h"
#include "runtime/base/memory_account.h"
#include "runtime/engine/exec/services.h"
#include "runtime/engine/queue/errand.h"
#include "runtime/engine/signal/signal_word.h"

namespace pto::engine {

// A copy between tensors that is done beside what the cores do, piece by piece, so that a large
// one keeps no thread for long. Keeps its run, and so the memory, until it is over.
class AsyncCopy final : public Errand {
 public:
  // What to notify when it is over, beside the copy's own signal.
  struct Notice {
    SignalWord signal;  // without an address: nothing
    pto_notify_op op = PTO_SET;
    int64_t value = 0;
  };

  // Begins a copy between tensors of one shape and type, for a run that cannot end meanwhile. It
  // keeps `charge` as long as it is there.
  static std::shared_ptr<AsyncCopy> Begin(Services& services, Run& run, const pto_tensor& to,
                                          const pto_tensor& from, const Notice& notice,
                                          HostCharge charge = HostCharge());

  // 0, and 1 when it is over.
  SignalWord done() { return {&done_, PTO_I64}; }
  int64_t bytes() const;
  // "a copy of 4096 bytes, had 1024".
  std::string Describe() const;

  void Do(Worker& worker, Completions& completions) override;

 private:
  AsyncCopy(Services& services, Run& run, const pto_tensor& to, const pto_tensor& from,
            const Notice& notice, HostCharge charge);
  // Copies elements `begin` to `end` (not included).
  void CopyPiece(int64_t begin, int64_t end);

  Services& services_;
  const pto_tensor to_;
  const pto_tensor from_;
  const Notice notice_;
  const HostCharge charge_;
  const kernels::StridedRange<2> range_;  // from, to
  std::atomic<int64_t> next_{0};
  alignas(8) int64_t done_ = 0;
  std::shared_ptr<AsyncCopy> self_;  // until it is over
};

}  // namespace pto::engine
