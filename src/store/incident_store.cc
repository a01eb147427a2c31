#include "store/incident_store.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <thread>

#include "base/fd.h"
#include "base/files.h"
#include "base/log.h"
#include "base/result.h"
#include "base/ring.h"
#include "base/text.h"
#include "base/threads.h"
#include "wire/json/json_text.h"

namespace gpulens {
namespace {

// "gpul", so that file(1) and we know whose it is.
constexpr int kApplicationId = 0x6770756c;
// Timeout of a reader or writer that waits for another one.
constexpr int kBusyMs = 2000;
// Rows deleted at once to make room.
constexpr int64_t kRowsPerCleaning = 64;

constexpr const char* kSchema =
    "CREATE TABLE incidents("
    "  id INTEGER PRIMARY KEY AUTOINCREMENT,"
    "  unix_ns INTEGER NOT NULL, name TEXT NOT NULL, severity INTEGER NOT NULL,"
    "  gpu_index INTEGER, gpu_uuid TEXT, body TEXT NOT NULL,"
    "  attributes TEXT NOT NULL, readings TEXT);"
    "CREATE INDEX incidents_by_time ON incidents(unix_ns);";

constexpr sqlite::Schema kIncidentSchema{.application_id = kApplicationId, .steps = &kSchema, .count = 1};

constexpr int64_t kRetryNs = 60'000'000'000;
constexpr Duration kFlushTime = std::chrono::seconds(1);

}  // namespace

Incident MakeIncident(const Event& event) {
  Incident row;
  row.unix_ns = event.at.unix_ns;
  row.name = event.name;
  row.severity = event.severity;
  AttributeSet attributes = event.attributes;
  for (const Entity* entity = event.entity.get(); entity; entity = entity->parent.get()) {
    attributes = attributes.OverlaidOn(entity->attributes);
  }
  constexpr int64_t kNone = -1;
  AttributeSet::Value index = attributes.Find("gpu.index", kNone);
  if (const int64_t* number = std::get_if<int64_t>(&index); number && *number >= 0) row.gpu_index = *number;
  row.gpu_uuid = attributes.Text("gpu.uuid");
  row.body = event.body;
  AppendJsonAttributes(row.attributes, attributes);
  return row;
}

std::string ReadingsJson(const IncidentReadings& readings) {
  if (readings.samples.empty() || readings.columns.empty()) return {};
  std::string out = "{\"columns\":[";
  for (const IncidentReadings::Column& column : readings.columns) {
    if (&column != &readings.columns.front()) out += ',';
    out += "{\"name\":";
    AppendJsonString(out, column.name);
    out += ",\"unit\":";
    AppendJsonString(out, column.unit);
    if (!column.attributes.empty()) {
      out += ",\"attributes\":";
      AppendJsonAttributes(out, column.attributes);
    }
    out += '}';
  }
  out += "],\"samples\":[";
  for (const IncidentReadings::Sample& sample : readings.samples) {
    if (&sample != &readings.samples.front()) out += ',';
    out += '[';
    AppendJsonNumber(out, std::round(sample.seconds * 1000) / 1000);
    for (double value : sample.values) {
      out += ',';
      AppendJsonNumber(out, value);  // NaN becomes null
    }
    out += ']';
  }
  return out + "]}";
}

Result<std::unique_ptr<IncidentStore>> IncidentStore::OpenOnce(const Options& options) {
  // The agent reads the file, too: its memory is bounded here, by bytes of the rows.
  ASSIGN_OR_RETURN(sqlite::Database database, sqlite::Database::Open({.path = options.path,
                                                                      .read_only = options.read_only,
                                                                      .busy_ms = kBusyMs,
                                                                      .triggers = false,
                                                                      .longest = options.longest,
                                                                      .bound_memory = false,
                                                                      .temp_in_memory = true}));
  std::unique_ptr<IncidentStore> store(new IncidentStore(std::move(database), options));
  if (options.read_only) {
    // The agent that made the file is about to make its table.
    ASSIGN_OR_RETURN(const int64_t version, sqlite::CheckVersion(store->database_, kIncidentSchema));
    store->empty_ = version == 0;
    return store;
  }
  RETURN_IF_ERROR(sqlite::BringUpToDate(store->database_, kIncidentSchema));
  ASSIGN_OR_RETURN(store->insert_,
                   store->database_.Prepare("INSERT INTO incidents(unix_ns,name,severity,gpu_index,gpu_uuid,"
                                            "body,attributes,readings) VALUES(?,?,?,?,?,?,?,nullif(?,''))"));
  ASSIGN_OR_RETURN(store->remove_,
                   store->database_.Prepare("DELETE FROM incidents WHERE id IN (SELECT id FROM incidents "
                                            "ORDER BY id LIMIT ?)"));
  return store;
}

Result<std::unique_ptr<IncidentStore>> IncidentStore::Open(const Options& options) {
  if (options.read_only) return OpenOnce(options);
  RETURN_IF_ERROR(MakeFoldersAbove(options.path));
  // The kernel log may be read by root alone on many machines; what comes from it is not for everybody
  // either. SQLite gives its other files the mode of this one.
  UniqueFd made(::open(options.path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0640));
  if (!made) return ErrnoStatus("open " + options.path, errno);
  made.reset();
  auto opened = OpenOnce(options);
  if (opened || opened.error().code != Code::kDataLoss) return opened;
  // A broken file is kept for analysis and does not prevent new incidents from being stored.
  std::string aside = options.path + ".broken";
  if (std::rename(options.path.c_str(), aside.c_str()) != 0) return opened;
  for (const char* suffix : {"-wal", "-shm"}) ::unlink((options.path + suffix).c_str());
  Log(LogLevel::kWarn, "store", "store_broken",
      opened.error().detail + "; moved to " + aside + ", a new one is created.");
  return OpenOnce(options);
}

// Deletes the oldest rows while the file is full. Pages that become free are used again, so the file stays as
// large as it is.
Status IncidentStore::MakeRoom() {
  for (int round = 0; round < 1024; ++round) {
    ASSIGN_OR_RETURN(const int64_t pages, database_.Number("PRAGMA page_count"));
    ASSIGN_OR_RETURN(const int64_t unused, database_.Number("PRAGMA freelist_count"));
    ASSIGN_OR_RETURN(const int64_t size, database_.Number("PRAGMA page_size"));
    if (static_cast<uint64_t>((pages - unused) * size) < options_.max_bytes) return Ok();
    RETURN_IF_ERROR(remove_.Bind(1, kRowsPerCleaning).Execute());
    if (database_.changes() == 0) return Ok();
  }
  return Ok();
}

Status IncidentStore::Add(const Incident& incident) {
  RETURN_IF_ERROR(MakeRoom());
  return insert_
      .BindAll(incident.unix_ns, incident.name, static_cast<int64_t>(incident.severity), incident.gpu_index,
               incident.gpu_uuid, incident.body, incident.attributes, incident.readings)
      .Execute();
}

Result<std::vector<Incident>> IncidentStore::Find(const Filter& filter) {
  if (empty_) return std::vector<Incident>();
  // Empty texts and a missing index match everything.
  ASSIGN_OR_RETURN(sqlite::Statement rows,
                   database_.Prepare(
                       std::string("SELECT id,unix_ns,name,severity,gpu_index,gpu_uuid,body,attributes,") +
                       (filter.readings ? "readings" : "NULL") +
                       " FROM incidents WHERE unix_ns>=?1 AND (?2='' OR name=?2) AND (?3 IS NULL OR "
                       "gpu_index=?3) AND (?4='' OR substr(gpu_uuid,1,length(?4))=?4) ORDER BY unix_ns DESC, "
                       "id DESC LIMIT ?5"));
  rows.BindAll(filter.since_unix_ns, filter.name, filter.gpu_index, filter.gpu_uuid,
               static_cast<int64_t>(filter.limit));
  std::vector<Incident> found;
  size_t bytes = 0;
  RETURN_IF_ERROR(rows.Each([&]() -> Status {
    for (int column : {2, 5, 6, 7, 8}) bytes += rows.Text(column).size();
    if (bytes > kMostFoundBytes)
      return {Code::kExhausted, options_.path + ": its events take more than " +
                                    std::to_string(kMostFoundBytes >> 20) + " MiB"};
    Incident row;
    row.id = rows.Int(0);
    row.unix_ns = rows.Int(1);
    row.name = rows.Text(2);
    const int64_t severity = rows.Int(3);
    const bool known = severity >= 0 && severity <= static_cast<int64_t>(EventSeverity::kFatal);
    row.severity = known ? static_cast<EventSeverity>(severity) : EventSeverity::kUnset;
    row.gpu_index = rows.MaybeInt(4);
    row.gpu_uuid = rows.Text(5);
    row.body = rows.Text(6);
    row.attributes = rows.Text(7);
    row.readings = rows.Text(8);
    found.push_back(std::move(row));
    return Ok();
  }));
  std::ranges::reverse(found);
  return found;
}

uint64_t IncidentStore::bytes() {
  struct stat file{};
  return ::stat(options_.path.c_str(), &file) == 0 ? static_cast<uint64_t>(file.st_size) : 0;
}

// Held by the writer and by its thread, so that a thread stuck in a write can be left behind.
struct IncidentWriter::Shared {
  Shared(IncidentStore::Options the_options, const Clock& the_clock)
      : options(std::move(the_options)), clock(the_clock), waiting(kMaxWaiting) {}

