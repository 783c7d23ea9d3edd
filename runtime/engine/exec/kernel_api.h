#pragma once

#include "kernels/pto_kernel.h"

namespace pto::engine {

// What kernels can ask of the engine; see pto_kernel.h.
class KernelApi {
 public:
  static const pto_kernel_api kTable;

 private:
  static int Cancelled(const pto_context* context);
  static void Log(const pto_context* context, pto_log_level level, const char* text);
  static void SetError(const pto_context* context, const char* text);
  static int32_t Wait(const pto_context* context, const pto_signal* signal, pto_compare compare,
                      int64_t value, int64_t timeout);
  static int32_t Notify(const pto_context* context, const pto_signal* signal, pto_notify_op op,
                        int64_t value);
  static int32_t Meet(const pto_context* context, pto_scope scope);
  static int32_t Copy(const pto_context* context, const pto_tensor* to, const pto_tensor* from,
                      const pto_signal* done, pto_notify_op op, int64_t value, pto_event* event);
  static int32_t WaitCopy(const pto_context* context, pto_event event, int64_t timeout);
  static int32_t Defer(const pto_context* context, const pto_signal* signal, pto_compare compare,
                       int64_t value, int64_t timeout);
  static int32_t DeferCopy(const pto_context* context, pto_event event, int64_t timeout);
};

}  // namespace pto::engine
