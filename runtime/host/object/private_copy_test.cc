// Objects that define the same symbols, in one process.

#include "runtime/host/object/private_copy.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/status_matchers.h"
#include "runtime/host/object/elf_file.h"
#include "runtime/host/object/loaded_object.h"
#include "runtime/host/object/testing/object_testing.h"

namespace pto::host {
namespace {

using ::pto::host::testing::FileOf;
using ::pto::host::testing::ObjectBytes;
using ::pto::testing::HasReason;
using ::pto::testing::IsOk;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr char kMutex[] = "_ZZN3pto3cpu14AtomicAddMutexEvE5mutex";

std::unique_ptr<LoadedObject> Load(const std::string& name) {
  absl::StatusOr<std::unique_ptr<LoadedObject>> object =
      LoadedObject::Load(ObjectBytes(name), name + ".so");
  EXPECT_THAT(object, IsOk());
  return *std::move(object);
}

int32_t Call(const LoadedObject& object, const char* function) {
  void* const found = object.Find(function);
  EXPECT_NE(found, nullptr) << function;
  return found == nullptr ? -1 : reinterpret_cast<int32_t (*)()>(found)();
}

void* Mutex(const LoadedObject& object) {
  return reinterpret_cast<void* (*)()>(object.Find("FindMutex"))();
}

TEST(PrivateCopyTest, TheLoaderAloneSharesUniqueSymbols) {
  // Why all this is needed. If this fails, the loader or the compiler has changed.
  const FileDescriptor old_file = FileOf(ObjectBytes("unique_old_gcc"));
  const FileDescriptor new_file = FileOf(ObjectBytes("unique_new_gcc"));
  const auto read = [](const FileDescriptor& file) {
    void* const handle =
        dlopen(absl::StrCat("/proc/self/fd/", file.get()).c_str(), RTLD_NOW | RTLD_LOCAL);
    EXPECT_NE(handle, nullptr) << dlerror();
    return reinterpret_cast<int32_t (*)()>(dlsym(handle, "ReadVariable"))();
  };
  EXPECT_EQ(read(old_file), 1);
  EXPECT_EQ(read(new_file), 1) << "the second object reads the variable of the first";
}

TEST(PrivateCopyTest, EachObjectHasItsOwnVariables) {
  // In all pairs of compilers, and in both orders.
  const std::vector<std::pair<std::string, std::string>> pairs = {
      {"unique_old_gcc", "unique_new_gcc"},
      {"unique_new_gcc", "unique_old_gcc"},
      {"unique_old_clang", "unique_new_gcc"},
      {"unique_old_gcc", "unique_new_clang"}};
  for (const auto& [first_name, second_name] : pairs) {
    const std::unique_ptr<LoadedObject> first = Load(first_name);
    const std::unique_ptr<LoadedObject> second = Load(second_name);
    for (const auto& [object, name] :
         {std::make_pair(first.get(), first_name), std::make_pair(second.get(), second_name)}) {
      const int32_t value = absl::StrContains(name, "old") ? 1 : 2;
      EXPECT_EQ(Call(*object, "ReadVariable"), value) << name;
      EXPECT_EQ(Call(*object, "ReadStatic"), value) << name;
      EXPECT_EQ(Call(*object, "ReadStatic"), value + 1) << name;
      EXPECT_EQ(Call(*object, "ReadOfThread"), value) << name;
      EXPECT_EQ(Call(*object, "SizeOfVariable"), value == 1 ? 16 : 32) << name;
      std::thread([&] { EXPECT_EQ(Call(*object, "ReadOfThread"), value) << name; }).join();
    }
    // Kernels of all objects exclude each other.
    EXPECT_EQ(Mutex(*first), Mutex(*second)) << first_name << " " << second_name;
  }
}

TEST(PrivateCopyTest, TheSameObjectTwiceIsTwoObjects) {
  const std::unique_ptr<LoadedObject> first = Load("unique_old_gcc");
  const std::unique_ptr<LoadedObject> second = Load("unique_old_gcc");
  EXPECT_EQ(Call(*first, "ReadStatic"), 1);
  EXPECT_EQ(Call(*first, "ReadStatic"), 2);
  EXPECT_EQ(Call(*second, "ReadStatic"), 1);
}

TEST(PrivateCopyTest, NeverTakesAnOldObjectForANewOne) {
  // The descriptors of the copies have the same numbers again and again.
  for (int round = 0; round < 20; ++round) {
    const bool old = round % 3 == 0;
    const std::unique_ptr<LoadedObject> object = Load(old ? "unique_old_gcc" : "unique_new_gcc");
    const std::unique_ptr<LoadedObject> kept = Load("unique_old_gcc");
    EXPECT_EQ(Call(*object, "ReadVariable"), old ? 1 : 2);
    EXPECT_EQ(Call(*kept, "ReadVariable"), 1);
  }
}

TEST(PrivateCopyTest, ReportsWhatItChanges) {
  std::string bytes = ObjectBytes("unique_old_gcc");
  const std::string before = bytes;
  PrivateCopyReport report;
  ASSERT_THAT(MakeSymbolsPrivate(bytes, &report), IsOk());
  EXPECT_THAT(report.made_private, Contains("_ZN5model8variableE"));
  EXPECT_THAT(report.made_private, Not(Contains(kMutex)));
  EXPECT_THAT(report.made_unique, IsEmpty());
  EXPECT_EQ(bytes.size(), before.size());
  size_t changed = 0;
  for (size_t i = 0; i < bytes.size(); ++i) changed += bytes[i] != before[i];
  EXPECT_EQ(changed, report.made_private.size()) << "one byte for each symbol";

  PrivateCopyReport again;
  ASSERT_THAT(MakeSymbolsPrivate(bytes, &again), IsOk());
  EXPECT_THAT(again.made_private, IsEmpty());

  // Clang has no unique symbols, so the one that must be shared becomes one.
  bytes = ObjectBytes("unique_old_clang");
  ASSERT_THAT(MakeSymbolsPrivate(bytes, &again), IsOk());
  EXPECT_THAT(again.made_unique, ElementsAre(kMutex));
}

TEST(PrivateCopyTest, ObjectsKeepTheNameOfTheirFile) {
  const std::unique_ptr<LoadedObject> object = Load("unique_old_gcc");
  Dl_info info = {};
  ASSERT_NE(dladdr(object->Find("kernel_entry"), &info), 0);
  EXPECT_STREQ(info.dli_fname, "kernels/unique_old_gcc.so");
}

TEST(PrivateCopyTest, FindsOnlyTheObjectsOwnSymbols) {
  const std::unique_ptr<LoadedObject> object = Load("unique_old_gcc");
  EXPECT_NE(object->Find("ReadStatic"), nullptr);
  EXPECT_EQ(object->Find("printf"), nullptr) << "it is the C library's";
  EXPECT_EQ(object->Find("nothing"), nullptr);
}

TEST(PrivateCopyTest, SymbolsAreFoundNowhereElse) {
  const std::unique_ptr<LoadedObject> object = Load("unique_old_gcc");
  EXPECT_EQ(dlsym(RTLD_DEFAULT, "ReadStatic"), nullptr);
}

TEST(PrivateCopyTest, ErrorsAreThoseOfTheLoader) {
  // A version that does not exist: the loader says so, with the name of the user's file.
  std::string bytes = ObjectBytes("pto_allreduce_gcc");
  const absl::StatusOr<ElfFile> elf = ReadElf(bytes);
  ASSERT_THAT(elf, IsOk());
  const size_t at = static_cast<size_t>(elf->version_needs[0].version.data() - bytes.data());
  bytes[at + elf->version_needs[0].version.size() - 1] = 'x';
  const absl::StatusOr<std::unique_ptr<LoadedObject>> loaded = LoadedObject::Load(bytes, "a.so");
  EXPECT_THAT(loaded, HasReason(reason::kFieldInvalid));
  EXPECT_THAT(std::string(loaded.status().message()),
              ::testing::AllOf(::testing::StartsWith("cannot be loaded: "),
                               ::testing::HasSubstr("(required by a.so)")));
  EXPECT_THAT(LoadedObject::Load("text", "b.so"), HasReason(reason::kFieldInvalid));
}

}  // namespace
}  // namespace pto::host
