#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "google/protobuf/message.h"

// libFuzzer's own mutation of bytes; missing if libFuzzer is not linked.
extern "C" __attribute__((weak)) size_t LLVMFuzzerMutate(uint8_t* data, size_t size,
                                                         size_t max_size);

namespace pto::fuzz {

using MutationRandom = std::minstd_rand;

// Changes a message in a few places: sets and clears fields, grows, shrinks and reorders lists,
// changes numbers and strings. Strings are taken from `words`, from elsewhere in the message, or
// made up; they stay ASCII, because protobuf accepts only UTF-8. Blind changes of bytes would
// nearly always break the lengths that structure a message.
void MutateMessage(google::protobuf::Message& message, absl::Span<const absl::string_view> words,
                   MutationRandom& random);

// For LLVMFuzzerCustomMutator, if inputs are serialised messages.
template <typename Message>
size_t MutateInput(uint8_t* data, size_t size, size_t max_size, unsigned seed,
                   absl::Span<const absl::string_view> words) {
  MutationRandom random(seed + 1);
  Message message;
  // Sometimes tries inputs that do not parse.
  if (!message.ParseFromArray(data, static_cast<int>(size)) || random() % 64 == 0) {
    return LLVMFuzzerMutate(data, size, max_size);
  }
  MutateMessage(message, words, random);
  const std::string changed = message.SerializeAsString();
  if (changed.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  if (!changed.empty()) std::memcpy(data, changed.data(), changed.size());
  return changed.size();
}

// For LLVMFuzzerCustomCrossOver: merges both messages.
template <typename Message>
size_t CrossInputs(const uint8_t* data1, size_t size1, const uint8_t* data2, size_t size2,
                   uint8_t* out, size_t max_out) {
  Message message, other;
  if (!message.ParseFromArray(data1, static_cast<int>(size1)) ||
      !other.ParseFromArray(data2, static_cast<int>(size2))) {
    return 0;
  }
  message.MergeFrom(other);
  const std::string both = message.SerializeAsString();
  if (both.size() > max_out) return 0;
  if (!both.empty()) std::memcpy(out, both.data(), both.size());
  return both.size();
}

}  // namespace pto::fuzz
