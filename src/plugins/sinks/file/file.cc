// Sink of readings and events as lines of JSON in a rotated file.

#include "plugins/sinks/file/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/files.h"
#include "base/log.h"
#include "base/result.h"
#include "base/version.h"
#include "export/sink_names.h"
#include "pipeline/rollup/rollup_rule.h"
#include "plugins/plugin.h"
#include "wire/json/json_snapshot.h"
#include "wire/otlp/otlp_json.h"
#include "wire/otlp/otlp_metrics.h"
#include "wire/otlp/otlp_write.h"

namespace gpulens {
namespace {

constexpr mode_t kMode = 0640;
// Part of the end of the file that is searched for a line torn by a crash.
constexpr size_t kLongestLine = 1 << 20;

Status WriteError(const std::string& path, int error) {
  Status status = ErrnoStatus("write " + path, error);
  if (error == EFBIG) status.code = Code::kExhausted;  // RLIMIT_FSIZE, or the maximum of the file system
  return status;
}

std::string FolderOf(const std::string& path) {
  size_t slash = path.rfind('/');
  if (slash == path.npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

Status OpenError(const std::string& path, int error) {
  if (error == ELOOP)
    return {Code::kInvalidArgument,
            path + " is a symbolic link, which is not followed: name the file itself"};
  if (error == ENXIO) return {Code::kInvalidArgument, path + " is not a regular file"};
  Status status = ErrnoStatus("open " + path, error);
  struct stat info{};
  if (error == ENOENT && ::stat(FolderOf(path).c_str(), &info) != 0)
    status.detail += ": the folder " + FolderOf(path) + " does not exist; create it first";
  return status;
}

// Returns when the file was created; `now` where the file system does not know.
int64_t BirthOf(int fd, Instant now) noexcept {
  struct statx info{};
  if (::statx(fd, "", AT_EMPTY_PATH, STATX_BTIME, &info) != 0 || !(info.stx_mask & STATX_BTIME))
    return now.unix_ns;
  return info.stx_btime.tv_sec * 1'000'000'000 + info.stx_btime.tv_nsec;
}

void SyncFolder(const std::string& path) noexcept {
  UniqueFd folder(::open(FolderOf(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder) ::fsync(folder.get());
}

}  // namespace

Status LogFile::Open(Instant now) {
  if (fd_ && StillThere()) return Ok();
  fd_.reset();
  torn_ = false;
  // O_NONBLOCK: a pipe at this path must not block until it has a reader.
  constexpr int kFlags = O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
  UniqueFd fd(::open(options_.path.c_str(), kFlags | O_EXCL, kMode));
  bool made = static_cast<bool>(fd);
  if (!fd && errno == EEXIST) fd.reset(::open(options_.path.c_str(), kFlags & ~O_CREAT));
  if (!fd) return OpenError(options_.path, errno);
  struct stat info{};
  if (::fstat(fd.get(), &info) != 0) return ErrnoStatus("stat " + options_.path, errno);
  if (!S_ISREG(info.st_mode)) return {Code::kInvalidArgument, options_.path + " is not a regular file"};
  fd_ = std::move(fd);
  size_ = static_cast<uint64_t>(info.st_size);
  begun_unix_ns_ = made ? now.unix_ns : BirthOf(fd_.get(), now);
  if (made && options_.sync != SyncPolicy::kNone) SyncFolder(options_.path);
  Status status = CheckContent();
  if (!status) fd_.reset();
  return status;
}

// Lines begin with a brace. A last line without an end was torn by a crash and would spoil the next.
Status LogFile::CheckContent() {
  if (size_ == 0) return Ok();
  char first = 0, last = 0;
  if (::pread(fd_.get(), &first, 1, 0) != 1 ||
      ::pread(fd_.get(), &last, 1, static_cast<off_t>(size_ - 1)) != 1)
    return ErrnoStatus("read " + options_.path, errno);
  if (first != '{')
    return {Code::kInvalidArgument, options_.path + " exists and does not contain JSON lines"};
  if (last == '\n') return Ok();
  std::string end(std::min<uint64_t>(size_, kLongestLine), '\0');
  ssize_t count = ::pread(fd_.get(), end.data(), end.size(), static_cast<off_t>(size_ - end.size()));
  if (count != static_cast<ssize_t>(end.size())) return ErrnoStatus("read " + options_.path, errno);
  size_t newline = end.rfind('\n');
  if (newline == end.npos && end.size() < size_)
    return {Code::kDataLoss, options_.path + " ends with a line of more than 1 MiB: move it away"};
  size_ = newline == end.npos ? 0 : size_ - end.size() + newline + 1;
  torn_ = true;
  return MendEnd();
}

Status LogFile::MendEnd() {
  if (!torn_) return Ok();
  if (::ftruncate(fd_.get(), static_cast<off_t>(size_)) != 0)
    return ErrnoStatus("truncate a torn line of " + options_.path, errno);
  torn_ = false;
  return Ok();
}

// Returns false when the file was moved or deleted. Also detects a truncated file.
bool LogFile::StillThere() noexcept {
  struct stat ours{}, there{};
  if (::fstat(fd_.get(), &ours) != 0 || ::lstat(options_.path.c_str(), &there) != 0) return false;
  if (ours.st_dev != there.st_dev || ours.st_ino != there.st_ino) return false;
  if (!torn_) size_ = static_cast<uint64_t>(ours.st_size);
  return true;
}

void LogFile::RotateIfDue(size_t coming, Instant now) {
  if (size_ == 0) {
    begun_unix_ns_ = now.unix_ns;
    return;
  }
  bool large = options_.rotate_size != 0 && size_ + coming > options_.rotate_size;
  bool old = options_.rotate_age.count() > 0 && now.unix_ns - begun_unix_ns_ >= options_.rotate_age.count();
  if (!large && !old) return;
  Status status = Rotate();
  // A large file is better than dropped readings.
  if (!status) Log(LogLevel::kWarn, "file", "rotate", status.detail, options_.path);
}

Status LogFile::Rotate() {
  if (options_.sync != SyncPolicy::kNone) RETURN_IF_ERROR(SyncNow());
  // Rename files up to the first free number; without one, replace the last file.
  int last = 1;
  while (last < options_.keep && ::access(Numbered(last).c_str(), F_OK) == 0) ++last;
  for (int i = last; i > 1; --i) {
    if (::rename(Numbered(i - 1).c_str(), Numbered(i).c_str()) != 0)
      return ErrnoStatus("rename " + Numbered(i - 1), errno);
  }
  bool gone = options_.keep == 0 ? ::unlink(options_.path.c_str()) == 0
                                 : ::rename(options_.path.c_str(), Numbered(1).c_str()) == 0;
  if (!gone) return ErrnoStatus("rotate " + options_.path, errno);
  fd_.reset();
  return Ok();
}

Status LogFile::WriteWhole(std::string_view lines) {
  size_t done = 0;
  while (done < lines.size()) {
    ssize_t count = ::write(fd_.get(), lines.data() + done, lines.size() - done);
    if (count > 0) {
      done += static_cast<size_t>(count);
    } else if (count == 0 || errno != EINTR) {
      Status status = WriteError(options_.path, count == 0 ? ENOSPC : errno);
      torn_ = done != 0;
      if (Status mended = MendEnd(); !mended) status.detail += "; " + mended.detail;
      return status;
    }
  }
  size_ += lines.size();
  return Ok();
}

Status LogFile::Append(std::string_view lines, Instant now) {
  RETURN_IF_ERROR(Open(now));
  RETURN_IF_ERROR(MendEnd());
  if (lines.empty()) return Ok();
  RotateIfDue(lines.size(), now);
  RETURN_IF_ERROR(Open(now));
  RETURN_IF_ERROR(WriteWhole(lines));
  bool due = options_.sync == SyncPolicy::kAlways ||
             (options_.sync == SyncPolicy::kInterval &&
              now.boot_ns - synced_boot_ns_ >= options_.sync_interval.count());
  if (!due) return Ok();
  synced_boot_ns_ = now.boot_ns;
  return SyncNow();
}

Status LogFile::SyncNow() {
  if (!fd_ || ::fdatasync(fd_.get()) == 0) return Ok();
  Status status = WriteError(options_.path, errno);
  // After a failed sync the kernel discards what it could not write: open the file again.
  fd_.reset();
  return status;
}

namespace {

constexpr std::string_view kRecords = "records", kOtlpJson = "otlp_json";

constexpr std::string_view kFormats[] = {kRecords, kOtlpJson};
constexpr auto kOptions = JoinOptions(
    std::to_array<OptionSpec>({
        IntervalOption("0s"),
        {.key = "path", .fallback = {}, .help = "The file; its folder must exist.", .required = true},
        TextOption(
            "format", kRecords,
            "records: a line for each reading and event. otlp_json: a line for each OTLP request, as the "
            "Collector's receiver otlpjsonfile reads them.",
            kFormats),
        SizeOption("rotate_size", "64MiB", "Start a new file before this one gets larger; 0: never.", 0),
        TimeOption("rotate_age", "24h", "Start a new file when this one gets older; 0s: never.", 0),
        IntOption("keep", "5", "How many earlier files are kept, as PATH.1 to PATH.N.", 0, 1000),
        TextOption("fsync", "none", "When written lines are synced to disk.", kSyncPolicies),
        TimeOption("fsync_interval", "5s", "How often, with fsync: interval.", 0.1, 86400),
    }),
    NameOptions("[native]"), RollupsOption());
using Options = OptionsOf<kOptions>;

// Encodes each reading and each event as a line.
class RecordLines {
 public:
  explicit RecordLines(SeriesNamer namer) : lines_(std::move(namer)) {}
  Status Append(const Snapshot& snapshot, std::string& out) { return lines_.Append(snapshot, out), Ok(); }
  Status Append(const Events& events, std::string& out) { return AppendJsonEvents(out, events), Ok(); }
  void Commit() { lines_.Commit(); }

 private:
  JsonLines lines_;
};

// Encodes OTLP requests as lines of JSON, as the OpenTelemetry Collector's receiver `otlpjsonfile` reads
// them.
class OtlpLines {
 public:
  explicit OtlpLines(SeriesNamer namer)
      : metrics_(std::move(namer), {.max_bytes = kLineBytes, .scope_version = Version()}) {}
  Status Append(const Snapshot& snapshot, std::string& out) {
    return metrics_.Encode(snapshot, [&](std::string_view request, uint32_t) {
      return AppendLine(OtlpMessage::kMetrics, request, out);
    });
  }
  Status Append(const Events& events, std::string& out) {
    if (events.list.empty()) return Ok();
    EncodeOtlpLogs(events, Version(), request_);
    return AppendLine(OtlpMessage::kLogs, request_, out);
  }
  void Commit() { metrics_.Commit(); }

 private:
  // Size as protobuf, whose JSON is about four times as long: the receiver cuts lines at 1 MiB.
  static constexpr size_t kLineBytes = 192u << 10;

  Status AppendLine(OtlpMessage message, std::string_view request, std::string& out) {
    RETURN_IF_ERROR(OtlpToJson(message, request, json_));
    out.append(json_).push_back('\n');
    return Ok();
  }

  OtlpMetrics metrics_;
  std::string request_, json_;
};

template <class Lines>
class FileSink final : public Sink {
 public:
  FileSink(LogFile::Options options, const SinkNames& names, const Clock& clock)
      : file_(options), lines_(names.namer(NameForm::kOtel)), clock_(clock), sync_(options.sync) {}

  Status Open() { return file_.Open(clock_.Now()); }

  Status Write(const Snapshot& snapshot) override {
    text_.clear();
    RETURN_IF_ERROR(lines_.Append(snapshot, text_));
    RETURN_IF_ERROR(file_.Append(text_, clock_.Now()));
    lines_.Commit();
    return Ok();
  }
  Status Write(const Events& events) override {
    text_.clear();
    RETURN_IF_ERROR(lines_.Append(events, text_));
    return file_.Append(text_, clock_.Now());
  }
  Status Flush(Instant) override { return sync_ == SyncPolicy::kNone ? Ok() : file_.SyncNow(); }

 private:
  LogFile file_;
  Lines lines_;
  const Clock& clock_;
  const SyncPolicy sync_;
  std::string text_;
};

template <class Lines>
Result<std::unique_ptr<Sink>> Open(LogFile::Options options, const Config& config, Env& env) {
  auto sink = std::make_unique<FileSink<Lines>>(std::move(options), SinkNames(config), *env.clock);
  Status opened = sink->Open();
  // A full disk may have room again at the next tick; other errors need an operator.
  if (!opened && opened.code != Code::kExhausted) return opened;
  return std::unique_ptr<Sink>(std::move(sink));
}

Result<std::unique_ptr<Sink>> Create(const Config& config, Env& env) {
  const Options options(config);
  LogFile::Options file{.path = options.Text("path"),
                        .rotate_size = options.Size("rotate_size"),
                        .rotate_age = options.Time("rotate_age"),
                        .keep = static_cast<int>(options.Int("keep")),
                        .sync = SyncPolicyOf(options.Text("fsync")),
                        .sync_interval = options.Time("fsync_interval")};
  if (file.path.empty()) return Status{Code::kInvalidArgument, "the file sink needs a path"};
  if (options.Text("format") == kOtlpJson) return Open<OtlpLines>(std::move(file), config, env);
  return Open<RecordLines>(std::move(file), config, env);
}

void NeededRights(const Config& config, const Env&, Rights& out) {
  const std::string folder = FolderOf(Options(config).Text("path"));
  // A missing one is not made: what should be mounted there may come later.
  struct stat info{};
  if (::stat(folder.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) out.folders.push_back(folder);
}

}  // namespace

extern const SinkSpec file_sink;
const SinkSpec file_sink{.name = "file",
                         .help = "Every reading and every event as a line of JSON in a file.",
                         .threaded = true,
                         .options = kOptions,
                         .create = &Create,
                         .check = &CheckRollups,
                         .several = true,
                         .rights = &NeededRights};

}  // namespace gpulens
