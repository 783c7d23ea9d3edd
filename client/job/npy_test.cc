#include "client/job/npy.h"

#include <cstdlib>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"

namespace pto::job {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

Array Numbers(pto::v1::DType dtype, std::vector<int64_t> shape) {
  Array array = MakeArray(dtype, shape);
  for (int64_t i = 0; i < array.size(); ++i) array.Set(i, static_cast<double>(i % 2));
  return array;
}

std::string File(int version, absl::string_view header, absl::string_view data) {
  std::string out = "\x93NUMPY";
  out.push_back(static_cast<char>(version));
  out.push_back(0);
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) {
    out.push_back(static_cast<char>(header.size() >> (8 * i)));
  }
  return absl::StrCat(out, header, data);
}

TEST(NpyTest, EveryTypeComesBack) {
  for (int type = pto::v1::F32; type <= pto::v1::BOOL; ++type) {
    const auto dtype = static_cast<pto::v1::DType>(type);
    if (dtype == pto::v1::BF16) continue;
    for (const std::vector<int64_t>& shape :
         {std::vector<int64_t>{}, {5}, {2, 3}, {0, 4}, {1, 2, 1, 2, 1}}) {
      const Array written = Numbers(dtype, shape);
      absl::StatusOr<Array> read = ParseNpy(FormatNpy(written));
      ASSERT_THAT(read, testing::IsOk());
      EXPECT_EQ(read->dtype, dtype);
      EXPECT_EQ(read->shape, shape);
      EXPECT_EQ(read->bytes, written.bytes);
    }
  }
}

TEST(NpyTest, WritesWhatNumpyWrites) {
  // The output of numpy.save(f, numpy.array([1, 2], dtype='<i2')).
  Array array = MakeArray(pto::v1::I16, {2});
  array.Set(0, 1);
  array.Set(1, 2);
  const std::string bytes = FormatNpy(array);
  EXPECT_EQ(bytes.size(), 128u + 4u);
  EXPECT_THAT(bytes, StartsWith(std::string("\x93NUMPY\x01\0\x76\0", 10) +
                                "{'descr': '<i2', 'fortran_order': False, 'shape': (2,), }"));
  EXPECT_EQ(bytes[127], '\n');
}

TEST(NpyTest, SavesBfloat16AsFloat32) {
  Array array = MakeArray(pto::v1::BF16, {2});
  array.Set(1, 1.5);
  const Array read = ParseNpy(FormatNpy(array)).value();
  EXPECT_EQ(read.dtype, pto::v1::F32);
  EXPECT_EQ(read.Get(1), 1.5);
}

TEST(NpyTest, ReadsVersionTwo) {
  const Array read =
      ParseNpy(File(2, "{'shape': (1, 2), 'descr': '|u1', 'fortran_order': False}\n", "\x07\x09"))
          .value();
  EXPECT_THAT(read.shape, ElementsAre(1, 2));
  EXPECT_EQ(read.Get(0), 7);
  EXPECT_EQ(read.Get(1), 9);
}

TEST(NpyTest, SaysWhatIsWrong) {
  const std::string good = "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }";
  auto with = [&](absl::string_view from, absl::string_view to) {
    return File(1, absl::StrReplaceAll(good, {{from, to}}), "1234");
  };
  ASSERT_THAT(ParseNpy(with("", "")), testing::IsOk());
  const std::pair<std::string, std::string> cases[] = {
      {"", "not an .npy file"},
      {"hello, world", "not an .npy file"},
      {"\x93NUMPY", "ends within its header"},
      {std::string("\x93NUMPY\x01\0\xff\xff", 10), "ends within its header"},
      {std::string("\x93NUMPY\x02\0\xff\xff", 10), "ends within its header"},
      {File(4, good, "1234"), "version 4"},
      {with("<f4", ">f4"), "big-endian"},
      {with("<f4", "<c8"), "type '<c8'; expected floats"},
      {with("'<f4'", "[('a', '<f4')]"), "structured"},
      {with("'<f4'", "'<f4"), "expected floats"},
      {with("'descr'", "'x'"), "no 'descr'"},
      {with("False, 'shape': (1,)", "True, 'shape': (1,1)"), "column-major"},
      {with("(1,)", "(-1,)"), "contains '-1'"},
      {with("(1,)", "(a,)"), "contains 'a'"},
      {with("(1,)", "1"), "in parentheses"},
      {with("(1,)", "(99999999999, 99999999999)"), "too large"},
      {with("(1,)", "(2,)"), "4 bytes of data; expected 8 for F32 2"},
  };
  for (const auto& [bytes, message] : cases) {
    const absl::Status status = ParseNpy(bytes).status();
    EXPECT_THAT(status, testing::HasReason(reason::kFieldInvalid));
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  }
}

TEST(NpyTest, GoesThroughAFile) {
  const std::string path = absl::StrCat(std::getenv("TEST_TMPDIR"), "/a.npy");
  const Array array = Numbers(pto::v1::F64, {3, 2});
  ASSERT_THAT(WriteNpy(path, array), testing::IsOk());
  EXPECT_EQ(ReadNpy(path).value().bytes, array.bytes);
}

TEST(NpyTest, NamesTheFile) {
  EXPECT_THAT(std::string(ReadNpy("/nowhere/a.npy").status().message()),
              HasSubstr("/nowhere/a.npy: cannot read file: No such file"));
  EXPECT_THAT(std::string(WriteNpy("/nowhere/a.npy", Numbers(pto::v1::F32, {1})).message()),
              HasSubstr("/nowhere/a.npy: cannot be written: No such file"));
}

}  // namespace
}  // namespace pto::job
