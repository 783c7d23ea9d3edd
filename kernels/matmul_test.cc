#include <atomic>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kernels/dtype.h"
#include "kernels/kernel_tester.h"

namespace pto::kernels {
namespace {

struct Size {
  int64_t m;
  int64_t n;
  int64_t k;
};

// The last ones exceed a tile of the kernel in one dimension each.
constexpr Size kSizes[] = {{1, 1, 1},   {1, 7, 5},   {7, 1, 5},   {7, 5, 1},   {3, 5, 7},
                           {17, 3, 31}, {0, 3, 4},   {3, 0, 4},   {3, 4, 0},   {0, 0, 0},
                           {33, 65, 9}, {300, 5, 3}, {3, 530, 4}, {3, 4, 1030}};

// Checks one element at a time, within the accumulated rounding error.
void ExpectProduct(const TestTensor& a, const TestTensor& b, const TestTensor& out,
                   const Size& size) {
  for (int64_t i = 0; i < size.m; ++i) {
    for (int64_t j = 0; j < size.n; ++j) {
      const int64_t at = i * size.n + j;
      if (IsFloat(out.dtype())) {
        double sum = 0;
        double magnitude = 0;
        for (int64_t k = 0; k < size.k; ++k) {
          const double product = a.Float(i * size.k + k) * b.Float(k * size.n + j);
          sum += product;
          magnitude += std::fabs(product);
        }
        const double error = Epsilon(out.dtype()) * std::fabs(sum) +
                             Epsilon(PTO_F32) * static_cast<double>(size.k) * magnitude;
        ASSERT_NEAR(out.Float(at), sum, error) << i << "," << j;
      } else {
        unsigned __int128 sum = 0;
        for (int64_t k = 0; k < size.k; ++k) {
          sum += static_cast<__int128>(a.Int(i * size.k + k)) * b.Int(k * size.n + j);
        }
        ASSERT_EQ(out.Int(at), out.dtype() == PTO_I32
                                   ? static_cast<int32_t>(static_cast<uint32_t>(sum))
                                   : static_cast<int64_t>(static_cast<uint64_t>(sum)))
            << i << "," << j;
      }
    }
  }
}

class MatmulTest : public ::testing::TestWithParam<uint32_t> {};

TEST_P(MatmulTest, AgreesWithReference) {
  const uint32_t dtype = GetParam();
  for (const Size& size : kSizes) {
    for (Layout of_a : kAllLayouts) {
      for (Layout of_b : kAllLayouts) {
        const Layout of_out = Other(of_a);
        for (uint32_t blocks : {1u, 3u, 40u}) {
          SCOPED_TRACE(absl::StrCat("[", size.m, ",", size.k, "] ", LayoutName(of_a), " * [",
                                    size.k, ",", size.n, "] ", LayoutName(of_b), " -> ",
                                    LayoutName(of_out), ", ", blocks, " blocks"));
          TestTensor a(dtype, {size.m, size.k}, of_a);
          TestTensor b(dtype, {size.k, size.n}, of_b);
          // The previous contents of out, some of them NaN, must not matter.
          TestTensor out(dtype, {size.m, size.n}, of_out);
          for (int64_t i = 0; IsFloat(dtype) && i < out.size(); ++i) out.SetFloat(i, NAN);
          a.Randomise(1);
          b.Randomise(2);
          ASSERT_EQ(RunKernel(Builtin("matmul"), {&a, &b, &out}, {}, blocks).code, 0);
          ExpectProduct(a, b, out, size);
          ASSERT_TRUE(out.GapsUntouched());
          if (HasFailure()) return;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, MatmulTest, ::testing::ValuesIn(kArithmeticDtypes),
                         [](const auto& test) { return DtypeName(test.param); });

// Views with any strides, for example overlapping rows, must neither crash nor be wrong.
TEST(MatmulStridesTest, AnyStrides) {
  std::mt19937 random(5);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % n); };
  for (int round = 0; round < 1000; ++round) {
    // Sometimes larger than a tile of the product.
    const int64_t most = round % 10 == 0 ? 60 : 6;
    const Size size{below(most) + 1, below(most) + 1, below(most) + 1};
    std::vector<float> memory_a(1200);
    std::vector<float> memory_b(1200);
    std::vector<float> memory_out(12000, NAN);
    for (float& value : memory_a) value = static_cast<float>(below(17)) - 8;
    for (float& value : memory_b) value = static_cast<float>(below(17)) - 8;
    const auto view = [&](std::vector<float>& memory, int64_t rows, int64_t columns,
                          int64_t row_stride, int64_t column_stride) {
      // The stride of a dimension of size 1 is arbitrary.
      if (rows == 1 && below(2) == 0) row_stride = int64_t{1} << 60;
      if (columns == 1 && below(2) == 0) column_stride = int64_t{1} << 60;
      return pto_tensor{memory.data(), PTO_F32, 2, {rows, columns}, {row_stride, column_stride}};
    };
    const int64_t out_columns = size.n + below(3);
    const int64_t out_step = 1 + below(3);
    const bool transposed = below(2) == 0;
    const pto_tensor tensors[] = {
        view(memory_a, size.m, size.k, 1 + below(9), 1 + below(9)),
        view(memory_b, size.k, size.n, 1 + below(9), 1 + below(9)),
        transposed ? view(memory_out, size.m, size.n, out_step, out_step * (size.m + below(3)))
                   : view(memory_out, size.m, size.n, out_step * out_columns, out_step)};
    pto_context context{};
    context.block_count = 1;
    context.tensor_count = 3;
    context.tensors = tensors;
    ASSERT_EQ(Builtin("matmul").function(&context), 0);
    const auto at = [](const pto_tensor& tensor, int64_t i, int64_t j) {
      return static_cast<const float*>(
          tensor.data)[(i == 0 ? 0 : i * tensor.strides[0]) + (j == 0 ? 0 : j * tensor.strides[1])];
    };
    for (int64_t i = 0; i < size.m; ++i) {
      for (int64_t j = 0; j < size.n; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < size.k; ++k) sum += at(tensors[0], i, k) * at(tensors[1], k, j);
        ASSERT_EQ(at(tensors[2], i, j), sum) << round;  // small integers: exact
      }
    }
  }
}

// The bits of an element depend only on its row of a and its column of b: not on its position, the
// sizes, the strides or the blocks. So each must equal the product of that row and that column
// alone.
TEST_P(MatmulTest, BitsDependOnRowAndColumnAlone) {
  const uint32_t dtype = GetParam();
  const pto_kernel_info& info = Builtin("matmul");
  std::mt19937 random(7);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % n); };
  for (int round = 0; round < 30; ++round) {
    // Odd sizes, and some larger than what the kernel packs or sums at a time.
    const int64_t most = round % 3 == 0 ? 240 : 40;
    const Size size{below(most) + 1, below(most) + 1, 1 + below(round % 2 == 0 ? 700 : 40)};
    TestTensor a(dtype, {size.m, size.k});
    TestTensor b(dtype, {size.k, size.n});
    a.Randomise(static_cast<uint32_t>(2 * round));
    b.Randomise(static_cast<uint32_t>(2 * round + 1));
    TestTensor whole(dtype, {size.m, size.n});
    ASSERT_EQ(RunKernel(info, {&a, &b, &whole}).code, 0);

    // Some single elements, including the last row and column.
    for (int sample = 0; sample < 12; ++sample) {
      const int64_t i = sample % 3 == 0 ? size.m - 1 : below(size.m);
      const int64_t j = sample % 2 == 0 ? size.n - 1 : below(size.n);
      TestTensor row(dtype, {1, size.k});
      TestTensor column(dtype, {size.k, 1});
      TestTensor alone(dtype, {1, 1});
      for (int64_t k = 0; k < size.k; ++k) {
        row.SetBits(k, a.Bits(i * size.k + k));
        column.SetBits(k, b.Bits(k * size.n + j));
      }
      ASSERT_EQ(RunKernel(info, {&row, &column, &alone}).code, 0);
      ASSERT_EQ(alone.Bits(0), whole.Bits(i * size.n + j))
          << "[" << i << "," << j << "] of [" << size.m << "," << size.k << "] * [" << size.k << ","
          << size.n << "]";
    }

    // The whole product with other strides and blocks.
    for (Layout of_a : kAllLayouts) {
      const Layout of_b = kAllLayouts[below(5)];
      const Layout of_out = kAllLayouts[below(5)];
      TestTensor other_a(dtype, {size.m, size.k}, of_a);
      TestTensor other_b(dtype, {size.k, size.n}, of_b);
      TestTensor out(dtype, {size.m, size.n}, of_out);
      for (int64_t i = 0; i < a.size(); ++i) other_a.SetBits(i, a.Bits(i));
      for (int64_t i = 0; i < b.size(); ++i) other_b.SetBits(i, b.Bits(i));
      const auto blocks = static_cast<uint32_t>(1 + below(9));
      ASSERT_EQ(RunKernel(info, {&other_a, &other_b, &out}, {}, blocks).code, 0);
      for (int64_t i = 0; i < out.size(); ++i) {
        ASSERT_EQ(out.Bits(i), whole.Bits(i))
            << "element " << i << " of [" << size.m << "," << size.k << "] " << LayoutName(of_a)
            << " * [" << size.k << "," << size.n << "] " << LayoutName(of_b) << " -> "
            << LayoutName(of_out) << ", " << blocks << " blocks";
      }
    }

    // A part of the product.
    const Size part{1 + below(size.m), 1 + below(size.n), size.k};
    const int64_t first_row = below(size.m - part.m + 1);
    const int64_t first_column = below(size.n - part.n + 1);
    TestTensor some_a(dtype, {part.m, size.k});
    TestTensor some_b(dtype, {size.k, part.n}, Layout::kPadded);
    TestTensor some(dtype, {part.m, part.n});
    for (int64_t i = 0; i < some_a.size(); ++i) some_a.SetBits(i, a.Bits(first_row * size.k + i));
    for (int64_t i = 0; i < some_b.size(); ++i) {
      some_b.SetBits(i, b.Bits(i / part.n * size.n + first_column + i % part.n));
    }
    ASSERT_EQ(RunKernel(info, {&some_a, &some_b, &some}).code, 0);
    for (int64_t i = 0; i < some.size(); ++i) {
      ASSERT_EQ(some.Bits(i),
                whole.Bits((first_row + i / part.n) * size.n + first_column + i % part.n))
          << "element " << i << " of a part";
    }
  }
}

TEST(MatmulStridesTest, OutThatOverlapsItself) {
  std::vector<float> ones(9, 1.0f);
  std::vector<float> memory(5);
  const pto_tensor dense{ones.data(), PTO_F32, 2, {3, 3}, {3, 1}};
  const pto_tensor tensors[] = {dense, dense, {memory.data(), PTO_F32, 2, {3, 3}, {1, 1}}};
  pto_context context{};
  context.block_count = 1;
  context.tensor_count = 3;
  context.tensors = tensors;
  ASSERT_EQ(Builtin("matmul").function(&context), 0);
  EXPECT_EQ(memory, std::vector<float>(5, 3.0f));
}

TEST(MatmulKernelTest, ManyThreadsAtOnce) {
  for (uint32_t dtype : {PTO_F32, PTO_F16}) {
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([dtype, t, &wrong] {
        const int64_t m = 37 + t;
        const int64_t n = 61 + t;
        TestTensor a(dtype, {m, 45});
        TestTensor b(dtype, {45, n});
        for (int64_t i = 0; i < a.size(); ++i) a.SetFloat(i, t + 1);
        for (int64_t i = 0; i < b.size(); ++i) b.SetFloat(i, 2);
        for (int round = 0; round < 300; ++round) {
          TestTensor out(dtype, {m, n});
          if (RunKernel(Builtin("matmul"), {&a, &b, &out}).code != 0) ++wrong;
          for (int64_t i = 0; i < out.size(); ++i) wrong += out.Float(i) != 90.0 * (t + 1);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0) << DtypeName(dtype);
  }
}

TEST(MatmulKernelTest, NarrowTypesAreSummedInFloat) {
  // Summed in F16, the result would stay at 2048.
  TestTensor a(PTO_F16, {1, 4096});
  TestTensor b(PTO_F16, {4096, 1});
  TestTensor out(PTO_F16, {1, 1});
  for (int64_t i = 0; i < 4096; ++i) {
    a.SetFloat(i, 1);
    b.SetFloat(i, 1);
  }
  ASSERT_EQ(RunKernel(Builtin("matmul"), {&a, &b, &out}).code, 0);
  EXPECT_EQ(out.Float(0), 4096);
}

TEST(MatmulKernelTest, StopsWhenCancelled) {
  for (uint32_t dtype : kArithmeticDtypes) {
    TestTensor a(dtype, {4, 4});
    TestTensor out(dtype, {4, 4});
    a.Randomise(1);
    const uint64_t before = out.Bits(0);
    EXPECT_EQ(RunKernel(Builtin("matmul"), {&a, &a, &out}, {}, 1, [] { return true; }).code, 0);
    EXPECT_EQ(out.Bits(0), before);
  }
}

TEST(MatmulKernelTest, RunsOnCubeCores) { EXPECT_EQ(Builtin("matmul").default_core, PTO_AIC); }

TEST(MatmulKernelTest, RefusesShapesThatDoNotFit) {
  TestTensor a(PTO_F32, {2, 3});
  TestTensor b(PTO_F32, {3, 4});
  TestTensor out(PTO_F32, {2, 4});
  TestTensor other(PTO_F32, {4, 5});
  TestTensor flat(PTO_F32, {8});
  TestTensor cube(PTO_F32, {1, 2, 3});
  TestTensor half(PTO_F16, {3, 4});
  const pto_kernel_info& info = Builtin("matmul");
  EXPECT_EQ(CheckKernel(info, {&a, &b, &out}), "");
  EXPECT_EQ(CheckKernel(info, {&a, &other, &out}),
            "matmul: inner dimensions differ: a is [2,3], b is [4,5]");
  EXPECT_EQ(CheckKernel(info, {&a, &b, &other}),
            "matmul: out is [4,5], expected [2,4]: a is [2,3], b is [3,4]");
  EXPECT_EQ(CheckKernel(info, {&a, &b, &flat}), "matmul: out is [8], expected 2 dimensions");
  EXPECT_EQ(CheckKernel(info, {&cube, &b, &out}), "matmul: a is [1,2,3], expected 2 dimensions");
  EXPECT_EQ(CheckKernel(info, {&a, &half, &out}),
            "matmul: element types differ: a is F32, b is F16");
  EXPECT_EQ(CheckKernel(info, {&a, &b}), "matmul: takes 3 tensors, got 2");
}

}  // namespace
}  // namespace pto::kernels
