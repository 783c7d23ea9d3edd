#include "runtime/graph/scalar_table.h"

#include <cmath>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/domain_scalar.h"
#include "runtime/base/error.h"
#include "runtime/graph/launch_check.h"

namespace pto::engine {
namespace {

// Marks a reference to a task's own scalar until the number of named scalars is known.
constexpr uint32_t kOwn = 1u << 31;

template <typename T>
uint64_t BitsOf(T value) {
  static_assert(sizeof(T) == sizeof(uint64_t));
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

}  // namespace

absl::StatusOr<uint64_t> ScalarTable::Bits(const ScalarInput& scalar, const pto_scalar_info& info) {
  if (info.type == kDomainScalar && scalar.kind != ScalarInput::Kind::kBits) {
    return Error(reason::kScalarInvalid,
                 absl::StrCat("scalar '", info.name, "' is a domain, not a number"))
        .With("scalar", info.name)
        .Hint("name the domain");
  }
  switch (scalar.kind) {
    case ScalarInput::Kind::kBits:
      return scalar.bits;
    case ScalarInput::Kind::kInteger:
      return info.type == PTO_INTEGER ? BitsOf(scalar.i64)
                                      : BitsOf(static_cast<double>(scalar.i64));
    case ScalarInput::Kind::kFloat: {
      if (info.type == PTO_FLOAT) return BitsOf(scalar.f64);
      constexpr double kLimit = 9223372036854775808.0;  // 2^63
      if (!(scalar.f64 >= -kLimit && scalar.f64 < kLimit) || std::trunc(scalar.f64) != scalar.f64) {
        return Error(reason::kScalarInvalid,
                     absl::StrCat("scalar '", info.name, "' is an integer, not ", scalar.f64))
            .With("scalar", info.name)
            .With("have", scalar.f64);
      }
      return BitsOf(static_cast<int64_t>(scalar.f64));
    }
    case ScalarInput::Kind::kNamed:
      break;
  }
  return Error(reason::kScalarInvalid, "a named scalar cannot refer to another")
      .With("scalar", info.name);
}

uint32_t ScalarTable::AddNamed(ImageText name, const ScalarInput& value) {
  ImageScalar scalar;
  scalar.name = name;
  names_.push_back(scalar);
  named_values_.push_back(value);
  return static_cast<uint32_t>(names_.size() - 1);
}

uint32_t ScalarTable::AddDomain(ImageText name) {
  ScalarInput none;
  none.kind = ScalarInput::Kind::kBits;
  const uint32_t index = AddNamed(name, none);
  names_[index].type = kDomainScalar;
  return index;
}

absl::Status ScalarTable::UseNamed(uint32_t scalar, const pto_scalar_info& info,
                                   const TextTable& text) {
  if (scalar >= names_.size()) {
    return Error(reason::kScalarUnknown, absl::StrCat("there is no scalar ", scalar));
  }
  ImageScalar& named = names_[scalar];
  const bool domain = named.type == kDomainScalar;
  if (domain != (info.type == kDomainScalar)) {
    return Error(reason::kScalarInvalid,
                 absl::StrCat("scalar '", info.name, "' is ", domain ? "a number" : "a domain",
                              ", and '", text.Get(named.name), "' is ",
                              domain ? "a domain" : "a number"))
        .With("scalar", info.name)
        .Hint(domain ? "" : "name the domain");
  }
  if (named.type != 0 && named.type != static_cast<uint32_t>(info.type)) {
    return Error(reason::kScalarInvalid, absl::StrCat("scalar '", text.Get(named.name),
                                                      "' is used as a float and as an integer"));
  }
  named.type = info.type;
  refs_.push_back(scalar);
  return absl::OkStatus();
}

absl::Status ScalarTable::AddTask(const pto_kernel_info& info,
                                  absl::Span<const ScalarInput> scalars, const TextTable& text) {
  if (scalars.size() != info.scalar_count) {
    return Error(reason::kScalarCount,
                 absl::StrCat("kernel '", info.name, "' takes ", info.scalar_count,
                              " scalars, not ", scalars.size()))
        .At("scalars")
        .With("kernel", info.name)
        .With("have", scalars.size())
        .With("want", info.scalar_count);
  }
  for (size_t i = 0; i < scalars.size(); ++i) {
    const ScalarInput& scalar = scalars[i];
    const auto field = [i] { return absl::StrCat("scalars[", i, "]"); };
    if (scalar.kind == ScalarInput::Kind::kNamed) {
      absl::Status used = UseNamed(scalar.named, info.scalars[i], text);
      if (!used.ok()) return PrefixField(used, field());
      continue;
    }
    absl::StatusOr<uint64_t> bits = Bits(scalar, info.scalars[i]);
    if (!bits.ok()) return PrefixField(bits.status(), field());
    if (info.control != PTO_CONTROL_NONE) {
      absl::Status known = CheckControlScalar(info, i, static_cast<int64_t>(*bits));
      if (!known.ok()) return PrefixField(known, field());
    }
    refs_.push_back(kOwn | static_cast<uint32_t>(own_values_.size()));
    own_values_.push_back(*bits);
  }
  return absl::OkStatus();
}

absl::Status ScalarTable::Write(const TextTable& text, ImageWriter& writer, ImageHeader& header) {
  // Named scalars first, then the tasks' own.
  BigVector<uint64_t> values;
  for (size_t i = 0; i < named_values_.size(); ++i) {
    const auto type = static_cast<pto_scalar_type>(
        names_[i].type == 0 ? static_cast<uint32_t>(PTO_FLOAT) : names_[i].type);
    const std::string name(text.Get(names_[i].name));
    absl::StatusOr<uint64_t> bits = Bits(named_values_[i], {name.c_str(), type});
    if (!bits.ok()) return PrefixField(bits.status(), absl::StrCat("scalars[", i, "].value"));
    values.push_back(*bits);
  }
  values.append(absl::MakeConstSpan(own_values_.data(), own_values_.size()));
  const auto named = static_cast<uint32_t>(named_values_.size());
  for (uint32_t& ref : refs_) {
    if ((ref & kOwn) != 0) ref = (ref & ~kOwn) + named;
  }
  header.scalar_names = writer.Add(names_);
  header.scalar_values = writer.Add(values);
  header.scalar_refs = writer.Add(refs_);
  return absl::OkStatus();
}

}  // namespace pto::engine
