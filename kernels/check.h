#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kernels/pto_kernel.h"

// For the check functions of kernels: see pto_check_function for what they return.
namespace pto::kernels {

// What a check function gets, with the kernel's name and its arguments for messages.
struct Check {
  absl::string_view kernel;
  absl::Span<const pto_argument_info> arguments;
  const pto_tensor* tensors;
  uint32_t tensor_count;
  char* message;
  size_t message_size;

  // Writes "kernel: text", cut to what fits. Returns what the check is to return.
  int32_t Refuse(absl::string_view text) const;

  // That there are as many tensors as arguments.
  int32_t Count() const;
  // That the first `count` tensors have elements of one type.
  int32_t SameDtype(uint32_t count) const;
  // That the first `count` tensors have one shape.
  int32_t SameShape(uint32_t count) const;
  // That there are as many tensors as arguments, all of one type and one shape.
  int32_t AllAlike() const;
  // That the tensor has exactly one element.
  int32_t OneElement(uint32_t index) const;
  // "out is [2,3]".
  std::string Describe(uint32_t index) const;
};

// "[2,3]".
std::string ShapeText(const pto_tensor& tensor);

}  // namespace pto::kernels
