// A run of a hostile file, exported as MLflow has it: everything is written below the folder that was named,
// keys that clash included, and a second export leaves the same files. Input: lines; "p KEY", "t KEY", "m
// KEY", "a NAME", "f PATH", "i ID", "n NAME". Fuzz inputs: 3'000
// Fuzz inputs: 1'000
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/parse.h"
#include "cli/exp/exp_command.h"

namespace {

using namespace gpulens;
namespace fs = std::filesystem;

// Below it are "out", which is written to, and files that must stay as they are.
const std::string& Folder() {
  static const std::string folder = [] {
    std::string made = std::string(::access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp") + "/export_XXXXXX";
    CHECK(::mkdtemp(made.data()) != nullptr);
    std::ofstream(made + "/precious") << "untouched";
    return made;
  }();
  return folder;
}

std::map<std::string, uintmax_t> Files(const std::string& below) {
  std::map<std::string, uintmax_t> files;
  for (const auto& each : fs::recursive_directory_iterator(below)) {
    CHECK(!each.is_symlink());
    if (each.is_regular_file()) files[fs::relative(each.path(), below)] = each.file_size();
  }
  return files;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  MlflowRun run;
  run.page.run.id = "exp-20251121-020701-9f3a11c2";
  run.page.run.name = "train";
  std::vector<std::string> artifacts;
  while (!rest.empty()) {
    const std::string_view line = TakeUntil(rest, '\n');
    if (line.size() < 2 || line[1] != ' ') continue;
    const std::string text(line.substr(2));
    switch (line[0]) {
      case 'p': run.page.params.push_back({text, std::string("value")}); break;
      case 't': run.page.tags.push_back({text, "value"}); break;
      case 'm':
        run.page.metrics.push_back({.key = text, .count = 1, .last_step = 1});
        run.points.push_back({{1, 2'000'000, 0.5}});
        break;
      case 'a': artifacts.push_back(text); break;
      case 'f':  // of a path that is none of the run's
        run.page.artifacts.push_back(
            {.name = "x", .path = Folder() + "/" + text, .bytes = 9, .sha256 = {}, .copied = true});
        break;
      case 'i': run.page.run.id = text; break;
      case 'n': run.page.run.name = text; break;
      default: break;
    }
    const std::string key = MlflowKey(text);
    CHECK(!key.empty() && key.size() <= 250 && !key.starts_with('/') && MlflowKey(key) == key);
    for (std::string_view parts = key; !parts.empty();) {
      const std::string_view part = TakeUntil(parts, '/');
      CHECK(!part.empty() && part != "." && part != "..");
    }
    if (run.page.params.size() + run.page.tags.size() + run.page.metrics.size() + artifacts.size() > 24)
      break;
  }
  const std::string out = Folder() + "/out", copies = Folder() + "/runs/" + run.page.run.id + "/artifacts";
  fs::remove_all(out);
  fs::remove_all(Folder() + "/runs");
  for (const std::string& name : artifacts) {
    const std::string path = copies + "/" + name;
    // Where it is a name for a file, the file is there.
    std::error_code error;
    const fs::path plain = fs::path(path).lexically_normal();
    if (path.find('\0') == std::string::npos && plain.string().starts_with(Folder() + "/runs/")) {
      fs::create_directories(plain.parent_path(), error);
      std::ofstream(plain) << "bytes";
    }
    run.page.artifacts.push_back({.name = name, .path = path, .bytes = 5, .sha256 = {}, .copied = true});
  }
  const Status written = WriteMlflow(run, out);
  // Nothing outside of that folder.
  std::set<std::string> names;
  for (const auto& each : fs::directory_iterator(Folder())) names.insert(each.path().filename());
  names.erase("out"), names.erase("runs");
  CHECK((names == std::set<std::string>{"precious"}) && fs::file_size(Folder() + "/precious") == 9);
  if (!written) {
    CHECK(!written.detail.empty());
    return 0;
  }
  const auto files = Files(out);
  const std::string experiment = MlflowExperimentId(run.page.run.name),
                    place = experiment + "/" + run.page.run.id + "/";
  size_t params = 0, metrics = 0, tags = 0;
  for (const auto& [name, bytes] : files) {
    CHECK(name == experiment + "/meta.yaml" || name.starts_with(place));
    if (!name.starts_with(place)) continue;
    const std::string_view inner = std::string_view(name).substr(place.size());
    CHECK(!inner.starts_with("artifacts/") || bytes == 5);  // none but copies
    params += inner.starts_with("params/"), metrics += inner.starts_with("metrics/"),
        tags += inner.starts_with("tags/");
  }
  // Each key has a file of its own.
  CHECK(params == run.page.params.size() && metrics == run.page.metrics.size());
  CHECK(tags >= run.page.tags.size());
  CHECK(WriteMlflow(run, out).ok() && Files(out) == files);
  return 0;
}
