#include "sdk/inference/core.h"

#include <gpulens/inference.h>

#include "base/result.h"
#include "store/sqlite/sqlite.h"
#include "store/telemetry/file_writer.h"
#include "store/telemetry/schema.h"
#include "store/telemetry/servers/servers.h"
#include "store/telemetry/summary.h"

namespace gpulens::internal {

using namespace inference;

namespace {

constexpr Duration kFlushTime = std::chrono::seconds(5), kLongTime = std::chrono::hours(1);

Status CheckOptions(const StoreOptions& options) {
  if (options.queue_records == 0 || options.queue_records > size_t{1} << 24)
    return {Code::kInvalidArgument, "queue_records must be from 1 to 16,777,216"};
  if (options.flush_records == 0) return {Code::kInvalidArgument, "flush_records must be at least 1"};
  if (options.flush_interval < std::chrono::milliseconds(1) || options.flush_interval > std::chrono::hours(1))
    return {Code::kInvalidArgument, "flush_interval must be from 1 ms to 1 h"};
  if (options.retention < std::chrono::nanoseconds(0))
    return {Code::kInvalidArgument, "retention must not be negative"};
  return Ok();
}

}  // namespace

Result<std::shared_ptr<InferenceCore>> InferenceCore::Open(std::string_view path_or_url,
                                                           const StoreOptions& options) {
  RETURN_IF_ERROR(CheckOptions(options));
  if (path_or_url.empty()) return Status{Code::kInvalidArgument, "a store needs a file"};
  const bool server = telemetry::IsServer(path_or_url);
  if (!server && path_or_url.find("://") != std::string_view::npos) {
    return Status{Code::kInvalidArgument,
                  "\"" + std::string(path_or_url.substr(0, path_or_url.find("://"))) +
                      "\" is not a kind of store that this build writes; pass the path of a file, "
                      "postgresql://… or clickhouse://…"};
  }
  ASSIGN_OR_RETURN(std::string path,
                   server ? telemetry::ServerName(path_or_url) : telemetry::ExpandPath(path_or_url));
  std::shared_ptr<InferenceCore> core(
      new InferenceCore(std::move(path), options, std::string(server ? path_or_url : "")));
  if (options.read_only) {
    if (server) {
      RETURN_IF_ERROR(telemetry::CheckServer(core->url_));
      return core;
    }
    sqlite::Use use;
    RETURN_IF_ERROR(telemetry::OpenToRead(core->path_).status());
    return core;
  }
  ASSIGN_OR_RETURN(std::unique_ptr<Recorder> recorder, core->Begin());
  core->recorder_.Set(std::move(recorder));
  return core;
}

Result<std::unique_ptr<telemetry::Destination>> InferenceCore::OpenDestination() {
  if (!url_.empty()) {
    // From now on forks are counted.
    {
      sqlite::Use use;
    }
    return telemetry::OpenServer(url_, options_.retention);
  }
  ASSIGN_OR_RETURN(std::unique_ptr<telemetry::FileWriter> writer,
                   telemetry::FileWriter::Open(
                       {.path = path_, .retention = options_.retention, .rollup = telemetry::MakeRollup()}));
  crashed_ = writer->crashed();
  return std::unique_ptr<telemetry::Destination>(std::move(writer));
}

Result<std::unique_ptr<Recorder>> InferenceCore::Begin() {
  ASSIGN_OR_RETURN(std::unique_ptr<telemetry::Destination> destination, OpenDestination());
  return Recorder::Start({.name = path_,
                          .queue_records = options_.queue_records,
                          .flush_records = options_.flush_records,
                          .flush_interval = options_.flush_interval},
                         std::move(destination));
}

InferenceCore::~InferenceCore() {
  if (!closed_) static_cast<void>(Close(kFlushTime));
}

Recorder* InferenceCore::Current() noexcept {
  return recorder_.Get([this]() -> Result<std::unique_ptr<Recorder>> {
    if (closed_) return std::unique_ptr<Recorder>();
    return Begin();
  });
}

void InferenceCore::Record(const telemetry::Row& row, std::unique_ptr<Settler>* settler) noexcept {
  if (Recorder* recorder = Current()) [[likely]]
    recorder->Record(row, settler);
  else lost_.fetch_add(1, std::memory_order_relaxed);
}

void InferenceCore::Record(const InferenceRecord& record) noexcept {
  if (Recorder* recorder = Current()) [[likely]]
    recorder->Record(record);
  else Drop();
}

void InferenceCore::SetAside(std::string_view record, std::string_view reason) noexcept {
  if (Recorder* recorder = Current()) recorder->SetAside(record, reason);
  else lost_.fetch_add(1, std::memory_order_relaxed);
}

Status InferenceCore::Flush(Duration timeout) {
  if (options_.read_only) return Ok();
  Recorder* recorder = Current();
  return recorder ? recorder->Flush(timeout) : Status{Code::kUnavailable, path_ + " cannot be opened"};
}

Status InferenceCore::Close(Duration timeout) {
  closed_ = true;
  // Nothing was recorded in this child.
  if (options_.read_only || recorder_.in_child()) return Ok();
  Recorder* recorder = Current();
  return recorder ? recorder->Close(timeout) : Ok();
}

StoreHealth InferenceCore::health() {
  Recorder* recorder = options_.read_only ? nullptr : Current();
  StoreHealth health = recorder ? recorder->health() : StoreHealth{};
  health.dropped += lost_.load(std::memory_order_relaxed);
  health.crashed = crashed_;
  return health;
}

Status InferenceCore::Read(const std::function<Status(const sqlite::Database&)>& read) {
  if (!url_.empty()) return {Code::kInvalidArgument, path_ + " is not a file"};
  if (!closed_) RETURN_IF_ERROR(Flush(kFlushTime));
  sqlite::Use use;
  ASSIGN_OR_RETURN(const sqlite::Database database, telemetry::OpenToRead(path_));
  return read(database);
}

Result<std::string> InferenceCore::ServerToRead() {
  if (!url_.empty() && !closed_) RETURN_IF_ERROR(Flush(kFlushTime));
  return url_;
}

Result<uint64_t> InferenceCore::Clear() {
  Recorder* recorder = options_.read_only ? nullptr : Current();
  if (!recorder) return Status{Code::kPermissionDenied, path_ + " is open read-only"};
  // The task may outlive a wait that is over.
  auto count = std::make_shared<uint64_t>(0);
  RETURN_IF_ERROR(recorder->Do(
      [count](telemetry::Destination& destination) -> Status {
        ASSIGN_OR_RETURN(*count, destination.Clear());
        return Ok();
      },
      kLongTime));
  return *count;
}

Status InferenceCore::Vacuum() {
  Recorder* recorder = options_.read_only ? nullptr : Current();
  if (!recorder) return {Code::kPermissionDenied, path_ + " is open read-only"};
  return recorder->Do([](telemetry::Destination& destination) { return destination.Vacuum(); }, kLongTime);
}

}  // namespace gpulens::internal

