#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "kernels/block.h"
#include "kernels/builtin.h"
#include "kernels/check.h"
#include "kernels/cost.h"
#include "kernels/dtype.h"
#include "kernels/tile.h"
#include "kernels/work_meter.h"

// Selects, scales and adds up matrix rows by index: the building blocks for routing tokens to
// experts.
namespace pto::kernels {
namespace {

constexpr uint32_t kFloats =
    PTO_DTYPE_BIT(PTO_F32) | PTO_DTYPE_BIT(PTO_F16) | PTO_DTYPE_BIT(PTO_BF16);
constexpr uint32_t kIndices = PTO_DTYPE_BIT(PTO_I32);
constexpr pto_argument_info kTakeArguments[] = {{"in", PTO_INPUT, PTO_DTYPE_ALL},
                                                {"index", PTO_INPUT, kIndices},
                                                {"out", PTO_OUTPUT, PTO_DTYPE_ALL}};
constexpr pto_argument_info kScaleArguments[] = {{"in", PTO_INPUT, kFloats},
                                                 {"weight", PTO_INPUT, PTO_DTYPE_BIT(PTO_F32)},
                                                 {"out", PTO_OUTPUT, kFloats}};
constexpr pto_argument_info kSumArguments[] = {
    {"in", PTO_INPUT, kFloats}, {"index", PTO_INPUT, kIndices}, {"out", PTO_OUTPUT, kFloats}};

// Row i of out depends on row i of in, whose elements are read before those of out are written.
constexpr pto_overlap_info kScaleOverlaps[] = {{}, {}, {.same = PTO_ARGUMENT_BIT(0), .any = 0}};

// Elements of a row that are processed at a time.
constexpr int64_t kTile = 256;
// The work of looking up a row.
constexpr int64_t kRowWork = WorkMeter::kFar;

template <typename T>
T* Row(const pto_tensor& matrix, int64_t row) {
  return static_cast<T*>(matrix.data) + row * matrix.strides[0];
}

int64_t Width(const pto_tensor& matrix) { return matrix.shape[1]; }

// Returns an element of an index tensor, which must be a row of `in`; -1 if it is not. Read once,
// so that a concurrent writer cannot change it between check and use.
int64_t IndexAt(const pto_tensor& index, int64_t offset, const pto_tensor& in) {
  const int64_t row =
      __atomic_load_n(static_cast<const int32_t*>(index.data) + offset, __ATOMIC_RELAXED);
  return row >= 0 && row < in.shape[0] ? row : -1;
}

int32_t WrongIndex(const pto_context* context, int64_t offset) {
  const pto_tensor& index = context->tensors[1];
  return Fail(context,
              absl::StrCat("index ", static_cast<const int32_t*>(index.data)[offset],
                           " is not one of the ", context->tensors[0].shape[0], " rows of in"));
}

// Copies a row, which may be long. Returns false if the block has to return.
bool CopyRow(std::byte* to, const std::byte* from, size_t bytes, WorkMeter& meter) {
  // Counted as if each byte were an element, so a piece takes much less time than it counts.
  for (size_t at = 0; at < bytes;) {
    const size_t piece = std::min<size_t>(bytes - at, WorkMeter::kPiece);
    if (!meter.Spend(static_cast<int64_t>(piece))) return false;
    std::memcpy(to + at, from + at, piece);
    at += piece;
  }
  return true;
}

int32_t TakeRows(const pto_context* context) {
  const pto_tensor& in = context->tensors[0];
  const pto_tensor& index = context->tensors[1];
  const pto_tensor& out = context->tensors[2];
  const size_t element = DtypeSize(in.dtype);
  const auto bytes = static_cast<size_t>(Width(in)) * element;
  const Share share = BlockShare(context, out.shape[0]);
  WorkMeter meter(context);
  for (int64_t i = share.begin; i < share.end; ++i) {
    if (!meter.Spend(kRowWork)) return 0;
    const int64_t row = IndexAt(index, i * index.strides[0], in);
    if (row < 0) return WrongIndex(context, i * index.strides[0]);
    if (bytes == 0) continue;
    if (!CopyRow(
            static_cast<std::byte*>(out.data) + static_cast<size_t>(i * out.strides[0]) * element,
            static_cast<const std::byte*>(in.data) +
                static_cast<size_t>(row * in.strides[0]) * element,
            bytes, meter)) {
      return 0;
    }
  }
  return 0;
}

// Calls `use(first, count)` for pieces of a row, and counts each of their elements as `work`.
// Returns false if the block has to return: when `use` does, or before a piece.
template <typename Use>
bool ForTiles(int64_t width, int64_t work, WorkMeter& meter, Use use) {
  for (int64_t at = 0; at < width; at += kTile) {
    const int64_t count = std::min(kTile, width - at);
    if (!meter.Spend(count * work) || !use(at, count)) return false;
  }
  return true;
}

void Store(const float* from, int64_t count, float* to) {
  std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
}
void Store(const float* from, int64_t count, F16* to) { StoreTile(from, count, to, 1); }
void Store(const float* from, int64_t count, BF16* to) { StoreTile(from, count, to, 1); }

template <typename Visit>
int32_t WithFloatType(const pto_context* context, Visit visit) {
  switch (context->tensors[0].dtype) {
    case PTO_F16:
      return visit(F16{});
    case PTO_BF16:
      return visit(BF16{});
    default:
      return visit(float{});
  }
}

int32_t ScaleRows(const pto_context* context) {
  return WithFloatType(context, [context](auto type) {
    using T = decltype(type);
    const pto_tensor& in = context->tensors[0];
    const pto_tensor& weight = context->tensors[1];
    const pto_tensor& out = context->tensors[2];
    const Share share = BlockShare(context, out.shape[0]);
    float tile[kTile];
    WorkMeter meter(context);
    for (int64_t i = share.begin; i < share.end; ++i) {
      if (!meter.Spend(kRowWork)) return 0;
      const float factor = static_cast<const float*>(weight.data)[i * weight.strides[0]];
      const bool done = ForTiles(Width(in), 1, meter, [&](int64_t at, int64_t count) {
        LoadTile(Row<const T>(in, i) + at, 1, count, tile);
        for (int64_t j = 0; j < count; ++j) tile[j] *= factor;
        Store(tile, count, Row<T>(out, i) + at);
        return true;
      });
      if (!done) return 0;
    }
    return 0;
  });
}

int32_t SumRows(const pto_context* context) {
  return WithFloatType(context, [context](auto type) -> int32_t {
    using T = decltype(type);
    const pto_tensor& in = context->tensors[0];
    const pto_tensor& index = context->tensors[1];
    const pto_tensor& out = context->tensors[2];
    const int64_t terms = index.shape[1];
    float sum[kTile];
    float tile[kTile];
    const Share share = BlockShare(context, out.shape[0]);
    WorkMeter meter(context);
    // The indices are read again for every tile: there may be too many to remember them.
    const auto add = [&](int64_t i, int64_t at, int64_t count) -> int32_t {
      for (int64_t k = 0; k < terms; ++k) {
        if (!meter.Spend(kRowWork + count)) return 0;
        const int64_t offset = i * index.strides[0] + k * index.strides[1];
        const int64_t row = IndexAt(index, offset, in);
        if (row < 0) return WrongIndex(context, offset);
        if (count == 0) continue;
        LoadTile(Row<const T>(in, row) + at, 1, count, tile);
        for (int64_t j = 0; j < count; ++j) sum[j] += tile[j];
      }
      return 0;
    };
    for (int64_t i = share.begin; i < share.end; ++i) {
      if (!meter.Spend(kRowWork)) return 0;
      // A row without elements still has indices to check.
      int32_t failed = Width(in) == 0 ? add(i, 0, 0) : 0;
      const bool done = ForTiles(Width(in), 1, meter, [&](int64_t at, int64_t count) {
        std::memset(sum, 0, sizeof sum);
        failed = add(i, at, count);
        if (failed != 0 || meter.stopped()) return false;
        Store(sum, count, Row<T>(out, i) + at);
        return true;
      });
      if (failed != 0) return failed;
      if (!done) return 0;
    }
    return 0;
  });
}

// Checks that in and out are matrices of one type and width with contiguous rows.
int32_t CheckMatrices(const Check& check, uint32_t index_dims) {
  if (int32_t refused = check.Count()) return refused;
  const pto_tensor& in = check.tensors[0];
  const pto_tensor& index = check.tensors[1];
  const pto_tensor& out = check.tensors[2];
  if (in.ndim != 2 || out.ndim != 2 || in.dtype != out.dtype || Width(in) != Width(out)) {
    return check.Refuse(absl::StrCat(check.Describe(0), ", ", check.Describe(2),
                                     "; expected matrices of one type and width"));
  }
  if ((Width(in) > 1 && (in.strides[1] != 1 || out.strides[1] != 1))) {
    return check.Refuse("the rows of in and out must be contiguous");
  }
  if (index.ndim != index_dims || index.shape[0] != out.shape[0]) {
    return check.Refuse(absl::StrCat(check.Describe(1), ", ", check.Describe(2),
                                     "; expected as many as out has rows, in ", index_dims,
                                     " dimensions"));
  }
  return 0;
}

int32_t CheckTake(const pto_tensor* tensors, uint32_t count, char* message, size_t size) {
  return CheckMatrices(Check{"take_rows", kTakeArguments, tensors, count, message, size}, 1);
}

int32_t CheckScale(const pto_tensor* tensors, uint32_t count, char* message, size_t size) {
  const Check check{"scale_rows", kScaleArguments, tensors, count, message, size};
  if (int32_t refused = CheckMatrices(check, 1)) return refused;
  if (tensors[0].shape[0] == tensors[2].shape[0]) return 0;
  return check.Refuse(
      absl::StrCat(check.Describe(0), ", ", check.Describe(2), "; expected as many rows"));
}

int32_t CheckSum(const pto_tensor* tensors, uint32_t count, char* message, size_t size) {
  return CheckMatrices(Check{"sum_rows", kSumArguments, tensors, count, message, size}, 2);
}

double CostOfOut(const pto_tensor* tensors, uint32_t) { return CostOfAll(tensors + 2, 1); }

double CostOfSum(const pto_tensor* tensors, uint32_t) {
  return CountOf(tensors[2]) * static_cast<double>(tensors[1].shape[1]) * kNsPerElement;
}

constexpr pto_kernel_info Kernel(const char* name, const char* description,
                                 pto_kernel_function function, pto_check_function check,
                                 const pto_argument_info* arguments,
                                 const pto_overlap_info* overlaps, pto_cost_function cost) {
  return {
      .struct_size = sizeof(pto_kernel_info),
      .name = name,
      .description = description,
      .function = function,
      .check = check,
      .default_core = PTO_AIV,
      .arguments = arguments,
      .argument_count = 3,
      .scalars = nullptr,
      .scalar_count = 0,
      .requires_sync_start = 0,
      .flags = 0,
      .control = PTO_CONTROL_NONE,
      .overlaps = overlaps,
      .cost = cost,
  };
}

constexpr pto_kernel_info kKernels[] = {
    Kernel("take_rows", "Row i of out is row index[i] of in.", TakeRows, CheckTake, kTakeArguments,
           nullptr, CostOfOut),
    Kernel("scale_rows", "Row i of out is row i of in, times weight[i].", ScaleRows, CheckScale,
           kScaleArguments, kScaleOverlaps, CostOfOut),
    Kernel("sum_rows", "Row i of out is the sum of rows index[i,0], index[i,1], … of in.", SumRows,
           CheckSum, kSumArguments, nullptr, CostOfSum),
};

}  // namespace

absl::Span<const pto_kernel_info> RowKernels() { return kKernels; }

}  // namespace pto::kernels
