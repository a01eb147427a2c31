#include "pipeline/delivery/delivery.h"

#include <algorithm>
#include <filesystem>

#include "base/log.h"
#include "base/result.h"
#include "core/received_otlp.h"

namespace gpulens {
namespace {

// "otlp/b" has the folder "otlp.b".
std::string FolderOf(const std::string& sink) {
  std::string name = sink;
  std::ranges::replace(name, '/', '.');
  return name;
}

// When something was appended last in a folder of a log.
std::filesystem::file_time_type LastWrite(const std::string& folder) {
  std::filesystem::file_time_type last = std::filesystem::file_time_type::min();
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::error_code gone;
    const auto written = at->last_write_time(gone);
    if (!gone && at->path().extension() == ".seg") last = std::max(last, written);
  }
  return last;
}

// Maximum number of records that wait before one with a waiting sender.
constexpr uint64_t kBacklog = 16;

// Adds the received signals that this sink exports.
void AddReceivedSignals(const Delivery::SinkSetup& sink, Delivery::Plan& plan) {
  const uint32_t takes = sink.spec->network->takes(sink.config);
  for (size_t source = 0; source < kRecordSources; ++source) {
    if (!SendsSource(sink.config, static_cast<RecordSource>(source))) continue;
    for (size_t signal = 0; signal < kOtlpSignals; ++signal)
      plan.sends[source][signal] |= (takes >> signal & 1) != 0;
  }
  if (SendsSource(sink.config, RecordSource::kRemoteWrite))
    plan.carries_histograms &= sink.spec->network->remote_write;
}

class StandaloneSink final : public Sink {
 public:
  explicit StandaloneSink(Env& env) : delivery_(env) {}

  Status Open(const SinkSpec& spec, const Config& config, Env& env) {
    const std::string name(spec.name);
    Delivery::Plan plan;
    RETURN_IF_ERROR(delivery_.Add({name, &spec, config}, plan));
    const auto log = delivery_.LogOf(name, {name}, LogOptionsOf(config, delivery_.DefaultFolder(name)));
    plan.destinations.back().own = log;
    ASSIGN_OR_RETURN(encoder_, spec.network->encoder(config, env, std::make_unique<LogWriter>(log)));
    delivery_.Apply(std::move(plan), env.clock->Now());
    return Ok();
  }
  Status Write(const Snapshot& snapshot) override { return encoder_->Write(snapshot); }
  Status Write(const Events& events) override { return encoder_->Write(events); }
  Status Flush(Instant deadline) override {
    RETURN_IF_ERROR(encoder_->Flush(deadline));
    for (auto& [name, end] : delivery_.Finish(deadline)) RETURN_IF_ERROR(end);
    return Ok();
  }

 private:
  Delivery delivery_;
  std::unique_ptr<Sink> encoder_;
};

}  // namespace

struct Delivery::Destination {
  Plan::Destination planned;
  std::unique_ptr<RequestSender> sender;
  std::vector<std::shared_ptr<LogReader>> readers;  // of the logs that it is sent from
  // Counts of logs that it has left.
  std::array<uint64_t, kRecordDropReasons> dropped{};
};

Delivery::Delivery(Env& env) : env_(env) {}
Delivery::~Delivery() = default;

bool Delivery::SendsOwn(const Config& config) { return SendsSource(config, RecordSource::kOwn); }

bool Delivery::SendsReceived(const SinkSpec& spec, const Config& config) {
  if (!spec.takes_received) return false;
  return SendsSource(config, RecordSource::kOtlp) || SendsSource(config, RecordSource::kRemoteWrite);
}

