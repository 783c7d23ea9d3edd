#include "runtime/host/object/inspect.h"

#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"
#include "runtime/host/object/elf_file.h"
#include "runtime/host/object/testing/object_testing.h"

namespace pto::host {
namespace {

using ::pto::host::testing::ObjectBytes;
using ::pto::testing::HasReason;
using ::pto::testing::IsOk;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// The libraries of this machine, without some versions, symbols and libraries.
class OlderMachine final : public LibrarySource {
 public:
  std::shared_ptr<const Library> Find(absl::string_view name) override {
    if (name == missing_library) return nullptr;
    const std::shared_ptr<const Library> real = LibraryFolders::OfThisMachine().Find(name);
    if (real == nullptr) return nullptr;
    auto older = std::make_shared<Library>(*real);
    older->versions.erase(missing_version);
    older->symbols.erase(missing_symbol);
    return older;
  }

  std::string missing_library;
  std::string missing_version;
  std::string missing_symbol;
};

std::string Field(const absl::Status& status) { return GetErrorDetail(status)->field; }
std::string Hint(const absl::Status& status) { return GetErrorDetail(status)->hint; }

TEST(InspectTest, KnowsBothAbis) {
  for (const char* compiler : {"gcc", "clang"}) {
    const ObjectReport pto = Inspect(ObjectBytes(absl::StrCat("pto_scale_", compiler)));
    EXPECT_THAT(pto.status(), IsOk());
    EXPECT_EQ(pto.abi, KernelAbi::kPto);
    EXPECT_EQ(pto.entry, "kernel_entry");
    const ObjectReport own = Inspect(ObjectBytes(absl::StrCat("own_add_", compiler)));
    EXPECT_THAT(own.status(), IsOk());
    EXPECT_EQ(own.abi, KernelAbi::kOwn);
    EXPECT_EQ(own.entry, "pto_kernel_info");
    EXPECT_THAT(own.libraries, Contains("libc.so.6"));
  }
  EXPECT_EQ(Inspect(ObjectBytes("own_add_c_gcc")).abi, KernelAbi::kOwn);
}

TEST(InspectTest, UsesTheEntryThatIsNamed) {
  const std::string bytes = ObjectBytes("own_add_gcc");
  EXPECT_EQ(Inspect(bytes, {.entry = "own_scale"}).entry, "own_scale");
  const ObjectReport none = Inspect(bytes, {.entry = "other"});
  EXPECT_THAT(none.status(), HasReason(reason::kFieldInvalid));
  EXPECT_EQ(none.status().message(), "does not export 'other'");
  EXPECT_EQ(Field(none.status()), "object.entry");
}

TEST(InspectTest, NeedsAnEntry) {
  std::string bytes = ObjectBytes("pto_scale_gcc");
  const std::string other = absl::StrReplaceAll(bytes, {{"kernel_entry", "kernel_enter"}});
  const absl::Status status = Inspect(other).status();
  EXPECT_EQ(status.message(), "exports neither pto_kernel_info nor kernel_entry");
  EXPECT_THAT(Hint(status), HasSubstr("PTO_EXPORT_KERNEL"));
}

TEST(InspectTest, RefusesOtherMachines) {
  std::string bytes = ObjectBytes("pto_scale_gcc");
  const uint16_t other = ThisElfMachine() == EM_AARCH64 ? EM_X86_64 : EM_AARCH64;
  std::memcpy(bytes.data() + offsetof(Elf64_Ehdr, e_machine), &other, sizeof other);
  const ObjectReport report = Inspect(bytes);
  EXPECT_THAT(report.errors, SizeIs(1));
  EXPECT_EQ(report.status().message(),
            absl::StrCat("is for ", ElfMachineName(other), ", and this machine is ",
                         ElfMachineName(ThisElfMachine())));
  EXPECT_EQ(Field(report.status()), "object.machine");
}

TEST(InspectTest, NamesMissingVersionsAndWhatToDo) {
  OlderMachine machine;
  machine.missing_version = "GLIBCXX_3.4.21";
  const std::string bytes = ObjectBytes("pto_faults_gcc");
  const ObjectReport report = Inspect(bytes, {.libraries = &machine});
  ASSERT_THAT(report.errors, SizeIs(1));
  const std::string message(report.status().message());
  EXPECT_THAT(message, HasSubstr("needs GLIBCXX_3.4.21 of libstdc++.so.6 for _Z"));
  EXPECT_THAT(message, HasSubstr("; this machine's has GLIBCXX_3.4.30 at most"));
  EXPECT_EQ(Field(report.status()), "object.libraries");
  EXPECT_THAT(Hint(report.status()), HasSubstr("-static-libstdc++"));
  EXPECT_THAT(Inspect(bytes).errors, IsEmpty());
}

TEST(InspectTest, NamesMissingVersionsOfTheCLibrary) {
  // As an object of a newer machine has it: the name of the version is changed in the file.
  std::string bytes = ObjectBytes("pto_allreduce_gcc");
  const absl::StatusOr<ElfFile> elf = ReadElf(bytes);
  ASSERT_THAT(elf, IsOk());
  for (const ElfVersionNeed& need : elf->version_needs) {
    if (need.version != "GLIBC_2.2.5") continue;
    const size_t at = static_cast<size_t>(need.version.data() - bytes.data());
    bytes.replace(at, need.version.size(), "GLIBC_2.938");
    break;
  }
  const ObjectReport report = Inspect(bytes);
  ASSERT_FALSE(report.errors.empty());
  EXPECT_THAT(std::string(report.status().message()),
              HasSubstr("needs GLIBC_2.938 of libc.so.6 for "));
  EXPECT_THAT(Hint(report.status()), HasSubstr("build the kernel on this machine"));
}

TEST(InspectTest, NamesMissingLibrariesAndSymbols) {
  OlderMachine machine;
  machine.missing_library = "libc.so.6";
  const std::string bytes = ObjectBytes("pto_allreduce_gcc");
  ObjectReport report = Inspect(bytes, {.libraries = &machine});
  EXPECT_EQ(report.status().message(), "needs libc.so.6, which this machine does not have");
  machine.missing_library.clear();
  machine.missing_symbol = "nanosleep";
  report = Inspect(bytes, {.libraries = &machine});
  EXPECT_EQ(report.status().message(), "uses nanosleep, which no library that it needs defines");
}

TEST(InspectTest, RefusesExecutableStacks) {
  std::string bytes = ObjectBytes("pto_scale_gcc");
  Elf64_Ehdr header;
  std::memcpy(&header, bytes.data(), sizeof header);
  for (size_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    char* const at = bytes.data() + header.e_phoff + i * sizeof segment;
    std::memcpy(&segment, at, sizeof segment);
    if (segment.p_type == PT_GNU_STACK) segment.p_flags |= PF_X;
    std::memcpy(at, &segment, sizeof segment);
  }
  EXPECT_EQ(Inspect(bytes).status().message(), "needs an executable stack");
}

TEST(InspectTest, SeesFromImportsWhetherKernelsWait) {
  for (const char* compiler : {"gcc", "clang"}) {
    const auto inspect = [&](const char* name) {
      return Inspect(ObjectBytes(absl::StrCat(name, "_", compiler)));
    };
    for (const char* name : {"pto_scale", "pto_spmd", "pto_vector_add", "unique_old"}) {
      EXPECT_FALSE(inspect(name).blocks) << name;
    }
    EXPECT_THAT(inspect("pto_allreduce").waits, ElementsAre("nanosleep"));
    EXPECT_TRUE(inspect("pto_allreduce").blocks);
    EXPECT_TRUE(inspect("pto_mix_cube").blocks);
    EXPECT_THAT(inspect("pto_mix_vector").waits,
                Contains("_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE"));
  }
}

TEST(InspectTest, SeesWhetherWaitsObeyTheHost) {
  EXPECT_TRUE(Inspect(ObjectBytes("pto_allreduce_gcc")).waits_obey_host);
  EXPECT_TRUE(Inspect(ObjectBytes("pto_scale_gcc")).waits_obey_host);
  EXPECT_FALSE(Inspect(ObjectBytes("pto_old_wait_gcc")).waits_obey_host);
}

TEST(InspectTest, ListsUniqueSymbols) {
  EXPECT_THAT(Inspect(ObjectBytes("unique_old_gcc")).unique_symbols,
              Contains("_ZN5model8variableE"));
  EXPECT_THAT(Inspect(ObjectBytes("unique_old_clang")).unique_symbols, IsEmpty());
}

TEST(InspectTest, SaysWhatIsNoObject) {
  EXPECT_THAT(Inspect("text").status(), HasReason(reason::kFieldInvalid));
  EXPECT_EQ(Inspect("text").abi, KernelAbi::kUnknown);
}

}  // namespace
}  // namespace pto::host
