#include "daemon/names/digest.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream.h"

namespace pto {
namespace {

// Odd numbers with mixed bits, so that multiplying by them loses nothing.
constexpr uint64_t kFirst = 0x9e3779b97f4a7c15;
constexpr uint64_t kSecond = 0xc2b2ae3d27d4eb4f;

uint64_t Load(const char* data) {
  uint64_t word = 0;
  std::memcpy(&word, data, sizeof word);
  return word;
}

// Lets every bit of a word reach every other.
uint64_t Spread(uint64_t word) {
  word = (word ^ word >> 32) * kFirst;
  word = (word ^ word >> 29) * kSecond;
  return word ^ word >> 32;
}

}  // namespace

// Where a message is written to be digested, so that its bytes are never all there at once.
class DigestStream final : public google::protobuf::io::ZeroCopyOutputStream {
 public:
  explicit DigestStream(DigestBuilder& builder) : builder_(builder) {}

  bool Next(void** data, int* size) override {
    Flush();
    *data = buffer_;
    *size = used_ = sizeof buffer_;
    return true;
  }
  void BackUp(int count) override { used_ -= count; }
  int64_t ByteCount() const override { return flushed_ + used_; }

  void Flush() {
    builder_.AddBytes(buffer_, static_cast<size_t>(used_));
    flushed_ += used_;
    used_ = 0;
  }

 private:
  DigestBuilder& builder_;
  char buffer_[4096];
  int used_ = 0;
  int64_t flushed_ = 0;
};

std::string Digest::ToString() const {
  return absl::StrCat(absl::Hex(high, absl::kZeroPad16), absl::Hex(low, absl::kZeroPad16));
}

// Each step can be undone, given the words, so two states that differ stay different as long as
// the same words follow.
void DigestBuilder::Mix(uint64_t first, uint64_t second) {
  high_ = std::rotl(high_ ^ std::rotl(first * kFirst, 31) * kSecond, 27) + low_;
  high_ = high_ * 5 + kSecond;
  low_ = std::rotl(low_ ^ std::rotl(second * kSecond, 33) * kFirst, 31) + high_;
  low_ = low_ * 5 + kFirst;
}

void DigestBuilder::AddBytes(const char* data, size_t size) {
  if (size == 0) return;
  bytes_ += size;
  if (tail_size_ > 0) {
    const size_t taken = std::min(size, sizeof tail_ - tail_size_);
    std::memcpy(tail_ + tail_size_, data, taken);
    tail_size_ += taken;
    data += taken;
    size -= taken;
    if (tail_size_ < sizeof tail_) return;
    Mix(Load(tail_), Load(tail_ + 8));
    tail_size_ = 0;
  }
  for (; size >= sizeof tail_; data += sizeof tail_, size -= sizeof tail_) {
    Mix(Load(data), Load(data + 8));
  }
  if (size > 0) std::memcpy(tail_, data, size);
  tail_size_ = size;
}

void DigestBuilder::AddNumber(uint64_t number) {
  AddBytes(reinterpret_cast<const char*>(&number), sizeof number);
}

void DigestBuilder::Add(absl::string_view text) {
  AddNumber(text.size());
  AddBytes(text.data(), text.size());
}

void DigestBuilder::Add(const google::protobuf::MessageLite& message) {
  AddNumber(message.ByteSizeLong());
  DigestStream stream(*this);
  {
    google::protobuf::io::CodedOutputStream out(&stream);
    out.SetSerializationDeterministic(true);
    message.SerializeWithCachedSizes(&out);
  }
  stream.Flush();
}

Digest DigestBuilder::Finish() const {
  DigestBuilder end = *this;
  std::memset(end.tail_ + end.tail_size_, 0, sizeof end.tail_ - end.tail_size_);
  end.Mix(Load(end.tail_), Load(end.tail_ + 8));
  end.Mix(bytes_, tail_size_);
  const uint64_t high = Spread(end.high_ + end.low_);
  const uint64_t low = Spread(end.low_ + high);
  return {high + low, low};
}

Digest DigestOf(const google::protobuf::MessageLite& message) {
  DigestBuilder builder;
  builder.Add(message);
  return builder.Finish();
}

}  // namespace pto