Status Delivery::Add(const SinkSetup& sink, Plan& plan) const {
  if (!sink.spec->network) {
    plan.discards |= sink.spec->takes_received;
    return Ok();
  }
  if (!env_.http || !env_.io) return {Code::kUnavailable, "there is no network here"};
  // Two sinks in one folder would share a position.
  const std::string& chosen = sink.config.Group("queue").Text("dir");
  for (const Plan::Destination& one : plan.destinations) {
    if (!chosen.empty() && one.sink.config.Group("queue").Text("dir") == chosen)
      return {Code::kInvalidArgument,
              "sinks." + sink.name + ".queue.dir: sinks." + one.sink.name + " has this folder"};
  }
  ASSIGN_OR_RETURN(SendPlan send, sink.spec->network->plan(sink.name, sink.config));
  ASSIGN_OR_RETURN(auto setup, MakeSendSetup(std::move(send), sink.config));
  plan.destinations.push_back({sink, std::move(setup), BoundsOf(sink.config), nullptr, nullptr});
  return Ok();
}

std::string Delivery::QueueFolder() const { return env_.state_dir.empty() ? "" : env_.state_dir + "/queue"; }

std::string Delivery::DefaultFolder(const std::string& sink) const {
  return env_.state_dir.empty() ? "" : QueueFolder() + "/" + FolderOf(sink);
}

Delivery::OpenLog* Delivery::FindLog(const std::string& folder) {
  for (OpenLog& open : logs_) {
    if (open.log->options().folder == folder) return &open;
  }
  return nullptr;
}

std::shared_ptr<RequestLog> Delivery::LogOf(const std::string& base, const std::vector<std::string>& members,
                                            RequestLogOptions options) {
  std::lock_guard lock(mutex_);
  // In memory: the log of the same members, or a new one.
  if (options.folder.empty()) {
    for (OpenLog& open : logs_) {
      if (open.current && open.log->options().folder.empty() && open.log->options().owner == base &&
          std::includes(members.begin(), members.end(), open.members.begin(), open.members.end())) {
        open.members = members;
        return open.log;
      }
    }
    options.owner = base;
    logs_.push_back({RequestLog::Open(std::move(options), *env_.clock), members, true});
    return logs_.back().log;
  }
  const std::string first = options.folder;
  const auto fits = [&](const RequestLog& log) {
    // The log must keep nothing for a sink outside of the group.
    const std::vector<std::string> readers = log.readers();
    return std::ranges::all_of(readers, [&](const std::string& reader) {
      return std::ranges::find(members, reader) != members.end();
    });
  };
  // The current log continues. A previous one is only emptied, as its data is older.
  for (OpenLog& open : logs_) {
    const std::string& folder = open.log->options().folder;
    if (!open.current || open.closing || (folder != first && !folder.starts_with(first + "+")) ||
        !fits(*open.log))
      continue;
    open.members = members;
    return open.log;
  }
  for (int i = 0;; ++i) {
    options.folder = i == 0 ? first : first + "+" + std::to_string(i);
    options.owner = i == 0 ? base : "";
    if (FindLog(options.folder)) continue;
    // A folder of an earlier run is used if it is the only one.
    const bool there = std::filesystem::exists(options.folder);
    if (there && (i != 0 || std::filesystem::exists(first + "+1"))) continue;
    auto log = RequestLog::Open(options, *env_.clock);
    const bool good = fits(*log);
    logs_.push_back({log, members, good});
    if (good) return log;
  }
}

void Delivery::Attach(Destination& destination, const std::shared_ptr<RequestLog>& log,
                      RequestSender::Chain chain) {
  ReaderBounds bounds = destination.planned.bounds;
  if (log->options().folder.empty()) bounds.max_bytes = MemoryBytes(bounds.max_bytes);
  for (const auto& reader : destination.readers) {
    if (reader->log() == log) return reader->SetBounds(bounds);
  }
  if (auto reader = log->Attach(destination.planned.sink.name, bounds, destination.sender->waker())) {
    destination.readers.push_back(reader);
    return destination.sender->Add(std::move(reader), chain);
  }
  Log(LogLevel::kError, destination.planned.sink.name, "queue_in_use",
      "another reader of this name has " + log->options().folder, log->options().folder);
}

