#include "runtime/host/object/elf_file.h"

#include <elf.h>
#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/file_descriptor.h"
#include "runtime/base/sanitized.h"
#include "runtime/base/status_matchers.h"
#include "runtime/host/object/libraries.h"
#include "runtime/host/object/object_file.h"
#include "runtime/host/object/testing/object_testing.h"

namespace pto::host {
namespace {

using ::pto::host::testing::ObjectBytes;
using ::pto::testing::HasReason;
using ::pto::testing::IsOk;

// Changes a field of the file's header.
template <typename T>
void Patch(std::string& bytes, size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof value);
}

// The offset of the first program header of the type.
size_t FindSegment(const std::string& bytes, uint32_t type) {
  Elf64_Ehdr header;
  std::memcpy(&header, bytes.data(), sizeof header);
  for (size_t i = 0; i < header.e_phnum; ++i) {
    const size_t at = header.e_phoff + i * sizeof(Elf64_Phdr);
    uint32_t found;
    std::memcpy(&found, bytes.data() + at, sizeof found);
    if (found == type) return at;
  }
  ADD_FAILURE() << "no segment of type " << type;
  return 0;
}

// What all that is read must satisfy, whatever the bytes are.
void CheckInside(absl::string_view bytes, const ElfFile& elf) {
  const auto inside = [&](absl::string_view name) {
    return name.empty() || (name.data() >= bytes.data() &&
                            name.data() + name.size() <= bytes.data() + bytes.size());
  };
  for (const ElfSymbol& symbol : elf.symbols) {
    EXPECT_TRUE(inside(symbol.name) && inside(symbol.version) && inside(symbol.library));
    EXPECT_LE(symbol.entry_offset + sizeof(Elf64_Sym), bytes.size());
  }
  for (const absl::string_view name : elf.needed) EXPECT_TRUE(inside(name));
}

TEST(ElfFileTest, ReadsObjectsOfBothCompilers) {
  for (const char* compiler : {"gcc", "clang"}) {
    const std::string bytes = ObjectBytes(absl::StrCat("pto_allreduce_", compiler));
    const absl::StatusOr<ElfFile> elf = ReadElf(bytes);
    ASSERT_THAT(elf, IsOk());
    CheckInside(bytes, *elf);
    EXPECT_EQ(elf->machine, ThisElfMachine());
    EXPECT_NE(std::find(elf->needed.begin(), elf->needed.end(), "libc.so.6"), elf->needed.end());
    const ElfSymbol* const entry = elf->FindExport("kernel_entry");
    ASSERT_NE(entry, nullptr);
    EXPECT_EQ(entry->type, STT_FUNC);
    EXPECT_GT(entry->size, 0u);
    EXPECT_FALSE(elf->executable_stack);
    EXPECT_FALSE(elf->text_relocations);
    const auto sleep = std::find_if(elf->symbols.begin(), elf->symbols.end(),
                                    [](const ElfSymbol& s) { return s.name == "nanosleep"; });
    ASSERT_NE(sleep, elf->symbols.end());
    EXPECT_FALSE(sleep->defined);
    EXPECT_TRUE(absl::StartsWith(sleep->version, "GLIBC_2.")) << sleep->version;
    EXPECT_EQ(sleep->library, "libc.so.6");
    EXPECT_FALSE(elf->version_needs.empty());
  }
}

TEST(ElfFileTest, FindsUniqueSymbols) {
  const std::string bytes = ObjectBytes("unique_old_gcc");
  const absl::StatusOr<ElfFile> elf = ReadElf(bytes);
  ASSERT_THAT(elf, IsOk());
  const auto unique =
      std::count_if(elf->symbols.begin(), elf->symbols.end(),
                    [](const ElfSymbol& s) { return s.defined && s.binding == STB_GNU_UNIQUE; });
  EXPECT_GE(unique, 3);
}

TEST(ElfFileTest, ReadsTheBuildId) {
  const std::string bytes = ObjectBytes("pto_scale_gcc");
  const absl::StatusOr<ElfFile> elf = ReadElf(bytes);
  ASSERT_THAT(elf, IsOk());
  if (!elf->build_id.empty()) {
    EXPECT_EQ(elf->build_id.size(), 40u);
  }
}

TEST(ElfFileTest, RefusesWhatIsNoSharedObject) {
  const std::string good = ObjectBytes("pto_scale_gcc");
  const auto error = [](const std::string& bytes) {
    const absl::StatusOr<ElfFile> elf = ReadElf(bytes);
    EXPECT_THAT(elf, HasReason(reason::kFieldInvalid));
    return std::string(elf.status().message());
  };
  EXPECT_EQ(error(""), "is no ELF file: build a shared object with -shared -fPIC");
  EXPECT_EQ(error("#!/bin/sh\n" + std::string(100, ' ')),
            "is no ELF file: build a shared object with -shared -fPIC");
  std::string bytes = good;
  bytes[EI_CLASS] = ELFCLASS32;
  EXPECT_EQ(error(bytes), "is not for a 64-bit little-endian machine");
  bytes = good;
  bytes[EI_DATA] = ELFDATA2MSB;
  EXPECT_EQ(error(bytes), "is not for a 64-bit little-endian machine");
  bytes = good;
  Patch<uint16_t>(bytes, offsetof(Elf64_Ehdr, e_type), ET_REL);
  EXPECT_EQ(error(bytes), "is an object file that is not linked: link it with -shared");
  bytes = good;
  Patch<uint16_t>(bytes, offsetof(Elf64_Ehdr, e_type), ET_EXEC);
  EXPECT_EQ(error(bytes), "is a program: link it with -shared");
  bytes = good;
  Patch<uint32_t>(bytes, FindSegment(bytes, PT_DYNAMIC), PT_NULL);
  EXPECT_EQ(error(bytes), "has no dynamic section: link it with -shared");
  bytes = good;
  Patch<uint64_t>(bytes, offsetof(Elf64_Ehdr, e_phoff), ~uint64_t{0} - 8);
  EXPECT_EQ(error(bytes), "has no valid table of program headers");
  bytes = good;
  Patch<uint64_t>(bytes, FindSegment(bytes, PT_LOAD) + offsetof(Elf64_Phdr, p_offset),
                  ~uint64_t{0});
  EXPECT_TRUE(absl::EndsWith(error(bytes), "leaves the file"));
}

TEST(ElfFileTest, RefusesPrograms) {
  const FileDescriptor self(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  const absl::StatusOr<std::string> bytes = ReadObject(self.get());
  ASSERT_THAT(bytes, IsOk());
  const absl::StatusOr<ElfFile> elf = ReadElf(*bytes);
  EXPECT_THAT(elf, HasReason(reason::kFieldInvalid));
  EXPECT_EQ(elf.status().message(), "is a program: link it with -shared");
}

TEST(ElfFileTest, ReadsTheCLibrary) {
  // It has an interpreter, like a program, and defines versions.
  const std::shared_ptr<const Library> library = LibraryFolders::OfThisMachine().Find("libc.so.6");
  ASSERT_NE(library, nullptr);
  EXPECT_TRUE(library->versions.contains("GLIBC_2.34"));
  EXPECT_TRUE(library->symbols.contains("nanosleep"));
  EXPECT_FALSE(library->symbols.contains("kernel_entry"));
  EXPECT_EQ(LibraryFolders::OfThisMachine().Find("/lib/x86_64-linux-gnu/libc.so.6"), nullptr);
  EXPECT_EQ(LibraryFolders::OfThisMachine().Find("libnothing.so.1"), nullptr);
}

TEST(ElfFileTest, SeesExecutableStacks) {
  std::string bytes = ObjectBytes("pto_scale_gcc");
  Patch<uint32_t>(bytes, FindSegment(bytes, PT_GNU_STACK) + offsetof(Elf64_Phdr, p_flags),
                  PF_R | PF_W | PF_X);
  EXPECT_TRUE(ReadElf(bytes)->executable_stack);
  // Without the header, the loader assumes the worst.
  Patch<uint32_t>(bytes, FindSegment(bytes, PT_GNU_STACK), PT_NULL);
  EXPECT_TRUE(ReadElf(bytes)->executable_stack);
}

TEST(ElfFileTest, AnyTruncationIsAnErrorOrReadable) {
  const std::string good = ObjectBytes("unique_old_gcc");
  const size_t step = kSanitized ? 37 : 7;
  for (size_t size = 0; size < good.size(); size += step) {
    // An exact copy, so that a sanitizer sees reads beyond the end.
    const std::vector<char> part(good.begin(), good.begin() + static_cast<ptrdiff_t>(size));
    const absl::string_view bytes(part.data(), part.size());
    const absl::StatusOr<ElfFile> elf = ReadElf(bytes);
    if (elf.ok()) CheckInside(bytes, *elf);
  }
}

TEST(ElfFileTest, RandomChangesAreErrorsOrReadable) {
  const std::string good = ObjectBytes("unique_old_gcc");
  std::mt19937 random(1);
  const int rounds = kSanitized ? 2000 : 10000;
  int readable = 0;
  for (int round = 0; round < rounds; ++round) {
    std::vector<char> bytes(good.begin(), good.end());
    for (int change = 0; change < 4; ++change) {
      // Most tables are at the start.
      const size_t limit = random() % 2 == 0 ? bytes.size() : std::min<size_t>(bytes.size(), 4096);
      bytes[random() % limit] = static_cast<char>(random() % 3 == 0 ? 0xff : random());
    }
    const absl::string_view view(bytes.data(), bytes.size());
    const absl::StatusOr<ElfFile> elf = ReadElf(view);
    if (!elf.ok()) {
      ASSERT_THAT(elf, HasReason(reason::kFieldInvalid));
      continue;
    }
    ++readable;
    CheckInside(view, *elf);
  }
  EXPECT_GT(readable, 0);
  EXPECT_LT(readable, rounds);
}

}  // namespace
}  // namespace pto::host
