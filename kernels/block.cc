#include "kernels/block.h"

#include <string>

namespace pto::kernels {

int32_t Fail(const pto_context* context, const std::string& text) {
  if (context->api != nullptr && context->api->set_error != nullptr) {
    context->api->set_error(context, text.c_str());
  }
  return 1;
}

}  // namespace pto::kernels
