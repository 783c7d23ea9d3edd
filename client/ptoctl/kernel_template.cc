#include "client/ptoctl/kernel_template.h"

#include <cctype>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "runtime/base/error.h"

namespace pto::ptoctl {
namespace {

struct Template {
  absl::string_view path;
  absl::string_view text;
};

constexpr Template kTemplates[] = {
#include "client/ptoctl/kernel_templates.inc"
};

constexpr size_t kMaxId = 63;

}  // namespace

bool IsKernelId(absl::string_view name) {
  if (name.empty() || name.size() > kMaxId || name[0] < 'a' || name[0] > 'z') return false;
  for (const char c : name) {
    if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && c != '_') return false;
  }
  return true;
}

std::vector<KernelFile> MakeKernelFiles(absl::string_view name, bool pto) {
  std::vector<KernelFile> files;
  for (const Template& each : kTemplates) {
    absl::string_view path = each.path;
    absl::ConsumeSuffix(&path, ".in");
    const bool of_pto = absl::ConsumePrefix(&path, "pto/");
    if (of_pto != pto) continue;
    // The headers of our own ABI come from their own folder.
    if (!absl::ConsumePrefix(&path, "own/")) absl::ConsumePrefix(&path, "kernels/");
    KernelFile& file = files.emplace_back();
    if (absl::ConsumePrefix(&path, "kernel")) {
      file.name = absl::StrCat(name, path);
    } else if (absl::ConsumePrefix(&path, "job")) {
      file.name = absl::StrCat(name, path);
    } else {
      file.name = std::string(path);
    }
    file.text = absl::StrReplaceAll(absl::StripPrefix(each.text, "\n"), {{"@NAME@", name}});
  }
  return files;
}

absl::Status WriteKernelFiles(const std::vector<KernelFile>& files, const std::string& folder) {
  std::error_code error;
  for (const KernelFile& file : files) {
    const std::filesystem::path path = std::filesystem::path(folder) / file.name;
    if (std::filesystem::exists(std::filesystem::symlink_status(path, error))) {
      return Error(reason::kUsage, absl::StrCat(path.string(), " exists already"))
          .Hint("choose another name, or another folder with --directory");
    }
  }
  std::filesystem::create_directories(folder, error);
  if (error) {
    return Error(reason::kUsage, absl::StrCat("cannot create ", folder, ": ", error.message()));
  }
  for (const KernelFile& file : files) {
    const std::string path = (std::filesystem::path(folder) / file.name).string();
    std::ofstream out(path);
    out << file.text;
    out.close();
    if (!out) {
      return Error(reason::kUsage, absl::StrCat("cannot write ", path, ": ",
                                                std::generic_category().message(errno)));
    }
  }
  return absl::OkStatus();
}

}  // namespace pto::ptoctl
