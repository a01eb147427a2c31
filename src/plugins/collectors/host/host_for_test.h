// A machine made of files that tests can change, collected with a ManualClock.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/files.h"
#include "core/series_table.h"
#include "names/naming.h"
#include "plugins/collectors/host/host_part.h"
#include "wire/exposition/text_page.h"

namespace gpulens {

extern const CollectorSpec host_collector;

inline const std::string kGoodRoot = GPULENS_SOURCE_DIR "/src/sources/host/testdata/root";

// The options' defaults, but for the lists.
inline Config HostConfig(std::span<const OptionSpec> options = host_collector.options) {
  Config config;
  for (const OptionSpec& option : options) {
    std::string key(option.key);
    switch (option.type) {
      case OptionType::kBool: config.Set(key, option.fallback == "true", {}); break;
      case OptionType::kTexts: config.Set(key, std::vector<std::string>(), {}); break;
      case OptionType::kGroup: config.Set(key, HostConfig(option.children), {}); break;
      default: config.Set(key, std::string(option.fallback), {});
    }
  }
  return config;
}

// Everything that is off by default, too.
inline Config FullConfig() {
  Config config = HostConfig();
  for (const char* key : {"per_cpu", "processes", "pressure_shares", "entropy"}) config.Set(key, true, {});
  config.Set("temperatures", std::string("all"), {});
  return config;
}

inline void Exclude(Config& config, const std::string& group, std::vector<std::string> names) {
  Config inner;
  inner.Set("exclude", std::move(names), {});
  config.Set(group, std::move(inner), {});
}

// Replaces statvfs: the last components of a path select the answer, below any root.
inline int FakeStatVfs(const char* path, struct statvfs* out) {
  std::string_view where(path);
  errno = where.ends_with("/data disk") ? EIO : EACCES;
  if (where.ends_with("/data disk") || where.ends_with("/opt")) return -1;
  *out = {};
  out->f_frsize = 4096;
  out->f_blocks = 1'000'000;
  out->f_bfree = 400'000;
  out->f_bavail = 350'000;
  out->f_files = where.ends_with("/boot/efi") ? 0 : 65'536;
  out->f_ffree = 60'000;
  return 0;
}

inline Status FakeTimeSync(TimeSync& out) {
  out = {.synchronized = true, .offset_ns = -1500};
  return Ok();
}

// A copy of the good root below a folder of its own, removed at the end.
class FakeRoot {
 public:
  FakeRoot() {
    // In memory where that is possible: some hundred small files are written for each test.
    std::string folder = ::access("/dev/shm", W_OK) == 0 ? "/dev/shm/" : testing::TempDir();
    std::string pattern = folder + "gpulens_host_collector_XXXXXX";
    path_ = ::mkdtemp(pattern.data());
    std::filesystem::copy(
        kGoodRoot, path_,
        std::filesystem::copy_options::recursive | std::filesystem::copy_options::copy_symlinks);
  }
  ~FakeRoot() { std::filesystem::remove_all(path_); }
  FakeRoot(const FakeRoot&) = delete;
  FakeRoot& operator=(const FakeRoot&) = delete;

  const std::filesystem::path& path() const noexcept { return path_; }
  std::string Read(const std::string& file) const { return ReadFile((path_ / file).string()).value_or(""); }
  void Write(const std::string& file, const std::string& text) const {
    std::filesystem::create_directories((path_ / file).parent_path());
    std::ofstream(path_ / file) << text;
  }
  void Remove(const std::string& file) const { std::filesystem::remove_all(path_ / file); }
  void Replace(const std::string& file, const std::string& from, const std::string& to) const {
    std::string text = Read(file);
    size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << file << ": " << from;
    Write(file, text.replace(at, from.size(), to));
  }

 private:
  std::filesystem::path path_;
};

// A day after the good root's boot.
inline constexpr Instant kStart{86'400'500'000'000, 1'767'312'000'500'000'000};

// One instance, driven by hand.
class HostRun {
 public:
  explicit HostRun(const std::string& root, Config config = HostConfig(),
                   HostSeams seams = {&FakeStatVfs, &FakeTimeSync}, Instant start = kStart)
      : clock(start) {
    config.Set("root", root, {});
    auto made = MakeHostCollector(config, env, seams);
    EXPECT_TRUE(made.ok()) << made.status().detail;
    if (made) collector = std::move(*made);
  }

  Status Collect() {
    writer.Begin(clock.Now());
    Status status = collector->Collect(writer);
    frame = writer.Finish();
    return status;
  }
  Status After(Duration duration) {
    clock.Advance(duration);
    return Collect();
  }
  std::string Page(ExpositionFormat format = ExpositionFormat::kText004) {
    Snapshot snapshot;
    snapshot.closed_at = clock.Now();
    snapshot.frames.push_back({frame, frame->source, Precedence::kNative, false});
    TextPage page(format, &NameNative);
    std::string text;
    page.Render(snapshot, text);
    return text;
  }
  // The lines with numbers.
  std::set<std::string> Lines() {
    std::set<std::string> lines;
    std::string page = Page();
    for (std::string_view rest = page; !rest.empty();) {
      std::string_view line = rest.substr(0, rest.find('\n'));
      rest.remove_prefix(line.size() + 1);
      if (!line.starts_with('#')) lines.emplace(line);
    }
    return lines;
  }
  bool Has(const std::string& start) {
    auto lines = Lines();
    auto at = lines.lower_bound(start);
    return at != lines.end() && at->starts_with(start);
  }

  Env env;
  ManualClock clock;
  SeriesTable table;
  FrameWriter writer{table, std::chrono::seconds(10), "host"};
  std::unique_ptr<Collector> collector;
  Ref<const Frame> frame;
};

}  // namespace gpulens
