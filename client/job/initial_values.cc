#include "client/job/initial_values.h"

#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/job/npy.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::job {
namespace {

using pto::v1::DType;

absl::Status Refuse(absl::string_view field, absl::string_view message) {
  return Error(reason::kFieldInvalid, message).At(field);
}

absl::Status DoesNotFit(absl::string_view field, DType dtype, double value) {
  return Refuse(field, absl::StrCat(value, " cannot be stored as ", pto::v1::DType_Name(dtype)));
}

// Splitmix64: small and easy to reproduce in other languages.
uint64_t NextRandom(uint64_t* state) {
  uint64_t z = (*state += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

absl::Status FillIota(const v1::Iota& iota, Array* array) {
  const double step = iota.step() == 0 ? 1 : iota.step();
  const auto last = static_cast<double>(array->size() - 1);
  for (double value : {iota.start(), iota.start() + step * last}) {
    if (!Fits(array->dtype, value)) return DoesNotFit("iota", array->dtype, value);
  }
  if (IsInteger(array->dtype) && step != std::nearbyint(step)) {
    return DoesNotFit("iota.step", array->dtype, step);
  }
  for (int64_t i = 0; i < array->size(); ++i) {
    array->Set(i, iota.start() + step * static_cast<double>(i));
  }
  return absl::OkStatus();
}

absl::Status FillRandom(const v1::Random& random, Array* array) {
  const double low = random.low();
  const double high = low == 0 && random.high() == 0 ? 1 : random.high();
  if (!std::isfinite(low) || !std::isfinite(high) || !(low < high)) {
    return Refuse("random.high",
                  absl::StrCat("expected a value above low (", low, "), got ", high));
  }
  const bool whole = IsInteger(array->dtype);
  for (double value : {low, whole ? high - 1 : high}) {
    if (!Fits(array->dtype, value)) return DoesNotFit("random", array->dtype, value);
  }
  uint64_t state = random.seed();
  for (int64_t i = 0; i < array->size(); ++i) {
    // 53 random bits give a double in [0, 1).
    const double unit = std::scalbn(static_cast<double>(NextRandom(&state) >> 11), -53);
    const double value = low + unit * (high - low);
    array->Set(i, whole ? std::floor(value) : value);
  }
  return absl::OkStatus();
}

absl::Status FillInline(const v1::Inline& numbers, Array* array) {
  if (numbers.values_size() != array->size()) {
    return Refuse("inline.values",
                  absl::StrCat("expected ", array->size(), " values for the shape ",
                               ShapeText(array->shape), ", got ", numbers.values_size()));
  }
  for (int i = 0; i < numbers.values_size(); ++i) {
    if (!Fits(array->dtype, numbers.values(i))) {
      return DoesNotFit(absl::StrCat("inline.values[", i, "]"), array->dtype, numbers.values(i));
    }
    array->Set(i, numbers.values(i));
  }
  return absl::OkStatus();
}

absl::Status FillNpy(const std::string& path, Array* array) {
  absl::StatusOr<Array> read = ReadNpy(path);
  if (!read.ok()) return Refuse("npy", read.status().message());
  if (read->size() != array->size()) {
    return Refuse("npy",
                  absl::StrCat(path, ": expected ", array->size(), " elements for the shape ",
                               ShapeText(array->shape), ", got ", ShapeText(read->shape)));
  }
  if (read->dtype == array->dtype) {
    array->bytes = std::move(read->bytes);
    return absl::OkStatus();
  }
  for (int64_t i = 0; i < array->size(); ++i) {
    const double value = read->Get(i);
    if (!Fits(array->dtype, value)) return DoesNotFit("npy", array->dtype, value);
    array->Set(i, value);
  }
  return absl::OkStatus();
}

}  // namespace

std::string RelativeTo(const std::string& folder, const std::string& path) {
  return folder.empty() || absl::StartsWith(path, "/") ? path : absl::StrCat(folder, "/", path);
}

absl::StatusOr<Array> MakeValues(const v1::Values& values, DType dtype,
                                 absl::Span<const int64_t> shape, const std::string& folder) {
  Array array = MakeArray(dtype, shape);
  switch (values.kind_case()) {
    case v1::Values::kZeros:
      if (!values.zeros()) return Refuse("zeros", "expected true, or a different kind of values");
      return array;
    case v1::Values::kConstant:
      if (!Fits(dtype, values.constant())) return DoesNotFit("constant", dtype, values.constant());
      for (int64_t i = 0; i < array.size(); ++i) array.Set(i, values.constant());
      return array;
    case v1::Values::kIota:
      PTO_RETURN_IF_ERROR(FillIota(values.iota(), &array));
      return array;
    case v1::Values::kRandom:
      PTO_RETURN_IF_ERROR(FillRandom(values.random(), &array));
      return array;
    case v1::Values::kInline:
      PTO_RETURN_IF_ERROR(FillInline(values.inline_(), &array));
      return array;
    case v1::Values::kNpy:
      PTO_RETURN_IF_ERROR(FillNpy(RelativeTo(folder, values.npy()), &array));
      return array;
    case v1::Values::KIND_NOT_SET:
      break;
  }
  return Refuse("", "expected one of zeros, constant, iota, random, inline, npy");
}

}  // namespace pto::job
