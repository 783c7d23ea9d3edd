#include "tests/fuzz/message_mutator.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <vector>

#include "google/protobuf/descriptor.h"
#include "google/protobuf/stubs/logging.h"

namespace pto::fuzz {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// Strings that are not UTF-8 are rejected, and need no log line each.
[[maybe_unused]] google::protobuf::LogHandler* const kLoud =
    google::protobuf::SetLogHandler(nullptr);

// More would only make inputs slow.
constexpr int kMaxItems = 64;

class Mutator {
 public:
  Mutator(Message& root, absl::Span<const absl::string_view> words, MutationRandom& random)
      : words_(words), random_(random) {
    Collect(root);
  }

  // Changes one field of one message in the tree.
  void Run() {
    Message& message = *nodes_[Below(nodes_.size())];
    const Descriptor& type = *message.GetDescriptor();
    if (type.field_count() == 0) return;
    // Usually changes a field that is set.
    std::vector<const FieldDescriptor*> set;
    message.GetReflection()->ListFields(message, &set);
    const FieldDescriptor& field = set.empty() || OneOf(4)
                                       ? *type.field(static_cast<int>(Below(type.field_count())))
                                       : *set[Below(set.size())];
    if (field.is_map()) return;
    if (field.is_repeated()) {
      ChangeList(message, field);
    } else {
      ChangeField(message, field);
    }
  }

 private:
  size_t Below(size_t count) { return static_cast<size_t>(random_()) % count; }
  bool OneOf(size_t count) { return Below(count) == 0; }
  uint64_t Bits() {
    return uint64_t{random_()} << 42 ^ uint64_t { random_() } << 21 ^ random_();
  }