// Attaches the destination to folders that it no longer uses and that hold data for it: of former groups, and
// of before a restart.
void Delivery::AttachLeftovers(Destination& destination, const Plan::Destination& planned) {
  const std::string queue = QueueFolder();
  if (queue.empty()) return;
  std::error_code error;
  std::vector<std::string> folders;
  for (std::filesystem::directory_iterator at(queue, error), end; !error && at != end; at.increment(error))
    if (at->is_directory(error)) folders.push_back(at->path().string());
  // The oldest first, by the last write.
  std::ranges::sort(folders,
                    [](const std::string& a, const std::string& b) { return LastWrite(a) < LastWrite(b); });
  for (const std::string& folder : folders) {
    if ((planned.own && planned.own->options().folder == folder) ||
        (planned.received && planned.received->options().folder == folder))
      continue;
    const std::string name = std::filesystem::path(folder).filename().string();
    OpenLog* open = FindLog(folder);
    if (!open) {
      RequestLogOptions options = LogOptionsOf(planned.sink.config, folder);
      options.folder = folder;
      // Also in a folder of another sink, whose data stays.
      options.owner = OwnerOfQueueFolder(name);
      if (!RequestLog::HasReader(folder, planned.sink.name, options.owner)) continue;
      logs_.push_back({RequestLog::Open(std::move(options), *env_.clock), {}, false});
      open = &logs_.back();
    }
    if (!open->log->Knows(planned.sink.name)) continue;
    const bool received = name.starts_with(kReceivedLog);
    Attach(destination, open->log, received ? RequestSender::kReceived : RequestSender::kOwn);
  }
}

void Delivery::Apply(Plan plan, Instant deadline) {
  std::vector<std::unique_ptr<Destination>> gone;
  {
    std::lock_guard lock(mutex_);
    for (auto at = destinations_.begin(); at != destinations_.end();) {
      const bool stays =
          std::ranges::any_of(plan.destinations, [&](const auto& one) { return one.sink.name == at->first; });
      if (stays) {
        ++at;
        continue;
      }
      gone.push_back(std::move(at->second));
      at = destinations_.erase(at);
    }
    for (OpenLog& open : logs_) {
      open.current = open.log == plan.received;
      for (const Plan::Destination& one : plan.destinations) open.current |= open.log == one.own;
    }
    for (Plan::Destination& one : plan.destinations) {
      std::unique_ptr<Destination>& destination = destinations_[one.sink.name];
      if (!destination) {
        destination = std::make_unique<Destination>();
        destination->planned = one;
        destination->sender = std::make_unique<RequestSender>(one.setup, *env_.http, *env_.io, *env_.clock);
        AttachLeftovers(*destination, one);
      } else {
        const bool same = destination->planned.sink.config == one.sink.config;
        destination->planned = one;
        if (!same) destination->sender->Update(one.setup);
        static_cast<void>(destination->sender->Begin());
      }
      if (one.own) Attach(*destination, one.own, RequestSender::kOwn);
      if (one.received) Attach(*destination, one.received, RequestSender::kReceived);
    }
    received_readers_.clear();
    for (const auto& [name, destination] : destinations_) {
      for (const auto& reader : destination->readers)
        if (plan.received && reader->log() == plan.received) received_readers_.push_back(reader);
    }
    received_ = plan.received;
    packing_ = plan.packing;
    discards_ = plan.discards;
    sends_ = plan.sends;
    carries_histograms_ = plan.carries_histograms;
    if (!std::exchange(swept_, true)) SweepAbandoned();
    WatchLeftovers();
  }
  for (const auto& one : gone) one->sender->BeginFinish(deadline);
  for (const auto& one : gone) {
    const Status status = one->sender->Finish(deadline);
    if (!status)
      Log(LogLevel::kWarn, one->planned.sink.name, "left_behind",
          status.detail + ". It stays on disk for a sink of this name; `gpulens queue` shows it.",
          one->planned.sink.name);
    // A folder is kept for what waits in it, not for a name.
    for (const auto& reader : one->readers)
      if (reader->stats().records == 0) reader->ForgetOnDetach();
  }
  gone.clear();
  Tidy();
}

