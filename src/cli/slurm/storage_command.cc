// How full file systems are, and what a storage system says of its users.
#include <fnmatch.h>

#include <array>

#include "base/files.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/process.h"
#include "base/result.h"
#include "cli/slurm/record_commands.h"
#include "sources/slurm/parse/words.h"

namespace gpulens {
namespace {

// A server that does not answer is no reason to wait for ever, and its mount is passed over.
constexpr Duration kMountTimeout = std::chrono::seconds(10);
constexpr size_t kMostMounts = 1024, kMostFile = size_t{256} << 20;

struct Mount {
  std::string path, device, type, cluster;
};

// The blanks of a path are octal in /proc/self/mounts.
std::string Unescaped(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size()) {
      if (auto code = ParseInt<unsigned>(text.substr(i + 1, 3), 8); code && *code < 256) {
        out += static_cast<char>(*code);
        i += 3;
        continue;
      }
    }
    out += text[i];
  }
  return out;
}

// CLUSTER=PATTERN; in a pattern * stands for anything, and so does .* as people who know expressions write
// it.
struct Wanted {
  std::string cluster, pattern;
};
Wanted WantedOf(std::string_view text) {
  Wanted out;
  const size_t equals = text.find('=');
  if (equals != std::string_view::npos) out.cluster = text.substr(0, equals);
  std::string_view pattern = equals == std::string_view::npos ? text : text.substr(equals + 1);
  if (pattern.starts_with('^')) pattern.remove_prefix(1);
  if (pattern.ends_with('$')) pattern.remove_suffix(1);
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == '.' && i + 1 < pattern.size() && pattern[i + 1] == '*') continue;
    out.pattern += pattern[i];
  }
  return out;
}

Result<std::vector<Mount>> Mounts(const std::vector<std::string>& wanted) {
  ASSIGN_OR_RETURN(std::string text, ReadFile(std::string("/proc/self/mounts"), size_t{4} << 20));
  std::vector<Mount> out;
  for (std::string_view rest = text; !rest.empty() && out.size() < kMostMounts;) {
    std::string_view line = TakeUntil(rest, '\n');
    Mount mount;
    mount.device = Unescaped(TakeUntil(line, ' '));
    mount.path = Unescaped(TakeUntil(line, ' '));
    mount.type = TakeUntil(line, ' ');
    if (mount.path.empty()) continue;
    for (const std::string& one : wanted) {
      Wanted want = WantedOf(one);
      if (::fnmatch(want.pattern.c_str(), mount.path.c_str(), 0) != 0) continue;
      mount.cluster = std::move(want.cluster);
      out.push_back(std::move(mount));
      break;
    }
  }
  return out;
}

// Block size, blocks, free and available ones, inodes, free inodes: asked for in a process of its own, which
// can be left behind when the file system does not answer.
Result<std::array<uint64_t, 6>> Query(const std::string& path, const RecordRun& run) {
  ASSIGN_OR_RETURN(std::string program, FindProgram("stat"));
  RunOptions options;
  options.program = std::move(program);
  options.arguments = {"-f", "-c", "%S %b %f %a %c %d", "--", path};
  options.timeout = kMountTimeout;
  options.most_output = 4096;
  options.stop_fd = run.stop_fd;
  RunResult result = RunBounded(options, run.clock);
  RETURN_IF_ERROR(result.status);
  std::array<uint64_t, 6> out{};
  std::string_view rest = Trim(result.output);
  for (uint64_t& value : out) {
    std::optional<uint64_t> number = ParseInt<uint64_t>(TakeUntil(rest, ' '));
    if (!number) return Status{Code::kDataLoss, "stat printed no numbers"};
    value = *number;
  }
  return out;
}

Event Record(const RecordDesc& desc, const Clock& clock,
             std::span<const AttributeSet::Attribute> attributes) {
  Event event;
  event.at = clock.Now();
  event.name = desc.name;
  event.attributes = AttributeSet(attributes);
  event.severity = EventSeverity::kInfo;
  return event;
}

