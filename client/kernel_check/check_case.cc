#include "client/kernel_check/check_case.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/dtype.h"
#include "runtime/base/error.h"

namespace pto::kernel_check {
namespace {

constexpr int64_t kSizes[] = {1, 2, 3, 5, 7, 8, 16, 17, 33, 64, 100, 257};
constexpr uint32_t kBlocks[] = {1, 2, 3, 4, 7, 16};
constexpr Layout kLayouts[] = {Layout::kLeft,   Layout::kRight,   Layout::kOffset,
                               Layout::kPadded, Layout::kStrided, Layout::kTransposed};
constexpr int64_t kMostElements = 8192;
// The check needs some ten bytes for each byte of a tensor.
constexpr int64_t kMostElementsTogether = int64_t{1} << 24;
// So often shapes are chosen freely; then sizes become smaller.
constexpr int kFreeChoices = 100;
// Every this many cases, one has tensors without elements.
constexpr uint32_t kEmptyEvery = 13;

constexpr ValueRange kAnyValue = {-2, 2};

class Chooser {
 public:
  Chooser(const pto_kernel_info& info, const Options& options, uint32_t index, bool may_be_empty)
      : info_(info),
        options_(options),
        index_(index),
        empty_(may_be_empty && index % kEmptyEvery == kEmptyEvery - 1),
        random_(options.seed * 1'000'003 + index) {}

  absl::StatusOr<Case> Choose() {
    if (const absl::Status names = CheckNames(); !names.ok()) return names;
    Case chosen;
    chosen.index = index_;
    chosen.seed = random_();
    // The first case is the simplest one, so that a message about it is the easiest to understand.
    chosen.blocks = options_.blocks.empty() ? (index_ == 0 ? 1 : Any(kBlocks))
                                            : options_.blocks[index_ % options_.blocks.size()];
    for (int choice = 0; choice == 0 || (largest_ > 1 && !Fits(chosen)); ++choice) {
      if (choice >= kFreeChoices) largest_ /= 2;
      letters_.clear();
      together_.clear();
      chosen.arguments.clear();
      ChooseArguments(&chosen);
    }
    if (const absl::Status size = CheckSize(chosen); !size.ok()) return size;
    for (uint32_t i = 0; i < info_.scalar_count; ++i) chosen.scalars.push_back(ChooseScalar(i));
    return chosen;
  }

 private:
  template <typename T, size_t kCount>
  T Any(const T (&list)[kCount]) {
    return list[random_() % kCount];
  }

  // Sizes that are neither 0 nor given.
  int64_t Size(int64_t size) const { return std::min(size, largest_); }

  absl::Status CheckNames() const {
    std::vector<std::string> tensors, all;
    for (uint32_t i = 0; i < info_.argument_count; ++i) tensors.push_back(info_.arguments[i].name);
    all = tensors;
    for (uint32_t i = 0; i < info_.scalar_count; ++i) all.push_back(info_.scalars[i].name);
    const auto check = [](const char* option, const std::string& name,
                          const std::vector<std::string>& known) -> absl::Status {
      if (std::find(known.begin(), known.end(), name) != known.end()) return absl::OkStatus();
      return Error(reason::kUsage, absl::StrCat(option, ": the kernel has no '", name, "'; it has ",
                                                absl::StrJoin(known, ", ")));
    };
    for (const auto& [name, shape] : options_.shapes) {
      if (absl::Status known = check("--shape", name, tensors); !known.ok()) return known;
    }
    for (const auto& [name, values] : options_.values) {
      if (absl::Status known = check("--values", name, all); !known.ok()) return known;
    }
    return absl::OkStatus();
  }

  int64_t Letter(const std::string& letter) {
    const auto [place, added] = letters_.emplace(letter, 0);
    if (!added) return place->second;
    if (index_ == 0) return place->second = Size(8);
    return place->second = empty_ && letters_.size() == 1 ? 0 : Size(Any(kSizes));
  }

  void ChooseArguments(Case* chosen) {
    // Tensors that accept the same types get the same one: most kernels want that.
    std::map<uint32_t, uint32_t> types;
    for (uint32_t i = 0; i < info_.argument_count; ++i) {
      const pto_argument_info& info = info_.arguments[i];
      Case::Argument& argument = chosen->arguments.emplace_back();
      const auto [type, added] = types.emplace(info.dtypes, 0);
      if (added) type->second = ChooseType(info.dtypes);
      argument.dtype = type->second;
      argument.shape = ChooseShape(info.name);
      // Windows and signals are memory rather than views.
      const bool dense = options_.dense || info.direction == PTO_NO_DEPENDENCY;
      argument.layout = index_ == 0 ? Layout::kRight
                        : dense     ? kLayouts[random_() % 3]
                                    : Any(kLayouts);
      const auto values = options_.values.find(info.name);
      argument.values = values != options_.values.end() ? values->second : kAnyValue;
      const bool is_unsigned = argument.dtype >= PTO_U8;
      if (values == options_.values.end() && is_unsigned) argument.values = {0, 4};
    }
  }

