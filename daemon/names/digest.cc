#include "daemon/names/digest.h"

#include <bit>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream.h"

// All of it is in the header, so its state needs no allocation.
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace pto::daemon {

// The state of the hash. Messages are written to it by a small buffer, so that the bytes of a large
// one are never all there at once.
class DigestBuilder::Hash final : public google::protobuf::io::ZeroCopyOutputStream {
 public:
  Hash() { XXH3_128bits_reset(&state_); }

  void Add(const google::protobuf::MessageLite& message) {
    AddSize(message.ByteSizeLong());
    {
      google::protobuf::io::CodedOutputStream out(this);
      out.SetSerializationDeterministic(true);
      message.SerializeWithCachedSizes(&out);
    }
    Flush();
  }

  void Add(absl::string_view text) {
    AddSize(text.size());
    AddBytes(text.data(), text.size());
  }

  Digest Finish() const {
    const XXH128_hash_t hash = XXH3_128bits_digest(&state_);
    return {hash.high64, hash.low64, Digest::kVersion};
  }

  bool Next(void** data, int* size) override {
    Flush();
    *data = buffer_;
    *size = used_ = sizeof buffer_;
    return true;
  }
  void BackUp(int count) override { used_ -= count; }
  int64_t ByteCount() const override { return flushed_ + used_; }

 private:
  void AddSize(uint64_t size) {
    static_assert(std::endian::native == std::endian::little);
    AddBytes(&size, sizeof size);
  }
  void AddBytes(const void* data, size_t size) { XXH3_128bits_update(&state_, data, size); }
  void Flush() {
    AddBytes(buffer_, static_cast<size_t>(used_));
    flushed_ += used_;
    used_ = 0;
  }

  XXH3_state_t state_;
  char buffer_[4096];
  int used_ = 0;
  int64_t flushed_ = 0;
};

std::string Digest::ToString() const {
  return absl::StrCat(absl::Hex(high, absl::kZeroPad16), absl::Hex(low, absl::kZeroPad16));
}

DigestBuilder::DigestBuilder() : hash_(std::make_unique<Hash>()) {}
DigestBuilder::~DigestBuilder() = default;

void DigestBuilder::Add(const google::protobuf::MessageLite& message) { hash_->Add(message); }

void DigestBuilder::Add(absl::string_view text) { hash_->Add(text); }

Digest DigestBuilder::Finish() const { return hash_->Finish(); }

Digest DigestOf(const google::protobuf::MessageLite& message) {
  DigestBuilder::Hash hash;
  hash.Add(message);
  return hash.Finish();
}

}  // namespace pto::daemon
