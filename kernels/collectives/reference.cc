#include "kernels/collectives/reference.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>

#include "kernels/dtype.h"

namespace pto::kernels::collectives {
namespace {

float BfloatToFloat(uint64_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

// Rounds to nearest, ties to even. For finite numbers.
uint64_t FloatToBfloat(float value) {
  const uint32_t below = std::bit_cast<uint32_t>(value) >> 16;
  const double low = BfloatToFloat(below);
  if (low == static_cast<double>(value)) return below;
  const double high = BfloatToFloat(below + 1);
  const double to_low = std::abs(static_cast<double>(value) - low);
  const double to_high = std::abs(high - static_cast<double>(value));
  if (to_low != to_high) return to_low < to_high ? below : below + 1;
  return below % 2 == 0 ? below : below + 1;
}

// Calls `use` with an integer as large as an element.
template <typename Use>
void WithSize(uint32_t dtype, Use use) {
  switch (DtypeSize(dtype)) {
    case 1:
      return use(uint8_t{});
    case 2:
      return use(uint16_t{});
    case 4:
      return use(uint32_t{});
    default:
      return use(uint64_t{});
  }
}

template <typename T>
T Combine(int64_t op, T a, T b) {
  switch (op) {
    case 1:
      return a + b;
    case 2:
      return a * b;
    case 3:
      return b > a ? b : a;
    default:
      return b < a ? b : a;
  }
}

int64_t SignExtend(uint64_t bits, size_t bytes) {
  const int shift = static_cast<int>(64 - 8 * bytes);
  return static_cast<int64_t>(bits << shift) >> shift;
}

bool IsSigned(uint32_t dtype) { return dtype >= PTO_I8 && dtype <= PTO_I64; }

uint64_t ReduceIntegers(uint32_t dtype, int64_t op, const std::vector<uint64_t>& elements) {
  const size_t bytes = DtypeSize(dtype);
  const uint64_t mask = bytes == 8 ? ~uint64_t{0} : (uint64_t{1} << (8 * bytes)) - 1;
  uint64_t result = elements[0];
  for (size_t i = 1; i < elements.size(); ++i) {
    if (op <= 2 || !IsSigned(dtype)) {
      result = Combine(op, result, elements[i]) & mask;
    } else {
      result = static_cast<uint64_t>(
                   Combine(op, SignExtend(result, bytes), SignExtend(elements[i], bytes))) &
               mask;
    }
  }
  return result;
}

void Append(const Elements& from, size_t first, size_t count, Elements* to) {
  to->insert(to->end(), from.begin() + static_cast<ptrdiff_t>(first),
             from.begin() + static_cast<ptrdiff_t>(first + count));
}

// Element i of the result is the reduction of element i of all inputs.
Elements ReduceAll(uint32_t dtype, int64_t op, const std::vector<PlainRank>& ranks) {
  Elements result;
  std::vector<uint64_t> column;
  for (size_t i = 0; i < ranks[0].in.size(); ++i) {
    column.clear();
    for (const PlainRank& rank : ranks) column.push_back(rank.in[i]);
    result.push_back(PlainReduce(dtype, op, column));
  }
  return result;
}

void PlainAllToAllV(std::vector<PlainRank>* ranks) {
  std::vector<size_t> sent(ranks->size());
  for (size_t to = 0; to < ranks->size(); ++to) {
    Elements received;
    for (size_t from = 0; from < ranks->size(); ++from) {
      const auto count = static_cast<size_t>((*ranks)[from].send_counts[to]);
      Append((*ranks)[from].in, sent[from], count, &received);
      sent[from] += count;
    }
    std::copy(received.begin(), received.end(), (*ranks)[to].out.begin());
  }
}

}  // namespace

Elements LoadElements(uint32_t dtype, const std::byte* from, int64_t count) {
  Elements elements(static_cast<size_t>(count));
  const auto load = [&](auto type) {
    for (uint64_t& element : elements) {
      std::memcpy(&element, from, sizeof type);
      from += sizeof type;
    }
  };
  WithSize(dtype, load);
  return elements;
}

void StoreElements(uint32_t dtype, const Elements& elements, std::byte* to) {
  const auto store = [&](auto type) {
    for (const uint64_t element : elements) {
      std::memcpy(to, &element, sizeof type);
      to += sizeof type;
    }
  };
  WithSize(dtype, store);
}

bool IsFloating(uint32_t dtype) { return dtype >= PTO_F32 && dtype <= PTO_F64; }

double EpsilonOf(uint32_t dtype) {
  switch (dtype) {
    case PTO_F16:
      return 0x1p-10;
    case PTO_BF16:
      return 0x1p-7;
    case PTO_F64:
      return 0x1p-52;
    default:
      return 0x1p-23;
  }
}

double ToDouble(uint32_t dtype, uint64_t bits) {
  switch (dtype) {
    case PTO_F32:
      return std::bit_cast<float>(static_cast<uint32_t>(bits));
    case PTO_F16:
      return static_cast<double>(std::bit_cast<_Float16>(static_cast<uint16_t>(bits)));
    case PTO_BF16:
      return BfloatToFloat(bits);
    case PTO_F64:
      return std::bit_cast<double>(bits);
    default:
      return static_cast<double>(SignExtend(bits, DtypeSize(dtype)));
  }
}

uint64_t FromDouble(uint32_t dtype, double value) {
  switch (dtype) {
    case PTO_F32:
      return std::bit_cast<uint32_t>(static_cast<float>(value));
    case PTO_F16:
      return std::bit_cast<uint16_t>(static_cast<_Float16>(static_cast<float>(value)));
    case PTO_BF16:
      return FloatToBfloat(static_cast<float>(value));
    case PTO_F64:
      return std::bit_cast<uint64_t>(value);
    default:
      return static_cast<uint64_t>(static_cast<int64_t>(value)) &
             (~uint64_t{0} >> (64 - 8 * DtypeSize(dtype)));
  }
}

uint64_t PlainReduce(uint32_t dtype, int64_t op, const std::vector<uint64_t>& elements) {
  if (!IsFloating(dtype)) return ReduceIntegers(dtype, op, elements);
  if (elements.size() == 1) return elements[0];
  if (dtype == PTO_F64) {
    double result = ToDouble(dtype, elements[0]);
    for (size_t i = 1; i < elements.size(); ++i) {
      result = Combine(op, result, ToDouble(dtype, elements[i]));
    }
    return FromDouble(dtype, result);
  }
  auto result = static_cast<float>(ToDouble(dtype, elements[0]));
  for (size_t i = 1; i < elements.size(); ++i) {
    result = Combine(op, result, static_cast<float>(ToDouble(dtype, elements[i])));
  }
  return FromDouble(dtype, static_cast<double>(result));
}

void PlainCollective(absl::string_view kernel, uint32_t dtype, const std::vector<int64_t>& scalars,
                     std::vector<PlainRank>* ranks) {
  const size_t size = ranks->size();
  if (kernel == "all_reduce") {
    const Elements result = ReduceAll(dtype, scalars[0], *ranks);
    for (PlainRank& rank : *ranks) rank.out = result;
  } else if (kernel == "reduce") {
    (*ranks)[static_cast<size_t>(scalars[1])].out = ReduceAll(dtype, scalars[0], *ranks);
  } else if (kernel == "reduce_scatter") {
    const Elements result = ReduceAll(dtype, scalars[0], *ranks);
    const size_t part = result.size() / size;
    for (size_t r = 0; r < size; ++r) {
      (*ranks)[r].out.clear();
      Append(result, r * part, part, &(*ranks)[r].out);
    }
  } else if (kernel == "broadcast") {
    const Elements result = (*ranks)[static_cast<size_t>(scalars[0])].in;
    for (PlainRank& rank : *ranks) rank.out = result;
  } else if (kernel == "all_gather" || kernel == "gather") {
    Elements result;
    for (const PlainRank& rank : *ranks) Append(rank.in, 0, rank.in.size(), &result);
    for (size_t r = 0; r < size; ++r) {
      if (kernel == "all_gather" || r == static_cast<size_t>(scalars[0])) (*ranks)[r].out = result;
    }
  } else if (kernel == "scatter") {
    const Elements all = (*ranks)[static_cast<size_t>(scalars[0])].in;
    for (size_t r = 0; r < size; ++r) {
      (*ranks)[r].out.clear();
      Append(all, r * (all.size() / size), all.size() / size, &(*ranks)[r].out);
    }
  } else if (kernel == "send_recv") {
    (*ranks)[static_cast<size_t>(scalars[1])].out = (*ranks)[static_cast<size_t>(scalars[0])].in;
  } else if (kernel == "all_to_all") {
    const size_t part = (*ranks)[0].in.size() / size;
    for (PlainRank& rank : *ranks) {
      rank.send_counts.assign(size, static_cast<int64_t>(part));
    }
    PlainAllToAllV(ranks);
  } else if (kernel == "all_to_all_v") {
    PlainAllToAllV(ranks);
  } else if (kernel != "barrier") {
    std::abort();
  }
}

}  // namespace pto::kernels::collectives
