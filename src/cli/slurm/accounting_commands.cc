// sacct: what it prints as records, what it printed earlier from a file, and past hours one after the other.
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "base/fd.h"
#include "base/files.h"
#include "base/parse.h"
#include "base/result.h"
#include "cli/slurm/record_commands.h"
#include "config/value_parse.h"
#include "sources/slurm/parse/table.h"
#include "sources/slurm/parse/words.h"

namespace gpulens {
namespace {

Result<Duration> SpanOf(const char* option, const std::string& text) {
  Duration span{};
  const bool plain = !text.empty() && text.find_first_not_of("0123456789.") == std::string::npos;
  if (ValueCheck wrong = ParseTimeValue(plain ? text + "s" : text, span))
    return Status{Code::kInvalidArgument, std::string(option) + ": " + wrong->problem};
  return span;
}

// From `start` to before `end`, both in seconds since 1970.
struct Chunk {
  int64_t start = 0, end = 0;
};

// sacct tells every job that lived within the bounds. Those that ended within them are told by one chunk
// only.
bool EndedWithin(const Chunk& chunk, std::string_view end) {
  std::optional<int64_t> at = slurm::ParseTime(end);
  return at && *at >= chunk.start && *at < chunk.end;
}

Result<slurm::Table> Accounting(RecordRun& run, const Chunk& chunk) {
  ASSIGN_OR_RETURN(Duration timeout, SpanOf("--sacct-timeout", run.options.timeout));
  const std::string delimiter = slurm::MakeDelimiter();
  // End stands last once more: what stands last must not be a text of a user, which may go over lines.
  ASSIGN_OR_RETURN(std::string text, run.programs.Run("sacct",
                                                      {"-a", "-P", "--delimiter=" + delimiter, "--duplicates",
                                                       "--noconvert", "-S", slurm::TimeText(chunk.start),
                                                       "-E", slurm::TimeText(chunk.end), "-o", "ALL,End"},
                                                      timeout));
  ASSIGN_OR_RETURN(slurm::Table table, slurm::ParseTable(text, delimiter));
  if (table.Find("End") == SIZE_MAX) return Status{Code::kDataLoss, "sacct printed no column End"};
  run.bad_lines += table.bad_lines;
  const size_t end = table.Find("End");
  std::erase_if(table.rows, [&](const auto& row) { return !EndedWithin(chunk, row[end]); });
  return table;
}

// A value between delimiters of two bytes: one that it holds is taken apart, so that the row stays whole.
std::string Printable(std::string_view value) {
  std::string out = slurm::CleanText(value);
  for (size_t at = out.find(kDelimiter); at != std::string::npos; at = out.find(kDelimiter, at + 3))
    out.insert(at + 1, 1, ' ');
  return out;
}

Status Publish(RecordRun& run, const slurm::Table& table) {
  RecordContext context = run.context;
  context.time_column = "end";
  const RecordMaker maker(kAccountingKind, table.columns, context);
  const Instant now = run.clock.Now();
  for (const std::vector<std::string>& row : table.rows) {
    const std::vector<std::string_view> values(row.begin(), row.end());
    RETURN_IF_ERROR(run.sender.Add(maker.Make(values, now)));
  }
  return run.sender.Send();
}

// Waits; false when a signal came.
bool Pause(const RecordRun& run, Duration span) {
  struct pollfd fd = {run.stop_fd, POLLIN, 0};
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(span).count();
  return ::poll(&fd, 1, static_cast<int>(std::clamp<int64_t>(ms, 0, 86'400'000))) == 0;
}

// Every chunk; those that failed once more at the end.
Status Backfill(RecordRun& run, std::vector<Chunk> chunks) {
  ASSIGN_OR_RETURN(Duration pause, SpanOf("--sleep", run.options.pause));
  size_t done = 0;
  Status last;
  for (int round = 0; round < 2 && !chunks.empty(); ++round) {
    std::vector<Chunk> failed;
    for (size_t i = 0; i < chunks.size(); ++i) {
      if (i > 0 || round > 0) {
        if (!Pause(run, pause)) return {Code::kUnavailable, "stopped by a signal"};
      }
      Result<slurm::Table> table = Accounting(run, chunks[i]);
      if (!table && table.error().code == Code::kInvalidArgument) return table.error();
      if (!table) {
        failed.push_back(chunks[i]);
        last = table.error();
        ::dprintf(STDERR_FILENO, "%s to %s: %s\n", slurm::TimeText(chunks[i].start).c_str(),
                  slurm::TimeText(chunks[i].end).c_str(), last.detail.c_str());
        continue;
      }
      // A sink that takes nothing ends it: the rest would be lost.
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

// Reads a table in pieces, so that a file of any size is no matter.
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
      // The header says which delimiter it is.
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

}  // namespace

Status PublishAccounting(RecordRun& run) {
  // Nobody knows in which zone the file was written.
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
  ASSIGN_OR_RETURN(slurm::Table table, Accounting(run, chunk));
  std::string out;
  auto add = [&](const std::vector<std::string>& row) {
    for (size_t i = 0; i < row.size(); ++i)
      out += (i == 0 ? "" : std::string(kDelimiter)) + Printable(row[i]);
    out += '\n';
  };
  add(table.columns);
  for (const std::vector<std::string>& row : table.rows) add(row);
  for (std::string_view rest = out; !rest.empty();) {
    const ssize_t wrote = ::write(STDOUT_FILENO, rest.data(), rest.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return errno == EPIPE ? Ok() : ErrnoStatus("write stdout", errno);
    rest.remove_prefix(static_cast<size_t>(wrote));
  }
  return Ok();
}

Status BackfillNew(RecordRun& run) {
  constexpr size_t kMostChunks = 100'000;
  ASSIGN_OR_RETURN(Chunk all, Bounds(run, "3 hours ago"));
  ASSIGN_OR_RETURN(Duration step, SpanOf("--step", run.options.step));
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

}  // namespace gpulens
