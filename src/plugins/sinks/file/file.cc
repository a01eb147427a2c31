// The file sink: readings and events as lines of JSON in a file that is rotated.

#include "base/result.h"
#include "base/version.h"
#include "delivery/record.h"
#include "export/sink_names.h"
#include "pipeline/rollup/rollup_rule.h"
#include "plugins/plugin.h"
#include "plugins/sinks/file/log_file.h"
#include "wire/json/json_lines.h"
#include "wire/otlp/otlp_json.h"
#include "wire/otlp/otlp_logs.h"
#include "wire/otlp/otlp_metrics.h"

namespace gpulens {
namespace {

constexpr std::string_view kRecords = "records", kOtlpJson = "otlp_json";

// A line for each reading and each event.
class RecordLines {
 public:
  explicit RecordLines(SeriesNamer namer) : lines_(std::move(namer)) {}
  Status Append(const Snapshot& snapshot, std::string& out) { return lines_.Append(snapshot, out), Ok(); }
  Status Append(const Events& events, std::string& out) { return AppendJsonEvents(out, events), Ok(); }
  void Commit() { lines_.Commit(); }

 private:
  JsonLines lines_;
};

// A line for each OTLP request in JSON, as the OpenTelemetry Collector's receiver `otlpjsonfile` reads them.
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
  // Of protobuf, whose JSON is about four times as long: the receiver cuts lines at 1 MiB.
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
  // A full disk may have room again at the next tick; what else is wrong, people have to put right.
  if (!opened && opened.code != Code::kExhausted) return opened;
  return std::unique_ptr<Sink>(std::move(sink));
}

Result<std::unique_ptr<Sink>> Create(const Config& config, Env& env) {
  LogFile::Options options;
  options.path = config.Text("path");
  options.rotate_size = config.Size("rotate_size");
  options.rotate_age = config.Time("rotate_age");
  options.keep = static_cast<int>(config.Int("keep"));
  options.sync = SyncPolicyOf(config.Text("fsync"));
  options.sync_interval = config.Time("fsync_interval");
  if (options.path.empty()) return Status{Code::kInvalidArgument, "the file sink needs a path"};
  if (config.Text("format") == kOtlpJson) return Open<OtlpLines>(std::move(options), config, env);
  return Open<RecordLines>(std::move(options), config, env);
}

constexpr std::string_view kFormats[] = {kRecords, kOtlpJson};
constexpr auto kOptions = JoinOptions(
    std::to_array<OptionSpec>({
        IntervalOption("0s"),
        {.key = "path", .fallback = {}, .help = "The file; its folder must exist.", .required = true},
        {.key = "format",
         .fallback = kRecords,
         .help =
             "records: a line for each reading and event. otlp_json: a line for each OTLP request, as the "
             "Collector's receiver otlpjsonfile reads them.",
         .allowed = kFormats},
        {.key = "rotate_size",
         .type = OptionType::kSize,
         .fallback = "64MiB",
         .help = "Start a new file before this one gets larger; 0: never.",
         .min = 0},
        {.key = "rotate_age",
         .type = OptionType::kTime,
         .fallback = "24h",
         .help = "Start a new file when this one gets older; 0s: never.",
         .min = 0},
        {.key = "keep",
         .type = OptionType::kInt,
         .fallback = "5",
         .help = "How many earlier files are kept, as PATH.1 to PATH.N.",
         .min = 0,
         .max = 1000},
        {.key = "fsync",
         .fallback = "none",
         .help = "When written lines are synced to disk.",
         .allowed = kSyncPolicies},
        {.key = "fsync_interval",
         .type = OptionType::kTime,
         .fallback = "5s",
         .help = "How often, with fsync: interval.",
         .min = 0.1,
         .max = 86400},
    }),
    JoinOptions(NameOptions("[native]"), RollupsOption()));

}  // namespace

extern const SinkSpec file_sink;
const SinkSpec file_sink{.name = "file",
                         .help = "Every reading and every event as a line of JSON in a file.",
                         .threaded = true,
                         .options = kOptions,
                         .create = &Create,
                         .check = &CheckRollups,
                         .several = true};

}  // namespace gpulens
