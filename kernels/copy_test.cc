#include <cstdint>

#include "gtest/gtest.h"
#include "kernels/dtype.h"
#include "kernels/kernel_tester.h"

namespace pto::kernels {
namespace {

void ExpectCopied(const TestTensor& in, const TestTensor& out) {
  for (int64_t i = 0; i < in.size(); ++i) ASSERT_EQ(out.Bits(i), in.Bits(i)) << i;
  EXPECT_TRUE(out.GapsUntouched());
}

TEST(CopyTest, CopiesBetweenLayouts) {
  ForAllCases([](uint32_t dtype, const Shape& shape, Layout layout, uint32_t blocks) {
    TestTensor in(dtype, shape, layout);
    TestTensor out(dtype, shape, Other(layout));
    in.Randomise(1);
    EXPECT_EQ(RunKernel(Builtin("copy"), {&in, &out}, {}, blocks).code, 0);
    ExpectCopied(in, out);
  });
}

TEST(CopyTest, TakesAllTypes) {
  for (uint32_t dtype = PTO_F32; dtype <= PTO_BOOL; ++dtype) {
    SCOPED_TRACE(DtypeName(dtype));
    EXPECT_TRUE(Builtin("copy").arguments[0].dtypes & PTO_DTYPE_BIT(dtype));
    TestTensor in(dtype, {5, 7}, Layout::kStrided);
    TestTensor out(dtype, {5, 7}, Layout::kTransposed);
    for (int64_t i = 0; i < in.size(); ++i) in.SetBits(i, 0x0123456789abcdefu * (i + 1));
    EXPECT_EQ(RunKernel(Builtin("copy"), {&in, &out}, {}, 2).code, 0);
    ExpectCopied(in, out);
  }
}

TEST(CopyTest, OntoItself) {
  TestTensor tensor(PTO_F32, {1000});
  tensor.Randomise(1);
  const double before = tensor.Float(999);
  EXPECT_EQ(RunKernel(Builtin("copy"), {&tensor, &tensor}).code, 0);
  EXPECT_EQ(tensor.Float(999), before);
}

TEST(CopyTest, RefusesWhatDiffers) {
  TestTensor in(PTO_F32, {2, 3});
  TestTensor same(PTO_F32, {2, 3}, Layout::kStrided);
  TestTensor flat(PTO_F32, {6});
  TestTensor other(PTO_I32, {2, 3});
  EXPECT_EQ(CheckKernel(Builtin("copy"), {&in, &same}), "");
  EXPECT_EQ(CheckKernel(Builtin("copy"), {&in, &flat}),
            "copy: shapes differ: in is [2,3], out is [6]");
  EXPECT_EQ(CheckKernel(Builtin("copy"), {&in, &other}),
            "copy: element types differ: in is F32, out is I32");
  EXPECT_EQ(CheckKernel(Builtin("copy"), {&in}), "copy: takes 2 tensors, got 1");
}

TEST(CheckTest, LongMessagesAreCut) {
  TestTensor in(PTO_F32, {2, 3});
  TestTensor out(PTO_F32, {6});
  const pto_tensor views[] = {in.View(), out.View()};
  char message[10] = "unchanged";
  EXPECT_NE(Builtin("copy").check(views, 2, message, sizeof(message)), 0);
  EXPECT_STREQ(message, "copy: sha");
  EXPECT_NE(Builtin("copy").check(views, 2, message, 0), 0);
  EXPECT_NE(Builtin("copy").check(views, 2, nullptr, 0), 0);
  EXPECT_STREQ(message, "copy: sha");
}

}  // namespace
}  // namespace pto::kernels