std::map<std::string, Status> Delivery::Finish(Instant deadline) {
  std::lock_guard lock(mutex_);
  received_readers_.clear();
  received_.reset();
  std::map<std::string, Status> ends;
  for (const auto& [name, one] : destinations_) one->sender->BeginFinish(deadline);
  for (const auto& [name, one] : destinations_) ends[name] = one->sender->Finish(deadline);
  return ends;
}

bool Delivery::ReadStats(std::string_view sink, DeliveryStats& out) {
  std::lock_guard lock(mutex_);
  const auto at = destinations_.find(sink);
  if (at == destinations_.end()) return false;
  Destination& one = *at->second;
  one.sender->stats(out);
  const std::vector<std::string>& names = one.planned.setup->signals;
  out.signal_names.assign(names.begin(), names.end());
  out.on_disk = out.unusable = false;
  out.queued_records = out.queued_bytes = out.queue_limit = 0;
  out.oldest_age.reset();
  for (size_t i = 0; i < kRecordDropReasons; ++i)
    out.dropped[i] = {RecordDropReasonName(static_cast<RecordDropReason>(i)), one.dropped[i]};
  out.dropped[kRecordDropReasons] = {"refused", out.refused};
  for (const auto& reader : one.readers) {
    const LogReader::Stats stats = reader->stats();
    out.queued_records += stats.records;
    out.queued_bytes += stats.held_bytes;
    out.queue_limit += stats.max_bytes;
    if (stats.oldest_age)
      out.oldest_age = std::max(out.oldest_age.value_or(Duration::zero()), *stats.oldest_age);
    for (size_t i = 0; i < kRecordDropReasons; ++i) out.dropped[i].second += stats.dropped_records[i];
    out.on_disk |= !reader->log()->options().folder.empty();
    out.unusable |= !reader->log()->disk().ok();
  }
  return true;
}

void Delivery::Tidy() {
  std::lock_guard lock(mutex_);
  for (auto& [name, one] : destinations_) {
    std::erase_if(one->readers, [&](const std::shared_ptr<LogReader>& reader) {
      if (reader->log() == one->planned.own || reader->log() == one->planned.received) return false;
      const LogReader::Stats stats = reader->stats();
      // An encoder that was replaced may still write the end of its series.
      if (stats.records != 0 || reader->log()->writers() != 0) return false;
      for (size_t i = 0; i < kRecordDropReasons; ++i) one->dropped[i] += stats.dropped_records[i];
      reader->ForgetOnDetach();
      for (OpenLog& open : logs_) open.closing |= open.log == reader->log();
      one->sender->Remove(reader);
      return true;
    });
  }
  std::erase_if(logs_, [](const OpenLog& open) {
    if (open.current || open.log->attached() != 0 || open.log->writers() != 0) return false;
    static_cast<void>(open.log->RemoveIfDone());
    return true;
  });
  if (env_.workers) leftovers_->ScanIfDue(env_.clock->Now(), *env_.workers);
}

// Under mutex_, once: what a crash has left without readers.
void Delivery::SweepAbandoned() {
  if (QueueFolder().empty()) return;
  for (const QueuePlace& place : AllQueuePlaces(QueueFolder(), {}).places)
    if (!FindLog(place.folder)) static_cast<void>(RemoveAbandoned(place, *env_.clock));
}

// Under mutex_. The owner of a configured folder is the first sink that names it.
void Delivery::WatchLeftovers() {
  LeftoverWatch::Where where;
  where.root = QueueFolder();
  for (const auto& [name, one] : destinations_) {
    where.configured.push_back(name);
    const std::string& chosen = one->planned.sink.config.Group("queue").Text("dir");
    if (!chosen.empty()) where.chosen.push_back({chosen, name});
  }
  leftovers_->SetWhere(std::move(where));
}

// Received data: one log for all sinks that export it.

