#include "cli/slurm/record_commands.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <poll.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>

#include "base/fd.h"
#include "base/files.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/process.h"
#include "base/result.h"
#include "cli/common/output.h"
#include "config/value_parse.h"
#include "sources/slurm/parse/scontrol.h"
#include "sources/slurm/parse/table.h"
#include "sources/slurm/parse/words.h"

namespace gpulens {

namespace {

Status SendRows(RecordRun& run, const RecordKind& kind, const slurm::SlurmTable& table,
                const RecordContext& context) {
  const RecordMaker maker(kind, table.columns, context);
  const Instant now = run.clock.Now();
  for (const std::vector<std::string>& row : table.rows) {
    const std::vector<std::string_view> values(row.begin(), row.end());
    RETURN_IF_ERROR(run.sender.Add(maker.Make(values, now)));
  }
  return Ok();
}

// Sends every row of a table with a header.
Status SendTable(RecordRun& run, const RecordKind& kind, std::string_view text, std::string_view delimiter) {
  ASSIGN_OR_RETURN(slurm::SlurmTable table, slurm::ParseTable(text, delimiter));
  run.bad_lines += table.bad_lines;
  return SendRows(run, kind, table, run.context);
}

Status SendFields(RecordRun& run, const RecordKind& kind, const slurm::ScontrolFields& fields) {
  std::vector<std::string> keys;
  std::vector<std::string_view> values;
  for (const auto& [key, value] : fields) {
    keys.push_back(key);
    values.push_back(value);
  }
  return run.sender.Add(RecordMaker(kind, keys, run.context).Make(values, run.clock.Now()));
}

Status SendNodes(RecordRun& run) {
  ASSIGN_OR_RETURN(std::string text, run.programs.Run("sinfo", {"-N", "-o", "%all"}));
  return SendTable(run, kNodeKind, text, "|");
}

Status SendJobs(RecordRun& run) {
  const std::string delimiter = slurm::MakeDelimiter();
  std::string format;
  std::vector<std::string_view> columns;
  for (const QueueColumn& column : QueueColumns()) {
    format += (format.empty() ? "" : ",") + std::string(column.field) + ":" + delimiter;
    columns.push_back(column.name);
  }
  ASSIGN_OR_RETURN(std::string text, run.programs.Run("squeue", {"--all", "--noheader", "-O", format}));
  ASSIGN_OR_RETURN(slurm::SlurmTable table, slurm::ParseRows(text, delimiter, columns));
  run.bad_lines += table.bad_lines;
  return SendRows(run, kJobKind, table, run.context);
}

// From `start` to before `end`, both in seconds since 1970.
struct Chunk {
  int64_t start = 0, end = 0;
};

// sacct prints every job that lived within the bounds; a chunk only keeps those that ended within them.
bool EndedWithin(const Chunk& chunk, std::string_view end) {
  std::optional<int64_t> at = slurm::ParseTime(end);
  return at && *at >= chunk.start && *at < chunk.end;
}

Result<slurm::SlurmTable> Accounting(RecordRun& run, const Chunk& chunk) {
  ASSIGN_OR_RETURN(Duration timeout, SlurmSpan("--sacct-timeout", run.options.timeout));
  const std::string delimiter = slurm::MakeDelimiter();
  // End is repeated at the end: the last column must not be a user's text, which may span lines.
  ASSIGN_OR_RETURN(std::string text, run.programs.Run("sacct",
                                                      {"-a", "-P", "--delimiter=" + delimiter, "--duplicates",
                                                       "--noconvert", "-S", slurm::TimeText(chunk.start),
                                                       "-E", slurm::TimeText(chunk.end), "-o", "ALL,End"},
                                                      timeout));
  ASSIGN_OR_RETURN(slurm::SlurmTable table, slurm::ParseTable(text, delimiter));
  if (table.Find("End") == SIZE_MAX) return Status{Code::kDataLoss, "sacct printed no column End"};
  run.bad_lines += table.bad_lines;
  const size_t end = table.Find("End");
  std::erase_if(table.rows, [&](const auto& row) { return !EndedWithin(chunk, row[end]); });
  return table;
}

// Splits delimiters of two bytes within a value, so that the row stays whole.
std::string SplitDelimiters(std::string_view value) {
  std::string out = slurm::CleanText(value);
  for (size_t at = out.find(kDelimiter); at != std::string::npos; at = out.find(kDelimiter, at + 3))
    out.insert(at + 1, 1, ' ');
  return out;
}

Status Publish(RecordRun& run, const slurm::SlurmTable& table) {
  RecordContext context = run.context;
  context.time_column = "end";
  RETURN_IF_ERROR(SendRows(run, kAccountingKind, table, context));
  return run.sender.Send();
}

// Sends every chunk, and those that failed once more at the end.
Status Backfill(RecordRun& run, std::vector<Chunk> chunks) {
  ASSIGN_OR_RETURN(Duration pause, SlurmSpan("--sleep", run.options.pause));
  size_t done = 0;
  Status last;
  for (int round = 0; round < 2 && !chunks.empty(); ++round) {
    std::vector<Chunk> failed;
    for (size_t i = 0; i < chunks.size(); ++i) {
      if (i > 0 || round > 0) {
        if (StoppedWithin(run.stop_fd, pause)) return {Code::kUnavailable, "stopped by a signal"};
      }
      Result<slurm::SlurmTable> table = Accounting(run, chunks[i]);
      if (!table && table.error().code == Code::kInvalidArgument) return table.error();
      if (!table) {
        failed.push_back(chunks[i]);
        last = table.error();
        ::dprintf(STDERR_FILENO, "%s to %s: %s\n", slurm::TimeText(chunks[i].start).c_str(),
                  slurm::TimeText(chunks[i].end).c_str(), last.detail.c_str());
        continue;
      }
      // Stops when the sink fails, or the rest would be lost.
      RETURN_IF_ERROR(Publish(run, *table));
      ++done;
      ::dprintf(STDERR_FILENO, "%s to %s: %zu records\n", slurm::TimeText(chunks[i].start).c_str(),
                slurm::TimeText(chunks[i].end).c_str(), table->rows.size());
    }
    chunks = std::move(failed);
  }
  if (chunks.empty()) return Ok();
  return {last.code, std::to_string(chunks.size()) + " of " + std::to_string(chunks.size() + done) +
                         " parts failed; the last: " + last.detail};
}

Result<Chunk> Bounds(RecordRun& run, const char* start_default) {
  const int64_t now = run.clock.Now().unix_ns / 1'000'000'000;
  ASSIGN_OR_RETURN(int64_t start,
                   slurm::ParseWhen(run.options.start.empty() ? start_default : run.options.start, now));
  ASSIGN_OR_RETURN(int64_t end, slurm::ParseWhen(run.options.end.empty() ? "now" : run.options.end, now));
  if (end <= start) return Status{Code::kInvalidArgument, "--end must be after --start"};
  return Chunk{start, end};
}

// Reads a table of any size in pieces.
class FileTable {
 public:
  FileTable(RecordRun& run, RecordContext context) : run_(run), context_(std::move(context)) {}

