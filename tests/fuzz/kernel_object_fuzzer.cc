// Kernels as users upload them: shared objects, which are inspected and made private before they
// are loaded; and the text that says what a kernel of the PTO ABI takes. Nothing is loaded here.

#include <elf.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/base/log.h"
#include "runtime/host/object/elf_file.h"
#include "runtime/host/object/inspect.h"
#include "runtime/host/object/libraries.h"
#include "runtime/host/object/private_copy.h"
#include "runtime/host/object/pto_signature.h"
#include "tests/fuzz/expect.h"

namespace pto::fuzz {
namespace {

using host::ElfFile;
using host::ElfSymbol;

// The same on every machine.
class TwoLibraries final : public host::LibrarySource {
 public:
  std::shared_ptr<const host::Library> Find(absl::string_view name) override {
    if (name == "libc.so.6") return c_;
    return name == "libstdc++.so.6" ? cpp_ : nullptr;
  }

 private:
  const std::shared_ptr<const host::Library> c_ = std::make_shared<host::Library>(
      host::Library{{"GLIBC_2.2.5", "GLIBC_2.34"}, {"nanosleep", "getenv", "memcpy"}});
  const std::shared_ptr<const host::Library> cpp_ = std::make_shared<host::Library>(
      host::Library{{"GLIBCXX_3.4", "GLIBCXX_3.4.30", "CXXABI_1.3"}, {"_Znwm", "_ZdlPv"}});
};

void ExpectInside(absl::string_view bytes, absl::string_view name) {
  if (name.empty()) return;
  PTO_CHECK(name.data() >= bytes.data() && name.size() <= bytes.size() &&
                name.data() + name.size() <= bytes.data() + bytes.size(),
            "a name lies in the file");
}

void CheckElf(absl::string_view bytes) {
  const absl::StatusOr<ElfFile> elf = host::ReadElf(bytes);
  std::string copy(bytes);
  host::PrivateCopyReport report;
  const absl::Status made = host::MakeSymbolsPrivate(copy, &report);
  PTO_CHECK(made.ok() == elf.ok(), "both read the same");
  if (!elf.ok()) {
    ExpectReason(elf.status(), reason::kFieldInvalid);
    PTO_CHECK(copy == bytes, "what is refused is not changed");
    return;
  }
  for (const absl::string_view name : elf->needed) ExpectInside(bytes, name);
  for (const ElfSymbol& symbol : elf->symbols) {
    ExpectInside(bytes, symbol.name);
    ExpectInside(bytes, symbol.version);
    ExpectInside(bytes, symbol.library);
    PTO_CHECK(symbol.entry_offset + sizeof(Elf64_Sym) <= bytes.size(), "an entry is in the file");
  }
  size_t changed = 0;
  for (size_t i = 0; i < bytes.size(); ++i) changed += copy[i] != bytes[i] ? 1 : 0;
  PTO_CHECK(changed <= report.made_private.size() + report.made_unique.size(),
            "one byte for each symbol");
}

void CheckReport(absl::string_view bytes) {
  static auto* const libraries = new TwoLibraries;
  host::InspectOptions options;
  options.libraries = libraries;
  const host::ObjectReport report = host::Inspect(bytes, options);
  for (const absl::Status& error : report.errors) ExpectReason(error, reason::kFieldInvalid);
  PTO_CHECK(report.status().ok() == report.errors.empty(), "the first error is the status");
  PTO_CHECK(!report.status().ok() || report.abi != host::KernelAbi::kUnknown,
            "what can be loaded has an entry");
}

void CheckSignature(absl::string_view text) {
  const absl::StatusOr<host::PtoSignature> signature = host::PtoSignature::Parse(text);
  if (!signature.ok()) return ExpectReason(signature.status(), reason::kFieldInvalid);
  const std::string printed = signature->ToString();
  const absl::StatusOr<host::PtoSignature> again = host::PtoSignature::Parse(printed);
  PTO_CHECK(again.ok() && again->ToString() == printed, "what is printed can be read");
}

}  // namespace
}  // namespace pto::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (size > 0 && data[0] != ELFMAG0) pto::fuzz::CheckSignature(bytes);
  pto::fuzz::CheckElf(bytes);
  pto::fuzz::CheckReport(bytes);
  return 0;
}