void Delivery::PlanReceived(bool receivers, Plan& plan) {
  if (!receivers) return;
  plan.carries_histograms = true;
  std::vector<std::string> members;
  RequestLogOptions options;
  bool disk = false;
  for (const Plan::Destination& one : plan.destinations) {
    if (!SendsReceived(*one.sink.spec, one.sink.config)) continue;
    const RequestLogOptions own = LogOptionsOf(one.sink.config, DefaultFolder(one.sink.name));
    if (members.empty()) {
      options = own;
      plan.packing = one.sink.spec->network->packing(one.sink.config);
    }
    members.push_back(one.sink.name);
    AddReceivedSignals(one.sink, plan);
    options.max_bytes = std::max(options.max_bytes, own.max_bytes);
    if (own.sync == SyncPolicy::kAlways) options.sync = own.sync;
    // Next to the folder of the first that has one.
    if (disk || own.folder.empty()) continue;
    disk = true;
    options.folder = (std::filesystem::path(own.folder).parent_path() / kReceivedLog).string();
  }
  if (members.empty()) return;
  if (!disk) options.folder.clear(), options.memory_bytes = MemoryBytes(options.max_bytes);
  std::ranges::sort(members);
  plan.received = LogOf(std::string(kReceivedLog), members, std::move(options));
  for (Plan::Destination& one : plan.destinations)
    if (SendsReceived(*one.sink.spec, one.sink.config)) one.received = plan.received;
}

bool Delivery::has_sink() const {
  std::lock_guard lock(mutex_);
  return received_ || discards_;
}

size_t Delivery::packing() const {
  std::lock_guard lock(mutex_);
  return packing_;
}

bool Delivery::carries_histograms() const { return carries_histograms_; }

void Delivery::Forward(const ReceivedOtlp& received, Done done) {
  std::shared_ptr<RequestLog> log;
  // A reload may replace the log meanwhile: while it has a writer, none of its readers is removed.
  std::optional<LogWriter> writer;
  bool room = false, busy = true, taken = false, discards = false;
  {
    std::lock_guard lock(mutex_);
    log = received_;
    if (log) writer.emplace(log);
    discards = discards_;
    taken = sends_[static_cast<size_t>(received.source)][static_cast<size_t>(received.signal)];
    // A full reader is skipped and counts drops; only when all are full the request is refused.
    for (const auto& reader : received_readers_) {
      room |= reader->HasRoom(received.bytes.size());
      busy &= reader->stats().records > kBacklog;
    }
  }
  if (discards && (!log || !taken)) return done(Ok());
  if (!log) return done({Code::kUnavailable, "no sink accepts received data"});
  if (!taken)
    return done({Code::kInvalidArgument,
                 "no sink sends " + std::string(OtlpSignalName(received.signal)) + " of this receiver"});
  if (!room) return done({Code::kExhausted, "the queues of all sinks are full"});
  // A record in memory is answered when it is delivered, so it is refused behind a long backlog.
  if (busy && (log->options().folder.empty() || !log->disk()))
    return done({Code::kExhausted, "the queue is in memory only, and delivery is behind"});
  Result<RequestLog::Kept> kept = RequestLog::Kept::kOnDisk;
  {
    std::lock_guard lock(forward_mutex_);
    const size_t kind = NumberOf({static_cast<size_t>(received.signal), received.packing, false});
    WriteEnvelope({static_cast<uint8_t>(kind), static_cast<uint8_t>(received.source), false, 0},
                  received.bytes, record_);
    kept = log->Append(record_, received.items, done);
  }
  if (!kept) return done(kept.error());
  if (*kept == RequestLog::Kept::kOnDisk) done(Ok());
}

Result<std::unique_ptr<Sink>> MakeStandaloneSink(const SinkSpec& spec, const Config& config, Env& env) {
  if (!spec.network) return spec.create(config, env);
  auto sink = std::make_unique<StandaloneSink>(env);
  RETURN_IF_ERROR(sink->Open(spec, config, env));
  return std::unique_ptr<Sink>(std::move(sink));
}

}  // namespace gpulens
