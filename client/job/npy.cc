#include "client/job/npy.h"

#include <cerrno>
#include <cstring>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/job/read_file.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::job {
namespace {

using pto::v1::DType;

constexpr absl::string_view kMagic = "\x93NUMPY";

struct TypeName {
  DType dtype;
  absl::string_view descr;
};
constexpr TypeName kTypes[] = {
    {pto::v1::F32, "<f4"}, {pto::v1::F16, "<f2"}, {pto::v1::F64, "<f8"}, {pto::v1::I8, "|i1"},
    {pto::v1::I16, "<i2"}, {pto::v1::I32, "<i4"}, {pto::v1::I64, "<i8"}, {pto::v1::U8, "|u1"},
    {pto::v1::U16, "<u2"}, {pto::v1::U32, "<u4"}, {pto::v1::U64, "<u8"}, {pto::v1::BOOL, "|b1"},
};

absl::Status Refuse(absl::string_view what) { return Error(reason::kFieldInvalid, what); }

// Returns the text after `'key':` in the header, which is a Python dictionary.
absl::StatusOr<absl::string_view> Entry(absl::string_view header, absl::string_view key) {
  const std::string quoted = absl::StrCat("'", key, "':");
  const size_t found = header.find(quoted);
  if (found == absl::string_view::npos) {
    return Refuse(absl::StrCat("the header has no '", key, "'"));
  }
  return absl::StripLeadingAsciiWhitespace(header.substr(found + quoted.size()));
}

absl::StatusOr<DType> ParseType(absl::string_view header) {
  PTO_ASSIGN_OR_RETURN(absl::string_view entry, Entry(header, "descr"));
  const size_t end = entry.find('\'', 1);
  if (!absl::StartsWith(entry, "'") || end == absl::string_view::npos) {
    return Refuse("the array is structured; expected numbers or booleans");
  }
  const absl::string_view descr = entry.substr(1, end - 1);
  for (const TypeName& type : kTypes) {
    // Single bytes have no byte order, so any mark is valid.
    if (descr == type.descr || (DTypeBytes(type.dtype) == 1 && descr.size() == 3 &&
                                descr.substr(1) == type.descr.substr(1))) {
      return type.dtype;
    }
  }
  if (absl::StartsWith(descr, ">")) {
    return Refuse(absl::StrCat("elements of type ", descr, " are big-endian; expected '<'"));
  }
  return Refuse(absl::StrCat("elements of type '", descr,
                             "'; expected floats of 2, 4 or 8 bytes, integers or booleans"));
}

absl::StatusOr<std::vector<int64_t>> ParseShape(absl::string_view header) {
  PTO_ASSIGN_OR_RETURN(absl::string_view entry, Entry(header, "shape"));
  const size_t end = entry.find(')');
  if (!absl::StartsWith(entry, "(") || end == absl::string_view::npos) {
    return Refuse("the header's 'shape' is not a list in parentheses");
  }
  std::vector<int64_t> shape;
  for (absl::string_view dim :
       absl::StrSplit(entry.substr(1, end - 1), ',', absl::SkipWhitespace())) {
    int64_t value = 0;
    if (!absl::SimpleAtoi(dim, &value) || value < 0) {
      return Refuse(absl::StrCat("the header's 'shape' contains '", dim, "'"));
    }
    shape.push_back(value);
  }
  return shape;
}

absl::Status WithFile(const std::string& path, const absl::Status& status) {
  return Error(reason::kFieldInvalid, absl::StrCat(path, ": ", status.message()));
}

}  // namespace

absl::StatusOr<Array> ParseNpy(absl::string_view bytes) {
  if (!absl::ConsumePrefix(&bytes, kMagic)) return Refuse("not an .npy file");
  if (bytes.size() < 4) return Refuse("the file ends within its header");
  const int version = static_cast<unsigned char>(bytes[0]);
  if (version < 1 || version > 3) {
    return Refuse(absl::StrCat("version ", version, " of the .npy format; expected 1, 2 or 3"));
  }
  bytes.remove_prefix(2);
  size_t header_size = 0;
  const size_t length_bytes = version == 1 ? 2 : 4;
  if (bytes.size() < length_bytes) return Refuse("the file ends within its header");
  for (size_t i = 0; i < length_bytes; ++i) {
    header_size |= static_cast<size_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  bytes.remove_prefix(length_bytes);
  if (bytes.size() < header_size) return Refuse("the file ends within its header");
  const absl::string_view header = bytes.substr(0, header_size);
  bytes.remove_prefix(header_size);

  Array array;
  PTO_ASSIGN_OR_RETURN(array.dtype, ParseType(header));
  PTO_ASSIGN_OR_RETURN(array.shape, ParseShape(header));
  PTO_ASSIGN_OR_RETURN(absl::string_view fortran, Entry(header, "fortran_order"));
  if (!absl::StartsWith(fortran, "False") && array.shape.size() > 1) {
    return Refuse(
        "the array is column-major (fortran_order); save it with numpy.ascontiguousarray");
  }
  PTO_ASSIGN_OR_RETURN(const int64_t count, ElementCount(array.shape));
  const size_t wanted = count * DTypeBytes(array.dtype);
  if (bytes.size() != wanted) {
    return Refuse(absl::StrCat(bytes.size(), " bytes of data; expected ", wanted, " for ",
                               pto::v1::DType_Name(array.dtype), " ", ShapeText(array.shape)));
  }
  array.bytes = std::string(bytes);
  return array;
}

std::string FormatNpy(const Array& array) {
  if (array.dtype == pto::v1::BF16) {
    Array wide = MakeArray(pto::v1::F32, array.shape);
    for (int64_t i = 0; i < array.size(); ++i) wide.Set(i, array.Get(i));
    return FormatNpy(wide);
  }
  absl::string_view descr;
  for (const TypeName& type : kTypes) {
    if (type.dtype == array.dtype) descr = type.descr;
  }
  std::string header =
      absl::StrCat("{'descr': '", descr, "', 'fortran_order': False, 'shape': (",
                   absl::StrJoin(array.shape, ", "), array.shape.size() == 1 ? ",), }" : "), }");
  // NumPy requires that the header ends with a line break and that the data starts at a multiple of
  // 64.
  constexpr size_t kFixed = 10;
  header.append(63 - (kFixed + header.size()) % 64, ' ');
  header.push_back('\n');
  std::string out(kMagic);
  out.push_back(1);
  out.push_back(0);
  out.push_back(static_cast<char>(header.size() & 0xff));
  out.push_back(static_cast<char>(header.size() >> 8));
  return absl::StrCat(out, header, array.bytes);
}

absl::StatusOr<Array> ReadNpy(const std::string& path) {
  PTO_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path));
  absl::StatusOr<Array> array = ParseNpy(bytes);
  if (!array.ok()) return WithFile(path, array.status());
  return array;
}

absl::Status WriteNpy(const std::string& path, const Array& array) {
  const std::string bytes = FormatNpy(array);
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) {
    return WithFile(path, Refuse(absl::StrCat("cannot be written: ", std::strerror(errno))));
  }
  return absl::OkStatus();
}

}  // namespace pto::job
