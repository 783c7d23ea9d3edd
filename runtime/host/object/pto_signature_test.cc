#include "runtime/host/object/pto_signature.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_matchers.h"

namespace pto::host {
namespace {

using ::pto::testing::HasReason;
using ::pto::testing::IsOk;

PtoSignature Parse(absl::string_view text) {
  const absl::StatusOr<PtoSignature> signature = PtoSignature::Parse(text);
  EXPECT_THAT(signature, IsOk());
  return signature.ok() ? *signature : PtoSignature();
}

TEST(PtoSignatureTest, ReadsEveryKindOfParameter) {
  using Kind = PtoScalarParameter::Kind;
  const PtoSignature signature = Parse(
      "in f32[] x, out f32|bf16[], hidden inout u32[] window, nodep any[],  # comment\n"
      "scalar f32 factor, scalar i64, domain, domain(2) d, address(0); core aic; blocks yes;"
      "sync_start");
  ASSERT_EQ(signature.tensors.size(), 4u);
  EXPECT_EQ(signature.tensors[0].name, "x");
  EXPECT_EQ(signature.tensors[0].direction, PTO_INPUT);
  EXPECT_EQ(signature.tensors[0].types, PtoTypeBit(PtoType::kF32));
  EXPECT_EQ(signature.tensors[1].name, "tensor1");
  EXPECT_EQ(signature.tensors[1].direction, PTO_OUTPUT);
  EXPECT_EQ(signature.tensors[1].types, PtoTypeBit(PtoType::kF32) | PtoTypeBit(PtoType::kBf16));
  EXPECT_TRUE(signature.tensors[2].hidden);
  EXPECT_EQ(signature.tensors[2].direction, PTO_INOUT);
  EXPECT_EQ(signature.tensors[3].direction, PTO_NO_DEPENDENCY);
  EXPECT_EQ(signature.tensors[3].types, 0xfffu) << "the twelve that our own ABI has";
  EXPECT_EQ(signature.passed_tensors(), 3u);
  ASSERT_EQ(signature.scalars.size(), 5u);
  EXPECT_EQ(signature.scalars[0].kind, Kind::kF32);
  EXPECT_EQ(signature.scalars[0].name, "factor");
  EXPECT_EQ(signature.scalars[1].kind, Kind::kI64);
  EXPECT_EQ(signature.scalars[2].kind, Kind::kDomain);
  EXPECT_TRUE(signature.scalars[2].given());
  EXPECT_EQ(signature.scalars[3].kind, Kind::kDomain);
  EXPECT_EQ(*signature.scalars[3].tensor, 2u);
  EXPECT_EQ(signature.scalars[3].name, "d");
  EXPECT_EQ(signature.scalars[4].kind, Kind::kAddress);
  EXPECT_EQ(*signature.scalars[4].tensor, 0u);
  EXPECT_FALSE(signature.scalars[4].given());
  EXPECT_EQ(signature.core, PTO_AIC);
  EXPECT_EQ(signature.blocks, true);
  EXPECT_TRUE(signature.sync_start);
}

TEST(PtoSignatureTest, PrintsWhatItReads) {
  for (const char* text :
       {"", "in f32[], out f32[], scalar f32, scalar i64, domain, address(0)",
        "hidden nodep any[] w, scalar f64, scalar i32, scalar u32, scalar u64, domain(0)",
        "in f16|i16|i8|u16|u32|u64|bool[]; core mix; blocks no", "; sync_start",
        "in fp8e4m3fn[], in fp8e8m0[], inout fp4e2m1|f32[]"}) {
    const std::string printed = Parse(text).ToString();
    EXPECT_EQ(Parse(printed).ToString(), printed) << text;
  }
  EXPECT_EQ(Parse("in f32[] x,out i32[],scalar f32,address(1);blocks no").ToString(),
            "in f32[] x, out i32[] tensor1, scalar f32 scalar0, address(1) scalar1; core aiv; "
            "blocks no");
}

TEST(PtoSignatureTest, NamesWhatHasNone) {
  const PtoSignature signature = Parse("in f32[] tensor1, in f32[]");
  EXPECT_EQ(signature.tensors[1].name, "tensor1_") << "not the name of another";
}

TEST(PtoSignatureTest, NamesTheColumnOfAnError) {
  const struct {
    const char* text;
    const char* error;
  } cases[] = {
      {"int f32[]",
       "line 1, column 1: expected in, out, inout, nodep, scalar, domain or address, not 'int'"},
      {"in f33[]", "line 1, column 4: expected an element type such as f32, or any, not 'f33'"},
      {"in f32", "line 1, column 7: expected '[', not the end"},
      {"in f32[4]", "line 1, column 8: expected ']', not '4'"},
      {"in f32[] X", "line 1, column 10: 'X' is not 1 to 63 of a-z 0-9 _ that start with a letter"},
      {"in f32[] x, out f32[] x", "line 1, column 23: the name 'x' is used twice"},
      {"in f32[] x out", "line 1, column 12: expected ',' or ';' before 'out'"},
      {"in f32[],",
       "line 1, column 10: expected in, out, inout, nodep, scalar, domain or address, not the end"},
      {"in f32|f32[]", "line 1, column 8: 'f32' is listed twice"},
      {"in u8|fp8e8m0[]",
       "line 1, column 7: 'fp8e8m0' and another type of the list are both bytes (U8)"},
      {"scalar f32, in f32[]",
       "line 1, column 13: a tensor after a scalar: kernels get all tensors first"},
      {"scalar f16", "line 1, column 8: expected f32, f64, i32, u32, i64 or u64, not 'f16'"},
      {"in f32[],\n  address(1)", "line 2, column 11: there is no tensor 1: the signature has 1"},
      {"address", "line 1, column 8: expected '(', not the end"},
      {"address(x)", "line 1, column 9: expected the index of a tensor, not 'x'"},
      {"address(99999999999)",
       "line 1, column 9: expected the index of a tensor, not '99999999999'"},
      {"domain(0", "line 1, column 9: expected ')', not the end"},
      {"; core npu", "line 1, column 8: expected aic, aiv or mix, not 'npu'"},
      {"; blocks maybe", "line 1, column 10: expected yes or no, not 'maybe'"},
      {"; fast", "line 1, column 3: expected core, blocks or sync_start, not 'fast'"},
      {"in f32[] x}", "line 1, column 11: expected ',' or ';' before '}'"},
  };
  for (const auto& [text, error] : cases) {
    const absl::StatusOr<PtoSignature> signature = PtoSignature::Parse(text);
    EXPECT_THAT(signature, HasReason(reason::kFieldInvalid)) << text;
    EXPECT_EQ(signature.status().message(), error) << text;
  }
}

TEST(PtoSignatureTest, LimitsTheNumberOfParameters) {
  const auto repeated = [](const char* parameter, int count) {
    std::string text = parameter;
    for (int i = 1; i < count; ++i) absl::StrAppend(&text, ", ", parameter);
    return text;
  };
  EXPECT_THAT(PtoSignature::Parse(repeated("in f32[]", 32)), IsOk());
  EXPECT_THAT(PtoSignature::Parse(repeated("in f32[]", 33)), HasReason(reason::kFieldInvalid));
  EXPECT_THAT(PtoSignature::Parse(repeated("domain", 16)), IsOk());
  EXPECT_THAT(PtoSignature::Parse(repeated("domain", 17)), HasReason(reason::kFieldInvalid));
}

TEST(PtoSignatureTest, ReadsAnyTextWithoutHarm) {
  constexpr char kLetters[] = "in out f32[],;()|# \n0hidendomasclrx\"\x80";
  std::mt19937 random(3);
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (uint32_t i = random() % 40; i > 0; --i) text += kLetters[random() % (sizeof kLetters - 1)];
    const absl::StatusOr<PtoSignature> signature = PtoSignature::Parse(text);
    if (signature.ok()) {
      const std::string printed = signature->ToString();
      EXPECT_EQ(Parse(printed).ToString(), printed);
    } else {
      EXPECT_THAT(signature, HasReason(reason::kFieldInvalid));
    }
  }
}

TEST(PtoSignatureTest, KnowsTheNumbersOfTheTypes) {
  // The order of the ABI.
  const char* const names[] = {"f32", "f16", "i32", "i16",  "i8",        "u8",      "bf16",   "i64",
                               "u64", "u16", "u32", "bool", "fp8e4m3fn", "fp8e8m0", "fp4e2m1"};
  const pto_dtype dtypes[] = {PTO_F32, PTO_F16,  PTO_I32, PTO_I16, PTO_I8,
                              PTO_U8,  PTO_BF16, PTO_I64, PTO_U64, PTO_U16,
                              PTO_U32, PTO_BOOL, PTO_U8,  PTO_U8,  PTO_U8};
  for (uint32_t type = 0; type < kPtoTypes; ++type) {
    EXPECT_STREQ(PtoTypeName(static_cast<PtoType>(type)), names[type]);
    EXPECT_EQ(TaskDtype(static_cast<PtoType>(type)), dtypes[type]);
  }
}

}  // namespace
}  // namespace pto::host