  uint32_t ChooseType(uint32_t dtypes) {
    std::vector<uint32_t> list;
    for (uint32_t dtype = 1; dtype < 32; ++dtype) {
      if ((dtypes & PTO_DTYPE_BIT(dtype)) != 0 && kernels::DtypeSize(dtype) > 0) {
        list.push_back(dtype);
      }
    }
    return list.empty() ? static_cast<uint32_t>(PTO_F32) : list[random_() % list.size()];
  }

  std::vector<int64_t> ChooseShape(const std::string& name) {
    const auto wanted = options_.shapes.find(name);
    std::vector<int64_t> shape;
    if (wanted != options_.shapes.end()) {
      for (const Dimension& dimension : wanted->second) {
        shape.push_back(dimension.letter.empty() ? dimension.number : Letter(dimension.letter));
      }
      return shape;
    }
    if (together_.empty()) {
      const uint64_t ndim = index_ == 0 ? 1 : 1 + random_() % 3;
      for (uint64_t d = 0; d < ndim; ++d) {
        together_.push_back(index_ == 0 ? 16 : empty_ && d == 0 ? 0 : Size(Any(kSizes)));
      }
    }
    return together_;
  }

  // At most kMostElementsTogether + 1.
  static int64_t Elements(const std::vector<int64_t>& shape) {
    if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
    int64_t elements = 1;
    for (const int64_t dimension : shape) {
      if (dimension > kMostElementsTogether / elements) return kMostElementsTogether + 1;
      elements *= dimension;
    }
    return elements;
  }

  static absl::Status CheckSize(const Case& chosen) {
    int64_t elements = 0;
    for (const Case::Argument& argument : chosen.arguments) elements += Elements(argument.shape);
    if (elements <= kMostElementsTogether) return absl::OkStatus();
    return Error(reason::kUsage, absl::StrCat("--shape: the tensors have more than ",
                                              kMostElementsTogether, " elements together"));
  }

  bool Fits(const Case& chosen) const {
    for (uint32_t i = 0; i < info_.argument_count; ++i) {
      const int64_t elements = Elements(chosen.arguments[i].shape);
      // Dimensions that are all given cannot become smaller.
      const auto wanted = options_.shapes.find(info_.arguments[i].name);
      const bool fixed =
          wanted != options_.shapes.end() &&
          std::all_of(wanted->second.begin(), wanted->second.end(),
                      [](const Dimension& dimension) { return dimension.letter.empty(); });
      if (!fixed && elements > kMostElements) {
        // A given dimension may be that large itself.
        if (wanted == options_.shapes.end()) return false;
        for (const Dimension& dimension : wanted->second) {
          if (dimension.letter.empty() && dimension.number > kMostElements / 8) return true;
        }
        return false;
      }
    }
    return true;
  }

  pto_scalar ChooseScalar(uint32_t i) {
    const auto values = options_.values.find(info_.scalars[i].name);
    const double unit = static_cast<double>(random_() >> 11) * 0x1p-53;
    pto_scalar scalar;
    if (info_.scalars[i].type == PTO_FLOAT) {
      const ValueRange range = values != options_.values.end() ? values->second : kAnyValue;
      scalar.f64 = range.low + unit * (range.high - range.low);
    } else {
      const ValueRange range = values != options_.values.end() ? values->second : ValueRange{0, 4};
      scalar.i64 = static_cast<int64_t>(
          std::floor(range.low + unit * (std::floor(range.high) - std::ceil(range.low) + 1)));
    }
    return scalar;
  }

  const pto_kernel_info& info_;
  const Options& options_;
  const uint32_t index_;
  const bool empty_;
  std::mt19937_64 random_;
  int64_t largest_ = 512;  // more than all kSizes
  std::map<std::string, int64_t> letters_;
  std::vector<int64_t> together_;
};

}  // namespace

absl::StatusOr<Case> MakeCase(const pto_kernel_info& info, const Options& options, uint32_t index,
                              bool may_be_empty) {
  return Chooser(info, options, index, may_be_empty).Choose();
}

std::string Case::Describe(const pto_kernel_info& info) const {
  std::vector<std::string> parts;
  for (size_t i = 0; i < arguments.size(); ++i) {
    parts.push_back(absl::StrCat(
        info.arguments[i].name, " ", absl::AsciiStrToLower(kernels::DtypeName(arguments[i].dtype)),
        "[", absl::StrJoin(arguments[i].shape, ","), "] ", LayoutName(arguments[i].layout)));
  }
  for (size_t i = 0; i < scalars.size(); ++i) {
    parts.push_back(info.scalars[i].type == PTO_FLOAT
                        ? absl::StrCat(info.scalars[i].name, "=", scalars[i].f64)
                        : absl::StrCat(info.scalars[i].name, "=", scalars[i].i64));
  }
  parts.push_back(blocks == 1 ? "1 block" : absl::StrCat(blocks, " blocks"));
  return absl::StrJoin(parts, ", ");
}

}  // namespace pto::kernel_check