  // Collects all messages, and all strings that can be reused.
  void Collect(Message& message) {
    nodes_.push_back(&message);
    const Reflection& reflection = *message.GetReflection();
    std::vector<const FieldDescriptor*> fields;
    reflection.ListFields(message, &fields);
    for (const FieldDescriptor* field : fields) {
      if (field->is_map()) continue;
      const bool list = field->is_repeated();
      const int count = list ? reflection.FieldSize(message, field) : 1;
      for (int i = 0; i < count; ++i) {
        if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
          Collect(list ? *reflection.MutableRepeatedMessage(&message, field, i)
                       : *reflection.MutableMessage(&message, field));
        } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
          texts_.push_back(list ? reflection.GetRepeatedString(message, field, i)
                                : reflection.GetString(message, field));
        }
      }
    }
  }

  void ChangeField(Message& message, const FieldDescriptor& field) {
    const Reflection& reflection = *message.GetReflection();
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      if (reflection.HasField(message, &field)) {
        reflection.ClearField(&message, &field);
      } else {
        reflection.MutableMessage(&message, &field);
      }
    } else if (OneOf(8)) {
      reflection.ClearField(&message, &field);
    } else {
      SetValue(message, field, -1);
    }
  }

  void ChangeList(Message& message, const FieldDescriptor& field) {
    const Reflection& reflection = *message.GetReflection();
    const int count = reflection.FieldSize(message, &field);
    const auto any = [&] { return static_cast<int>(Below(static_cast<size_t>(count))); };
    switch (Below(6)) {
      case 0:
      case 1:
        if (count < kMaxItems) AddItem(message, field, count);
        return;
      case 2:
        if (count == 0) return;
        reflection.SwapElements(&message, &field, any(), count - 1);
        reflection.RemoveLast(&message, &field);
        return;
      case 3:
        if (count > 1) reflection.SwapElements(&message, &field, any(), any());
        return;
      default:
        if (count > 0 && field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
          SetValue(message, field, any());
        }
        return;
    }
  }

  // Often a copy of an existing item, which is likely to be valid.
  void AddItem(Message& message, const FieldDescriptor& field, int count) {
    const Reflection& reflection = *message.GetReflection();
    const int like = count == 0 || OneOf(3) ? -1 : static_cast<int>(Below(count));
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_MESSAGE: {
        Message& added = *reflection.AddMessage(&message, &field);
        if (like >= 0) added.CopyFrom(reflection.GetRepeatedMessage(message, &field, like));
        return;
      }
      case FieldDescriptor::CPPTYPE_STRING:
        reflection.AddString(&message, &field,
                             like < 0 ? "" : reflection.GetRepeatedString(message, &field, like));
        break;
      case FieldDescriptor::CPPTYPE_INT32:
        reflection.AddInt32(&message, &field, 0);
        break;
      case FieldDescriptor::CPPTYPE_INT64:
        reflection.AddInt64(&message, &field, 0);
        break;
      case FieldDescriptor::CPPTYPE_UINT32:
        reflection.AddUInt32(&message, &field, 0);
        break;
      case FieldDescriptor::CPPTYPE_UINT64:
        reflection.AddUInt64(&message, &field, 0);
        break;
      case FieldDescriptor::CPPTYPE_DOUBLE:
        reflection.AddDouble(&message, &field, 0);
        break;
      case FieldDescriptor::CPPTYPE_FLOAT:
        reflection.AddFloat(&message, &field, 0);
        break;
      case FieldDescriptor::CPPTYPE_BOOL:
        reflection.AddBool(&message, &field, false);
        break;
      case FieldDescriptor::CPPTYPE_ENUM:
        reflection.AddEnumValue(&message, &field, 0);
        break;
    }
    if (like < 0) SetValue(message, field, count);
  }

  // The current value of an integer, as 64 bits; 0 for all other types.
  static uint64_t Value(const Message& message, const FieldDescriptor& field, int index) {
    const Reflection& reflection = *message.GetReflection();
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
        return static_cast<uint64_t>(index < 0
                                         ? reflection.GetInt32(message, &field)
                                         : reflection.GetRepeatedInt32(message, &field, index));
      case FieldDescriptor::CPPTYPE_INT64:
        return static_cast<uint64_t>(index < 0
                                         ? reflection.GetInt64(message, &field)
                                         : reflection.GetRepeatedInt64(message, &field, index));
      case FieldDescriptor::CPPTYPE_UINT32:
        return index < 0 ? reflection.GetUInt32(message, &field)
                         : reflection.GetRepeatedUInt32(message, &field, index);
      case FieldDescriptor::CPPTYPE_UINT64:
        return index < 0 ? reflection.GetUInt64(message, &field)
                         : reflection.GetRepeatedUInt64(message, &field, index);
      default:
        return 0;
    }
  }

  // For a field that is not a message; `index` is -1 if it is not a list.
  void SetValue(Message& message, const FieldDescriptor& field, int index) {
    const Reflection& reflection = *message.GetReflection();
    const uint64_t number = Number(Value(message, field, index));
    const auto set = [&](auto set_one, auto set_item, auto value) {
      if (index < 0) {
        (reflection.*set_one)(&message, &field, value);
      } else {
        (reflection.*set_item)(&message, &field, index, value);
      }
    };
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_STRING: {
        std::string text = Text(index < 0 ? reflection.GetString(message, &field)
                                          : reflection.GetRepeatedString(message, &field, index));
        if (index < 0) {
          reflection.SetString(&message, &field, std::move(text));
        } else {
          reflection.SetRepeatedString(&message, &field, index, std::move(text));
        }
        return;
      }
      case FieldDescriptor::CPPTYPE_INT32:
        return set(&Reflection::SetInt32, &Reflection::SetRepeatedInt32,
                   static_cast<int32_t>(number));
      case FieldDescriptor::CPPTYPE_INT64:
        return set(&Reflection::SetInt64, &Reflection::SetRepeatedInt64,
                   static_cast<int64_t>(number));
      case FieldDescriptor::CPPTYPE_UINT32:
        return set(&Reflection::SetUInt32, &Reflection::SetRepeatedUInt32,
                   static_cast<uint32_t>(number));
      case FieldDescriptor::CPPTYPE_UINT64:
        return set(&Reflection::SetUInt64, &Reflection::SetRepeatedUInt64, number);
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return set(&Reflection::SetDouble, &Reflection::SetRepeatedDouble, Real());
      case FieldDescriptor::CPPTYPE_FLOAT:
        return set(&Reflection::SetFloat, &Reflection::SetRepeatedFloat,
                   static_cast<float>(random_() % 1000) / 8);
      case FieldDescriptor::CPPTYPE_BOOL:
        return set(&Reflection::SetBool, &Reflection::SetRepeatedBool, OneOf(2));
      case FieldDescriptor::CPPTYPE_ENUM:
        return set(&Reflection::SetEnumValue, &Reflection::SetRepeatedEnumValue,
                   OneOf(8) ? static_cast<int>(number)
                            : static_cast<int>(Below(field.enum_type()->value_count() + 1)));
      case FieldDescriptor::CPPTYPE_MESSAGE:
        return;
    }
  }

  // Near the current value, small, near a power of two, or anything; with either sign.
  uint64_t Number(uint64_t now) {
    if (OneOf(2)) return now + Below(5) - 2;
    uint64_t number = Below(9);
    if (OneOf(3)) number = (uint64_t{1} << Below(64)) + Below(3) - 1;
    if (OneOf(8)) number = Bits();
    return OneOf(4) ? ~number + 1 : number;
  }

  double Real() {
    switch (Below(6)) {
      case 0:
        return std::numeric_limits<double>::infinity() * (OneOf(2) ? 1 : -1);
      case 1:
        return std::numeric_limits<double>::quiet_NaN();
      case 2:
        return std::bit_cast<double>(Bits());
      default:
        return static_cast<double>(static_cast<int64_t>(Number(0))) / (OneOf(2) ? 1 : 8);
    }
  }

  std::string Text(std::string now) {
    if (!texts_.empty() && OneOf(2)) return texts_[Below(texts_.size())];
    if (!words_.empty() && OneOf(2)) return std::string(words_[Below(words_.size())]);
    if (OneOf(8)) return "";
    if (LLVMFuzzerMutate == nullptr) return now;
    const size_t size = now.size();
    now.resize(std::min<size_t>(2 * size + 16, 512));
    now.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t*>(now.data()), std::min(size, now.size()),
                                now.size()));
    for (char& c : now) c = static_cast<char>(c & 0x7f);
    return now;
  }

  const absl::Span<const absl::string_view> words_;
  MutationRandom& random_;
  std::vector<Message*> nodes_;
  std::vector<std::string> texts_;
};

}  // namespace

void MutateMessage(Message& message, absl::Span<const absl::string_view> words,
                   MutationRandom& random) {
  for (size_t changes = 1 + random() % 4; changes > 0; --changes) {
    Mutator(message, words, random).Run();
  }
}

}  // namespace pto::fuzz
