#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kernels/pto_kernel.h"

// For the check functions of kernels; pto_check_function defines their return value.
namespace pto::kernels {

// The input of a check function, with the kernel's name and arguments for messages.
struct Check {
  absl::string_view kernel;
  absl::Span<const pto_argument_info> arguments;
  const pto_tensor* tensors;
  uint32_t tensor_count;
  char* message;
  size_t message_size;

  // Writes "kernel: text", truncated to fit. Returns the value that the check has to return.
  int32_t Refuse(absl::string_view text) const;

  // Checks that there are as many tensors as arguments.
  int32_t Count() const;
  // Checks that the first `count` tensors have one element type.
  int32_t SameDtype(uint32_t count) const;
  // Checks that the first `count` tensors have one shape.
  int32_t SameShape(uint32_t count) const;
  // Checks that there are as many tensors as arguments, all of one type and shape.
  int32_t AllAlike() const;
  // Checks that the tensor has exactly one element.
  int32_t OneElement(uint32_t index) const;
  // For example "out is [2,3]".
  std::string Describe(uint32_t index) const;
};

// For example "[2,3]".
std::string ShapeText(const pto_tensor& tensor);

}  // namespace pto::kernels
