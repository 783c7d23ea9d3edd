#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace pto::comm {

// An error in shared memory, with a tag that identifies its subject; zero: none. One rank writes
// it. Concurrent readers get all of it or nothing.
struct SharedError {
  static constexpr size_t kBytes = 248;

  void Set(uint64_t about, const absl::Status& error) {
    Words words{};
    const size_t length = std::min(error.message().size(), kBytes - 1);
    std::memcpy(words.data(), error.message().data(), length);
    tag.store(0);
    code.store(static_cast<uint64_t>(error.code()));
    for (size_t i = 0; i < words.size(); ++i) text[i].store(words[i]);
    tag.store(about);
  }

  // The error with this tag, if there is one; otherwise OK.
  absl::Status Get(uint64_t about) const {
    if (tag.load() != about) return absl::OkStatus();
    Words words;
    for (size_t i = 0; i < words.size(); ++i) words[i] = text[i].load();
    const auto found = static_cast<absl::StatusCode>(code.load());
    if (tag.load() != about) return absl::OkStatus();
    const char* start = reinterpret_cast<const char*>(words.data());
    return absl::Status(found, absl::string_view(start, strnlen(start, kBytes)));
  }

  std::atomic<uint64_t> tag;
  std::atomic<uint64_t> code;
  std::atomic<uint64_t> text[kBytes / 8];

 private:
  using Words = std::array<uint64_t, kBytes / 8>;
};

}  // namespace pto::comm