Status SendMount(RecordRun& run, const Mount& mount, const std::array<uint64_t, 6>& said) {
  const auto bytes = [&](uint64_t blocks) { return static_cast<int64_t>(blocks * said[0]); };
  const std::string path = slurm::CleanText(mount.path), device = slurm::CleanText(mount.device);
  const std::string& cluster = mount.cluster.empty() ? run.context.cluster : mount.cluster;
  std::vector<AttributeSet::Attribute> all = {{"storage.mount", std::string_view(path)},
                                              {"storage.device", std::string_view(device)},
                                              {"storage.type", std::string_view(mount.type)},
                                              {"storage.size", bytes(said[1])},
                                              {"storage.used", bytes(said[1] - std::min(said[1], said[2]))},
                                              {"storage.free", bytes(said[2])},
                                              {"storage.available", bytes(said[3])}};
  // A file system without a table of inodes says 0.
  if (said[4] != 0) {
    all.push_back({"storage.inodes", static_cast<int64_t>(said[4])});
    all.push_back({"storage.inodes.free", static_cast<int64_t>(said[5])});
  }
  if (!cluster.empty()) all.push_back({kRecordCluster, std::string_view(cluster)});
  return run.sender.Add(Record(kRecordStorageMount, run.clock, all));
}

// A line of JSON a user: {user, used, sample_time, directory}.
Status SendUsage(RecordRun& run) {
  ASSIGN_OR_RETURN(std::string text, ReadFile(run.options.pure_file, kMostFile));
  for (std::string_view rest = text; !rest.empty();) {
    std::string_view line = Trim(TakeUntil(rest, '\n'));
    if (line.empty()) continue;
    auto json = JsonDocument::Parse(line);
    std::optional<double> used;
    std::optional<std::string> user, directory;
    if (json) {
      used = json->Number("/used");
      user = json->Text("/user");
      directory = json->Text("/directory");
    }
    if (!used || !(*used >= 0 && *used < 9e18) || !user) {
      ++run.bad_lines;
      continue;
    }
    const std::string who = slurm::CleanText(*user), where = slurm::CleanText(directory.value_or(""));
    std::vector<AttributeSet::Attribute> all = {{"storage.user", std::string_view(who)},
                                                {"storage.used", static_cast<int64_t>(*used)}};
    if (!where.empty()) all.push_back({"storage.directory", std::string_view(where)});
    const std::string when = slurm::CleanText(json->Text("/sample_time").value_or(""));
    const std::optional<double> seconds = json->Number("/sample_time");
    if (!when.empty()) all.push_back({"storage.sample_time", std::string_view(when)});
    if (seconds) all.push_back({"storage.sample_time", *seconds});
    if (!run.context.cluster.empty()) all.push_back({kRecordCluster, std::string_view(run.context.cluster)});
    RETURN_IF_ERROR(run.sender.Add(Record(kRecordStorageUser, run.clock, all)));
  }
  return Ok();
}

}  // namespace

Status SendStorage(RecordRun& run) {
  std::vector<std::string> wanted = run.options.mounts;
  if (wanted.empty() && run.options.pure_file.empty()) wanted = {"*"};
  ASSIGN_OR_RETURN(std::vector<Mount> mounts, Mounts(wanted));
  Status failed;
  size_t answered = 0;
  for (const Mount& mount : mounts) {
    Result<std::array<uint64_t, 6>> said = Query(mount.path, run);
    if (!said) {
      failed = {said.error().code, mount.path + ": " + said.error().detail};
      continue;
    }
    // Those of the kernel's own have no size.
    if ((*said)[1] == 0) continue;
    ++answered;
    RETURN_IF_ERROR(SendMount(run, mount, *said));
  }
  if (!run.options.pure_file.empty()) return SendUsage(run);
  if (answered == 0 && failed.ok()) return {Code::kUnavailable, "no mount matches"};
  return answered > 0 ? Ok() : failed;
}

}  // namespace gpulens
