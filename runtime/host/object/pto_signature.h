#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "kernels/pto_kernel.h"
#include "runtime/host/object/pto_layout.h"

namespace pto::host {

// A set of element types of the PTO ABI.
constexpr uint32_t PtoTypeBit(PtoType type) { return 1u << static_cast<uint32_t>(type); }

// A tensor that a task gives to a kernel.
struct PtoTensorParameter {
  std::string name;
  pto_direction direction = PTO_INPUT;
  uint32_t types = 0;  // PtoTypeBit of the accepted ones
  // The kernel gets no descriptor: the tensor is there for `address`, for `domain`, or to order
  // tasks.
  bool hidden = false;
};

// A word that a kernel gets behind its tensors.
struct PtoScalarParameter {
  enum class Kind {
    kF32,  // a number as the bits of an f32
    kF64,  // a number as the bits of an f64
    kI32,  // integers; the value must fit the type
    kU32,
    kI64,
    kU64,
    kDomain,   // the address of a communication context
    kAddress,  // the address of a tensor's first element
  };
  std::string name;
  Kind kind = Kind::kI64;
  // Of kAddress and kDomain: the tensor. A domain's windows are this tensor of each member of the
  // task. Nothing: a task names the domain.
  absl::optional<uint32_t> tensor;

  // Whether tasks give a value for it.
  bool given() const { return !tensor.has_value(); }
};

// What a kernel of the PTO ABI takes. An object does not tell, so its user does, in this text:
//
//   signature = [ parameter { "," parameter } ] { ";" property }
//   parameter = tensor | scalar | domain | address           all tensors come first
//   tensor    = [ "hidden" ] direction types "[" "]" [ name ]
//   direction = "in" | "out" | "inout" | "nodep"
//   types     = "any" | type { "|" type }
//   type      = "f32" | "f16" | "i32" | "i16" | "i8" | "u8" | "bf16" | "i64" | "u64" | "u16" |
//               "u32" | "bool" | "fp8e4m3fn" | "fp8e8m0" | "fp4e2m1"
//   scalar    = "scalar" ( "f32" | "f64" | "i32" | "u32" | "i64" | "u64" ) [ name ]
//   domain    = "domain" [ "(" number ")" ] [ name ]
//   address   = "address" "(" number ")" [ name ]
//   property  = "core" ( "aic" | "aiv" | "mix" ) | "blocks" ( "yes" | "no" ) | "sync_start"
//
// A number is the index of a tensor, hidden ones included. `any` means all types but the last
// three, whose tensors a task passes as bytes (U8). Names are a-z 0-9 _ and start with a letter.
// White space separates words; `#` starts a comment that ends with the line. For example:
//
//   in f32[] x, out f32[] y, scalar f32 factor, domain, address(0); core aiv; blocks yes
struct PtoSignature {
  std::vector<PtoTensorParameter> tensors;
  std::vector<PtoScalarParameter> scalars;
  pto_core core = PTO_AIV;
  absl::optional<bool> blocks;  // nothing: as the object's imports tell
  bool sync_start = false;

  // FIELD_INVALID with line and column, if the text is wrong.
  static absl::StatusOr<PtoSignature> Parse(absl::string_view text);
  // A text that Parse understands, on one line.
  std::string ToString() const;

  // How many tensors the kernel gets.
  uint32_t passed_tensors() const;
};

// The type in which a task passes elements of this type.
pto_dtype TaskDtype(PtoType type);
// The name in signatures, for example "f32".
const char* PtoTypeName(PtoType type);

}  // namespace pto::host