namespace gpulens {

InferenceStore::InferenceStore(std::shared_ptr<internal::InferenceCore> core) noexcept
    : core_(std::move(core)) {}
InferenceStore::InferenceStore(InferenceStore&&) noexcept = default;
InferenceStore& InferenceStore::operator=(InferenceStore&& other) noexcept {
  if (this != &other) {
    InferenceStore old(std::move(*this));
    core_ = std::move(other.core_);
  }
  return *this;
}

InferenceStore::~InferenceStore() {
  if (core_) static_cast<void>(Close());
}

Result<InferenceStore> InferenceStore::Open(std::string_view path_or_url, const StoreOptions& options) {
  ASSIGN_OR_RETURN(auto core, internal::InferenceCore::Open(path_or_url, options));
  return InferenceStore(std::move(core));
}

void InferenceStore::Record(const InferenceRecord& record) noexcept { core_->Record(record); }

Status InferenceStore::Flush(std::chrono::nanoseconds timeout) { return core_->Flush(timeout); }
Status InferenceStore::Close(std::chrono::nanoseconds timeout) { return core_->Close(timeout); }
StoreHealth InferenceStore::health() const { return core_->health(); }
const std::string& InferenceStore::path() const noexcept { return core_->path(); }

Result<std::vector<InferenceSummary>> InferenceStore::Summarize(const Query& query) const {
  ASSIGN_OR_RETURN(const std::string server, core_->ServerToRead());
  if (!server.empty()) return telemetry::SummarizeServer(server, query);
  std::vector<InferenceSummary> groups;
  RETURN_IF_ERROR(core_->Read([&](const sqlite::Database& database) -> Status {
    ASSIGN_OR_RETURN(groups, telemetry::Summarize(database, query));
    return Ok();
  }));
  return groups;
}

Status InferenceStore::Each(const Query& query,
                            const std::function<bool(const InferenceRecord&)>& on_record) const {
  ASSIGN_OR_RETURN(const std::string server, core_->ServerToRead());
  if (!server.empty())
    return telemetry::EachServerRow(
        server, query, [&](const telemetry::Row& row) { return on_record(telemetry::ToRecord(row)); });
  return core_->Read(
      [&](const sqlite::Database& database) { return telemetry::EachRecord(database, query, on_record); });
}

Result<uint64_t> InferenceStore::Count() const {
  ASSIGN_OR_RETURN(const std::string server, core_->ServerToRead());
  if (!server.empty()) return telemetry::CountServerRecords(server);
  uint64_t count = 0;
  RETURN_IF_ERROR(core_->Read([&](const sqlite::Database& database) -> Status {
    ASSIGN_OR_RETURN(const int64_t number, database.Number("SELECT count(*) FROM telemetry"));
    count = static_cast<uint64_t>(number);
    return Ok();
  }));
  return count;
}

Result<uint64_t> InferenceStore::Clear() { return core_->Clear(); }
Status InferenceStore::Vacuum() { return core_->Vacuum(); }

Status InferenceStore::Check() const {
  return core_->Read([&](const sqlite::Database& database) -> Status {
    ASSIGN_OR_RETURN(sqlite::Statement check, database.Prepare("PRAGMA integrity_check(10)"));
    std::string wrong;
    RETURN_IF_ERROR(check.Each([&] {
      if (check.Text(0) != "ok") wrong += (wrong.empty() ? "" : "; ") + std::string(check.Text(0));
    }));
    return wrong.empty() ? Ok() : Status{Code::kDataLoss, core_->path() + ": " + wrong};
  });
}

}  // namespace gpulens
