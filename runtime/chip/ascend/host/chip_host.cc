// ptod_chip_host: the only program that opens the libraries of CANN. The daemon starts one for each
// chip; `ptoctl doctor` runs it to look at the machine.

#include <cstdio>
#include <cstring>
#include <string>

#include "runtime/chip/ascend/cann/library_search.h"
#include "runtime/chip/ascend/doctor/cann_probe.h"
#include "runtime/chip/ascend/doctor/doctor.h"
#include "runtime/chip/ascend/host/serve.h"

namespace pto::ascend {
namespace {

constexpr char kUsage[] =
    "usage: ptod_chip_host --doctor [-o table|json] [--cann-path FOLDER] [--devices FOLDER]\n"
    "The daemon starts it with --serve.\n";

struct Arguments {
  std::string mode;
  std::string output = "table";
  std::string cann_path;
  std::string devices = "/dev";
};

bool Parse(int argc, char** argv, Arguments* arguments) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    std::string* value = nullptr;
    if (word == "--doctor" || word == "--probe" || word == "--serve") {
      arguments->mode = word;
      continue;
    }
    if (word == "-o" || word == "--output") value = &arguments->output;
    if (word == "--cann-path") value = &arguments->cann_path;
    if (word == "--devices") value = &arguments->devices;
    if (value == nullptr || i + 1 >= argc) return false;
    *value = argv[++i];
  }
  return !arguments->mode.empty() && (arguments->output == "table" || arguments->output == "json");
}

int RunDoctor(const Arguments& arguments) {
  const std::vector<Finding> findings = Examine(arguments.cann_path, arguments.devices);
  std::fputs((arguments.output == "json" ? ToJson(findings) : ToTable(findings)).c_str(), stdout);
  for (const Finding& finding : findings) {
    if (finding.state == Finding::State::kProblem) return 1;
  }
  return 0;
}

int RunProbe(const Arguments& arguments) {
  cann::SearchInput input;
  input.explicit_path = arguments.cann_path;
  const std::vector<Finding> findings = ProbeCann(cann::FindCann(input));
  std::fputs(ToLines(findings).c_str(), stdout);
  return 0;
}

}  // namespace
}  // namespace pto::ascend

int main(int argc, char** argv) {
  pto::ascend::Arguments arguments;
  if (!pto::ascend::Parse(argc, argv, &arguments)) {
    std::fputs(pto::ascend::kUsage, stderr);
    return 2;
  }
  if (arguments.mode == "--serve") return pto::ascend::ServeChip(arguments.cann_path);
  if (arguments.mode == "--probe") return pto::ascend::RunProbe(arguments);
  return pto::ascend::RunDoctor(arguments);
}
