// Runs a fuzz target once for each given file, and for each file of a given directory, like
// libFuzzer, for compilers without it. Ignores libFuzzer's options.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

namespace fs = std::filesystem;

std::vector<fs::path> FilesOf(const fs::path& path) {
  if (!fs::is_directory(path)) return {path};
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(path)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

int main(int argc, char** argv) {
  size_t count = 0;
  for (int i = 1; i < argc; ++i) {
    if (argv[i][0] == '-') continue;
    for (const fs::path& file : FilesOf(argv[i])) {
      std::ifstream stream(file, std::ios::binary);
      if (!stream) {
        std::fprintf(stderr, "%s cannot be read\n", file.c_str());
        return 1;
      }
      const std::string bytes{std::istreambuf_iterator<char>(stream), {}};
      // Printed before it runs, so that the last name is the input that ended the program.
      std::printf("%s: %zu bytes\n", file.c_str(), bytes.size());
      std::fflush(stdout);
      // A copy of its own, so that a sanitizer detects reads beyond its end.
      const std::vector<uint8_t> input(bytes.begin(), bytes.end());
      LLVMFuzzerTestOneInput(input.data(), input.size());
      ++count;
    }
  }
  std::printf("%zu inputs\n", count);
  return count > 0 ? 0 : 1;
}
