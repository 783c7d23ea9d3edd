#pragma once

#include <cstdint>

#include "pto/v1/graph.pb.h"

namespace pto::daemon {

// About how much memory a part of a graph takes until the graph is compiled: the builder's records,
// and those by which it finds dependencies. From the sizes of columns alone, so that it costs
// nothing.

inline uint64_t BuilderBytes(const v1::TensorBlock& tensors) {
  constexpr uint64_t kTensor = 160;
  return kTensor * static_cast<uint64_t>(tensors.buffer_size());
}

inline uint64_t BuilderBytes(const v1::TaskBlock& tasks) {
  constexpr uint64_t kTask = 96, kArgument = 24, kDependency = 16, kScalar = 16, kExtra = 1024;
  return kTask * static_cast<uint64_t>(tasks.kernel_size()) +
         kArgument * static_cast<uint64_t>(tasks.arg_delta_size()) +
         kDependency * static_cast<uint64_t>(tasks.dep_back_size()) +
         kScalar * static_cast<uint64_t>(tasks.scalar_size()) +
         kExtra * static_cast<uint64_t>(tasks.extras_size());
}

// Lists: kernels, chips, buffers, domains, layouts and launches of a header, or of a segment.
template <typename Lists>
uint64_t ListBytes(const Lists& lists) {
  constexpr uint64_t kName = 256, kLayout = 512, kLaunch = 1024;
  return kName * static_cast<uint64_t>(lists.kernels_size() + lists.chips_size() +
                                       lists.buffers_size() + lists.domains_size()) +
         kLayout * static_cast<uint64_t>(lists.layouts_size()) +
         kLaunch * static_cast<uint64_t>(lists.launches_size());
}

}  // namespace pto::daemon