  Status Read(int fd) {
    char buffer[65536];
    for (;;) {
      struct pollfd fds[] = {{fd, POLLIN, 0}, {run_.stop_fd, POLLIN, 0}};
      if (::poll(fds, 2, -1) < 0 && errno != EINTR) return ErrnoStatus("poll", errno);
      if (fds[1].revents != 0) return {Code::kUnavailable, "stopped by a signal"};
      if (fds[0].revents == 0) continue;
      const ssize_t got = ::read(fd, buffer, sizeof buffer);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return ErrnoStatus("read", errno);
      if (got == 0) break;
      RETURN_IF_ERROR(Add({buffer, static_cast<size_t>(got)}));
    }
    if (!reader_) Begin();
    Status end = reader_->Finish();
    run_.bad_lines += reader_->bad_lines();
    return sent_ ? end : sent_;
  }

 private:
  Status Add(std::string_view bytes) {
    if (!reader_) {
      // The header shows the delimiter.
      head_ += bytes;
      if (head_.find('\n') == std::string::npos && head_.size() < (size_t{1} << 20)) return Ok();
      Begin();
      return sent_;
    }
    reader_->Add(bytes);
    return sent_;
  }

  void Begin() {
    const std::string_view header = std::string_view(head_).substr(0, head_.find('\n'));
    std::string delimiter = run_.options.delimiter;
    if (delimiter.empty()) delimiter = header.find(kDelimiter) != std::string_view::npos ? kDelimiter : "|";
    reader_.emplace(delimiter, [this](std::span<const std::string_view> values) {
      if (!maker_) maker_.emplace(kAccountingKind, reader_->columns(), context_);
      sent_ = run_.sender.Add(maker_->Make(values, run_.clock.Now()));
      return sent_.ok();
    });
    reader_->Add(head_);
    head_.clear();
  }