  void Loop();
  void Write(const Incident& incident);

  const IncidentStore::Options options;
  const Clock& clock;
  std::unique_ptr<IncidentStore> store;  // of the thread alone
  int64_t retry_at_ns = 0;

  mutable std::mutex mutex;  // guards what follows
  std::condition_variable wake, ended;
  Ring<Incident> waiting;
  Stats stats;
  std::thread thread;
  bool stopping = false, done = false;
};

void IncidentWriter::Shared::Write(const Incident& incident) {
  Status status;
  if (!store && clock.Now().boot_ns >= retry_at_ns) {
    auto opened = IncidentStore::Open(options);
    if (opened) {
      store = *std::move(opened);
    } else {
      retry_at_ns = clock.Now().boot_ns + kRetryNs;
      status = opened.error();
      Log(LogLevel::kWarn, "store", "store_unavailable",
          "incidents are not stored: " + status.detail + ". Set state_dir to a writable folder.");
    }
  } else if (!store) {
    status = {Code::kUnavailable, "not open"};
  }
  if (store) {
    status = store->Add(incident);
    if (!status) {
      Log(LogLevel::kWarn, "store", "store_failed", "an incident was not stored: " + status.detail);
      // A file that was deleted or a disk that was replaced is opened again with the next one.
      store.reset();
    }
  }
  uint64_t bytes = store ? store->bytes() : 0;
  std::lock_guard lock(mutex);
  ++(status ? stats.ok : stats.errors);
  if (bytes != 0) stats.bytes = bytes;
}

void IncidentWriter::Shared::Loop() {
  ::pthread_setname_np(::pthread_self(), "incidents");
  while (true) {
    std::optional<Incident> next;
    {
      std::unique_lock lock(mutex);
      wake.wait(lock, [&] { return stopping || !waiting.empty(); });
      next = waiting.Pop();
      if (!next) break;
    }
    Write(*next);
  }
  store.reset();
  std::lock_guard lock(mutex);
  done = true;
  ended.notify_all();
}

IncidentWriter::IncidentWriter(IncidentStore::Options options, const Clock& clock)
    : shared_(std::make_shared<Shared>(std::move(options), clock)) {}

IncidentWriter::~IncidentWriter() {
  std::unique_lock lock(shared_->mutex);
  shared_->stopping = true;
  shared_->wake.notify_all();
  if (!shared_->thread.joinable()) return;
  bool done = shared_->ended.wait_for(lock, kFlushTime, [&] { return shared_->done; });
  std::thread thread = std::move(shared_->thread);
  lock.unlock();
  if (done) thread.join();
  else thread.detach();
}

void IncidentWriter::Add(Incident incident) {
  std::lock_guard lock(shared_->mutex);
  if (!shared_->waiting.Push(std::move(incident))) {
    ++shared_->stats.dropped;
    return;
  }
  if (!shared_->thread.joinable()) {
    Status started = StartThread(shared_->thread, [shared = shared_] { shared->Loop(); });
    // Pending incidents are written once a thread can be started.
    if (!started)
      Log(LogLevel::kWarn, "store", "no_thread", "incidents are not stored yet: " + started.detail);
  }
  shared_->wake.notify_one();
}

IncidentWriter::Stats IncidentWriter::stats() const {
  std::lock_guard lock(shared_->mutex);
  return shared_->stats;
}

}  // namespace gpulens
