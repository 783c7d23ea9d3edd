#include "runtime/chip/ascend/doctor/machine_checks.h"

#include <dirent.h>
#include <grp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace pto::ascend {
namespace {

using State = Finding::State;

std::string FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string GroupName(gid_t group) {
  const ::group* const entry = getgrgid(group);  // NOLINT: one thread
  return entry == nullptr ? absl::StrCat(group) : entry->gr_name;
}

std::vector<std::string> GroupsOfProcess() {
  std::vector<gid_t> groups(256);
  const int count = getgroups(static_cast<int>(groups.size()), groups.data());
  groups.resize(static_cast<size_t>(std::max(count, 0)));
  groups.push_back(getegid());
  std::vector<std::string> names;
  for (const gid_t group : groups) names.push_back(GroupName(group));
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

std::vector<std::string> NodesIn(const std::string& devices) {
  std::vector<std::string> nodes;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(devices.c_str()), closedir);
  if (folder == nullptr) return nodes;
  while (const dirent* const entry = readdir(folder.get())) {
    const std::string name = entry->d_name;
    if (absl::StartsWith(name, "davinci") || name == "devmm_svm" || name == "hisi_hdc") {
      nodes.push_back(name);
    }
  }
  std::sort(nodes.begin(), nodes.end());
  return nodes;
}

std::string Size(uint64_t bytes) {
  if (bytes == RLIM_INFINITY) return "unlimited";
  return bytes >= uint64_t{1} << 30 ? absl::StrCat(bytes >> 30, " GiB")
                                    : absl::StrCat(bytes >> 20, " MiB");
}

}  // namespace

void CheckToolkit(const cann::SearchResult& search, std::vector<Finding>* findings) {
  for (const cann::SearchStep& step : search.steps) {
    findings->push_back(
        {"search", State::kNote,
         absl::StrCat(step.from, step.folder.empty() ? "" : " ", step.folder, ": ", step.result),
         ""});
  }
  if (!search.found()) {
    findings->push_back(
        {"toolkit", State::kProblem,
         search.stubs.empty() ? "no libraries of CANN" : "only stub libraries, which do nothing",
         "install CANN 8.5 or later, or set ASCEND_HOME_PATH to where it is"});
  } else {
    findings->push_back({"toolkit", State::kOk,
                         absl::StrCat(search.acl_library, ", layout ", cann::NameOf(search.layout)),
                         ""});
    findings->push_back(
        search.hccl_library.empty()
            ? Finding{"hccl", State::kProblem, "there is no libhccl.so beside it",
                      "install the communication package; until then each chip works alone"}
            : Finding{"hccl", State::kOk, search.hccl_library, ""});
    findings->push_back({"library path", State::kNote, search.LibraryPath(), ""});
  }
  if (search.driver_folders.empty()) {
    findings->push_back(
        {"driver", State::kProblem, "there is no /usr/local/Ascend/driver/lib64",
         "install the driver, or mount /usr/local/Ascend/driver into the container"});
  } else {
    const std::string version = FirstLine("/usr/local/Ascend/driver/version.info");
    findings->push_back(
        {"driver", State::kOk,
         absl::StrCat(search.driver_folders.front(), version.empty() ? "" : ", ", version), ""});
  }
}

void CheckDeviceNodes(const std::string& devices, std::vector<Finding>* findings) {
  const std::vector<std::string> nodes = NodesIn(devices);
  const std::string user =
      absl::StrCat("user ", geteuid(), ", groups ", absl::StrJoin(GroupsOfProcess(), ", "));
  findings->push_back({"user", State::kNote, user, ""});
  for (const char* const wanted : {"davinci_manager", "devmm_svm", "hisi_hdc"}) {
    if (std::find(nodes.begin(), nodes.end(), wanted) == nodes.end()) {
      findings->push_back(
          {"device nodes", State::kProblem, absl::StrCat(devices, "/", wanted, " is missing"),
           "load the driver's modules, or pass the device nodes into the container"});
    }
  }
  for (const std::string& name : nodes) {
    const std::string path = absl::StrCat(devices, "/", name);
    struct stat node = {};
    if (stat(path.c_str(), &node) != 0) continue;
    const bool open = access(path.c_str(), R_OK | W_OK) == 0;
    findings->push_back(
        {"device nodes", open ? State::kOk : State::kProblem,
         absl::StrCat(path, ": group ", GroupName(node.st_gid), ", mode ",
                      absl::Hex(node.st_mode >> 6 & 7), absl::Hex(node.st_mode >> 3 & 7),
                      absl::Hex(node.st_mode & 7), open ? "" : ", cannot be opened"),
         open ? ""
              : absl::StrCat("add the daemon's user to the group ", GroupName(node.st_gid),
                             ": SupplementaryGroups= in ptod.service")});
  }
}

void CheckLimits(std::vector<Finding>* findings) {
  rlimit locked = {};
  getrlimit(RLIMIT_MEMLOCK, &locked);
  const bool enough = locked.rlim_cur == RLIM_INFINITY || locked.rlim_cur >= uint64_t{64} << 20;
  findings->push_back({"limits", enough ? State::kOk : State::kNote,
                       absl::StrCat("locked memory: ", Size(locked.rlim_cur)),
                       enough ? ""
                              : "LimitMEMLOCK=infinity in ptod.service: pinned memory counts "
                                "against it with some drivers"});
  rlimit files = {};
  getrlimit(RLIMIT_NOFILE, &files);
  findings->push_back({"limits", files.rlim_max >= 4096 ? State::kOk : State::kProblem,
                       absl::StrCat("open files: ", files.rlim_cur, " of ", files.rlim_max),
                       files.rlim_max >= 4096 ? "" : "LimitNOFILE=65536 in ptod.service"});
  const std::string cgroup = FirstLine("/sys/fs/cgroup/memory.max");
  findings->push_back(
      {"limits", State::kNote,
       absl::StrCat("memory of the control group: ", cgroup.empty() ? "not known" : cgroup), ""});
  struct statvfs shared = {};
  if (statvfs("/dev/shm", &shared) == 0) {
    const uint64_t bytes = uint64_t{shared.f_blocks} * shared.f_frsize;
    findings->push_back({"limits", bytes >= uint64_t{64} << 20 ? State::kOk : State::kProblem,
                         absl::StrCat("/dev/shm: ", Size(bytes)),
                         bytes >= uint64_t{64} << 20 ? "" : "docker run --shm-size=1g"});
  }
}

void CheckSandbox(std::vector<Finding>* findings) {
  const auto add = [&](absl::string_view name, bool there, absl::string_view advice) {
    findings->push_back({"sandbox", there ? State::kOk : State::kNote,
                         absl::StrCat(name, there ? ": available" : ": not available"),
                         there ? "" : std::string(advice)});
  };
  add("seccomp", prctl(PR_GET_SECCOMP, 0, 0, 0, 0) >= 0,
      "kernels of users run without a filter of system calls");
  const long landlock = syscall(SYS_landlock_create_ruleset, nullptr, 0, 1);
  add("landlock", landlock > 0, "kernels of users can read files of the daemon's user");
  const int self = static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0));
  add("pidfd", self >= 0, "Linux 5.3 or later is needed for hosts");
  if (self >= 0) close(self);
  const int memory = static_cast<int>(syscall(SYS_memfd_create, "doctor", 0));
  add("memfd", memory >= 0, "memory cannot be shared with hosts and clients");
  if (memory >= 0) close(memory);
}

}  // namespace pto::ascend