  RecordRun& run_;
  const RecordContext context_;
  std::string head_;
  std::optional<slurm::TableReader> reader_;
  std::optional<RecordMaker> maker_;
  Status sent_;
};

// A mount whose server does not answer within this time is skipped.
constexpr Duration kMountTimeout = std::chrono::seconds(10);
constexpr size_t kMostMounts = 1024, kMostFile = size_t{256} << 20;

struct MatchedMount {
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

// CLUSTER=PATTERN; * in a pattern matches anything, and so does .* of regular expressions.
struct WantedMounts {
  std::string cluster, pattern;
};
WantedMounts MountsOf(std::string_view text) {
  WantedMounts out;
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

Result<std::vector<MatchedMount>> Mounts(const std::vector<std::string>& wanted) {
  ASSIGN_OR_RETURN(std::string text, ReadFile(std::string("/proc/self/mounts"), size_t{4} << 20));
  std::vector<MatchedMount> out;
  for (std::string_view rest = text; !rest.empty() && out.size() < kMostMounts;) {
    std::string_view line = TakeUntil(rest, '\n');
    MatchedMount mount;
    mount.device = Unescaped(TakeUntil(line, ' '));
    mount.path = Unescaped(TakeUntil(line, ' '));
    mount.type = TakeUntil(line, ' ');
    if (mount.path.empty()) continue;
    for (const std::string& one : wanted) {
      WantedMounts want = MountsOf(one);
      if (::fnmatch(want.pattern.c_str(), mount.path.c_str(), 0) != 0) continue;
      mount.cluster = std::move(want.cluster);
      out.push_back(std::move(mount));
      break;
    }
  }
  return out;
}

// Returns block size, blocks, free and available ones, inodes, free inodes. Queried by another process, which
// can be abandoned when the file system does not answer.
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

Status SendMount(RecordRun& run, const MatchedMount& mount, const std::array<uint64_t, 6>& counts) {
  const auto bytes = [&](uint64_t blocks) { return static_cast<int64_t>(blocks * counts[0]); };
  const std::string path = slurm::CleanText(mount.path), device = slurm::CleanText(mount.device);
  const std::string& cluster = mount.cluster.empty() ? run.context.cluster : mount.cluster;
  std::vector<AttributeSet::Attribute> all = {
      {"storage.mount", std::string_view(path)},
      {"storage.device", std::string_view(device)},
      {"storage.type", std::string_view(mount.type)},
      {"storage.size", bytes(counts[1])},
      {"storage.used", bytes(counts[1] - std::min(counts[1], counts[2]))},
      {"storage.free", bytes(counts[2])},
      {"storage.available", bytes(counts[3])}};
  // 0 for a file system without a table of inodes.
  if (counts[4] != 0) {
    all.push_back({"storage.inodes", static_cast<int64_t>(counts[4])});
    all.push_back({"storage.inodes.free", static_cast<int64_t>(counts[5])});
  }
  if (!cluster.empty()) all.push_back({kRecordCluster, std::string_view(cluster)});
  return run.sender.Add(Record(kRecordStorageMount, run.clock, all));
}

// Sends lines of JSON, one for each user: {user, used, sample_time, directory}.
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

Result<Duration> SlurmSpan(const char* option, const std::string& text) {
  Duration span{};
  const bool plain = !text.empty() && text.find_first_not_of("0123456789.") == std::string::npos;
  if (ValueCheck wrong = ParseTimeValue(plain ? text + "s" : text, span))
    return Status{Code::kInvalidArgument, std::string(option) + ": " + wrong->problem};
  return span;
}

bool StoppedWithin(int stop_fd, Duration span) {
  struct pollfd fd = {stop_fd, POLLIN, 0};
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(span).count();
  return ::poll(&fd, 1, static_cast<int>(std::clamp<int64_t>(ms, 0, 7 * 86'400'000))) > 0;
}

Status SendNodesAndJobs(RecordRun& run) {
  // Sends the jobs even if the nodes fail.
  Status nodes = SendNodes(run), jobs = SendJobs(run);
  return nodes ? jobs : nodes;
}

Status SendRunningJobs(RecordRun& run) {
  const std::string delimiter = slurm::MakeDelimiter();
  ASSIGN_OR_RETURN(std::string text,
                   run.programs.Run("sacct", {"-a", "-P", "--delimiter=" + delimiter, "-s", "RUNNING",
                                              "--duplicates", "--noconvert", "-o", "ALL,End"}));
  return SendTable(run, kAccountingKind, text, delimiter);
}

Status SendQos(RecordRun& run) {
  ASSIGN_OR_RETURN(std::string text, run.programs.Run("sacctmgr", {"-P", "show", "qos"}));
  return SendTable(run, kQosKind, text, "|");
}

Status SendUsers(RecordRun& run) {
  ASSIGN_OR_RETURN(std::string text,
                   run.programs.Run("sacctmgr", {"-P", "show", "user", "withassoc",
                                                 "format=User,DefaultAccount,Account,DefaultQOS,QOS"}));
  return SendTable(run, kUserKind, text, "|");
}

Status SendPartitions(RecordRun& run) {
  ASSIGN_OR_RETURN(std::string text, run.programs.Run("scontrol", {"show", "partition", "-a", "-o"}));
  std::vector<slurm::ScontrolFields> records = slurm::ParseOneLineRecords(text);
  if (records.empty()) return {Code::kDataLoss, "scontrol printed no partition"};
  for (const slurm::ScontrolFields& fields : records)
    RETURN_IF_ERROR(SendFields(run, kPartitionKind, fields));
  return Ok();
}

Status SendConfiguration(RecordRun& run) {
  ASSIGN_OR_RETURN(std::string text, run.programs.Run("scontrol", {"show", "config"}));
  const slurm::ScontrolFields fields = slurm::ParseConfig(text);
  if (fields.empty()) return {Code::kDataLoss, "scontrol printed no configuration"};
  return SendFields(run, kConfigKind, fields);
}

Status SendPriorities(RecordRun& run) {
  // Versions differ in their columns, which the header lists.
  const std::string delimiter = slurm::MakeDelimiter();
  std::string format;
  for (char column : std::string_view("iruoYSABFJPQNT"))
    format += (format.empty() ? "" : delimiter) + "%" + column;
  ASSIGN_OR_RETURN(std::string text, run.programs.Run("sprio", {"--sort=r,-y", "-o", format}));
  // Without waiting jobs there may be no header.
  if (Trim(text).empty()) return Ok();
  ASSIGN_OR_RETURN(slurm::SlurmTable table, slurm::ParseTable(text, delimiter));
  // PARTITION is first the name, then its part of the priority.
  for (size_t i = 0, seen = 0; i < table.columns.size(); ++i) {
    if (table.columns[i] == "PARTITION" && seen++ > 0) table.columns[i] = "partition_factor";
    if (table.columns[i] == "JOBID") table.columns[i] = "job_id";
  }
  run.bad_lines += table.bad_lines;
  return SendRows(run, kPriorityKind, table, run.context);
}

Status SendShares(RecordRun& run) {
  ASSIGN_OR_RETURN(
      std::string text,
      run.programs.Run("sshare",
                       {"-a", "-P", "-o",
                        "Account,User,RawShares,NormShares,RawUsage,NormUsage,EffectvUsage,FairShare,"
                        "LevelFS,TRESRunMins"}));
  return SendTable(run, kShareKind, text, "|");
}

Status PublishAccounting(RecordRun& run) {
  // The time zone of the file is unknown.
  RecordContext context = run.context;
  context.utc = false;
  const std::string& path = run.options.file;
  const bool standard = path.empty() || path == "-";
  UniqueFd file(standard ? ::dup(STDIN_FILENO) : ::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return ErrnoStatus("open " + (standard ? "standard input" : path), errno);
  return FileTable(run, std::move(context)).Read(file.get());
}

Status PrintAccounting(RecordRun& run) {
  ASSIGN_OR_RETURN(Chunk chunk, Bounds(run, "1 hour ago"));
  ASSIGN_OR_RETURN(slurm::SlurmTable table, Accounting(run, chunk));
  std::string out;
  auto add = [&](const std::vector<std::string>& row) {
    for (size_t i = 0; i < row.size(); ++i)
      out += (i == 0 ? "" : std::string(kDelimiter)) + SplitDelimiters(row[i]);
    out += '\n';
  };
  add(table.columns);
  for (const std::vector<std::string>& row : table.rows) add(row);
  if (WriteAll(STDOUT_FILENO, out) || errno == EPIPE) return Ok();
  return ErrnoStatus("write stdout", errno);
}

Status BackfillNew(RecordRun& run) {
  constexpr size_t kMostChunks = 100'000;
  ASSIGN_OR_RETURN(Chunk all, Bounds(run, "3 hours ago"));
  ASSIGN_OR_RETURN(Duration step, SlurmSpan("--step", run.options.step));
  const int64_t seconds = std::chrono::duration_cast<std::chrono::seconds>(step).count();
  if (seconds < 1) return {Code::kInvalidArgument, "--step must be at least 1 s"};
  std::vector<Chunk> chunks;
  for (int64_t at = all.start; at < all.end; at += seconds) {
    if (chunks.size() == kMostChunks) return {Code::kInvalidArgument, "more than 100,000 steps"};
    chunks.push_back({at, std::min(at + seconds, all.end)});
  }
  return Backfill(run, std::move(chunks));
}

Status BackfillFromFile(RecordRun& run) {
  ASSIGN_OR_RETURN(std::string text, ReadFile(run.options.file, size_t{16} << 20));
  const int64_t now = run.clock.Now().unix_ns / 1'000'000'000;
  std::vector<Chunk> chunks;
  size_t number = 0;
  for (std::string_view rest = text; !rest.empty();) {
    std::string_view line = Trim(TakeUntil(rest, '\n'));
    ++number;
    if (line.empty() || line.starts_with('#')) continue;
    const size_t split = line.find_first_of(", \t");
    auto start = slurm::ParseWhen(std::string(line.substr(0, split)), now);
    auto end = split == std::string_view::npos
                   ? start
                   : slurm::ParseWhen(std::string(Trim(line.substr(split + 1))), now);
    if (!start || !end || *end <= *start)
      return {Code::kInvalidArgument,
              run.options.file + ":" + std::to_string(number) + ": expected START,END"};
    chunks.push_back({*start, *end});
  }
  if (chunks.empty()) return {Code::kInvalidArgument, run.options.file + ": no line START,END in it"};
  return Backfill(run, std::move(chunks));
}

Status SendStorage(RecordRun& run) {
  std::vector<std::string> wanted = run.options.mounts;
  if (wanted.empty() && run.options.pure_file.empty()) wanted = {"*"};
  ASSIGN_OR_RETURN(std::vector<MatchedMount> mounts, Mounts(wanted));
  Status failed;
  size_t answered = 0;
  for (const MatchedMount& mount : mounts) {
    Result<std::array<uint64_t, 6>> counts = Query(mount.path, run);
    if (!counts) {
      failed = {counts.error().code, mount.path + ": " + counts.error().detail};
      continue;
    }
    // File systems of the kernel have no size.
    if ((*counts)[1] == 0) continue;
    ++answered;
    RETURN_IF_ERROR(SendMount(run, mount, *counts));
  }
  if (!run.options.pure_file.empty()) return SendUsage(run);
  if (answered == 0 && failed.ok()) return {Code::kUnavailable, "no mount matches"};
  return answered > 0 ? Ok() : failed;
}

}  // namespace gpulens
