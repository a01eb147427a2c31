#include "proxy/journal/charge_fold.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <utility>

#include "base/files.h"
#include "base/log.h"
#include "base/result.h"
#include "base/text.h"
#include "base/threads.h"

namespace gpulens {
namespace {

constexpr Duration kFoldWait = std::chrono::seconds(1);

}  // namespace

ChargeFold::ChargeFold(Journal& journal, Options options, OpenStore open)
    : options_(std::move(options)),
      open_(std::move(open)),
      reader_(journal, options_.store),
      backoff_(options_.backoff, options_.seed) {}

Result<std::unique_ptr<ChargeFold>> ChargeFold::Start(Journal& journal, Options options, OpenStore open) {
  std::unique_ptr<ChargeFold> fold(new ChargeFold(journal, std::move(options), std::move(open)));
  ChargeFold* self = fold.get();
  const SignalsBlocked blocked;
  RETURN_IF_ERROR(StartThread(fold->thread_, [self] { self->Run(); }));
  return fold;
}

ChargeFold::~ChargeFold() {
  stop_ = true;
  reader_.Wake();
  if (thread_.joinable()) thread_.join();
}

ChargeFoldStats ChargeFold::stats() const {
  std::lock_guard lock(mutex_);
  ChargeFoldStats stats = stats_;
  stats.behind = reader_.behind();
  return stats;
}

bool ChargeFold::Drain(Duration longest) {
  const auto end = std::chrono::steady_clock::now() + longest;
  while (reader_.behind() > 0) {
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

void ChargeFold::Run() {
  while (Gather()) {
    Status status = WriteBatch();
    {
      std::lock_guard lock(mutex_);
      stats_.status = status;
      if (!status) ++stats_.failures;
    }
    if (status) {
      records_.clear();
      backoff_.Reset();
      continue;
    }
    store_.reset();
    const Duration wait = backoff_.Next();
    Log(LogLevel::kWarn, "journal", "store_away",
        "charges wait in the journal for the store " + options_.name + ": " + status.detail, options_.name);
    const auto end = std::chrono::steady_clock::now() + wait;
    while (!stop_ && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::min<Duration>(wait, std::chrono::milliseconds(20)));
  }
}

bool ChargeFold::Gather() {
  if (!records_.empty()) return !stop_;  // of an attempt that failed
  auto end = std::chrono::steady_clock::time_point::max();
  while (!stop_) {
    const bool had = !records_.empty();
    auto place = reader_.Read(options_.batch, records_);
    if (!place) {
      {
        std::lock_guard lock(mutex_);
        stats_.status = place.error();
        ++stats_.failures;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    } else {
      place_ = *place;
    }
    if (records_.size() >= options_.batch) return true;
    const auto now = std::chrono::steady_clock::now();
    if (!records_.empty() && !had) end = now + options_.batch_time;
    if (now >= end) return true;
    // Records that are no rows move the place, too, so that their segments can go.
    if (place && records_.empty() && reader_.behind() > 0) static_cast<void>(reader_.Done(place_));
    // The rest of a batch is awaited as a whole. A request makes two records, of which one is a row.
    if (records_.empty()) reader_.Wait(kFoldWait, stop_);
    else reader_.Wait(end - now, stop_, 2 * (options_.batch - records_.size()));
  }
  return false;
}

Status ChargeFold::WriteBatch() {
  if (!store_) {
    ASSIGN_OR_RETURN(store_, open_());
  }
  ChargeWriteCounts counts;
  uint64_t refused = 0;
  auto wrote = store_->Write(records_);
  if (wrote) {
    counts = *wrote;
  } else if (wrote.error().code != Code::kInvalidArgument) {
    return wrote.error();
  } else {
    // One by one, to find which.
    for (const ChargeRecord& record : records_) {
      auto one = store_->Write({&record, 1});
      if (!one && one.error().code != Code::kInvalidArgument) return one.error();
      if (one) {
        counts.stored += one->stored;
        counts.known += one->known;
        continue;
      }
      RETURN_IF_ERROR(SetAside(record, one.error()));
      ++refused;
    }
  }
  RETURN_IF_ERROR(reader_.Done(place_));
  std::lock_guard lock(mutex_);
  stats_.stored += counts.stored;
  stats_.known += counts.known;
  stats_.refused += refused;
  return Ok();
}

// A line of JSON with the reason and the body of the record in the journal, in hexadecimal digits.
Status ChargeFold::SetAside(const ChargeRecord& record, const Status& why) {
  const std::string path = options_.folder + "/refused." + options_.name;
  std::string line = "{\"request_id\":\"" + RequestIdText(record.id) + "\",\"reason\":";
  AppendJsonString(line, why.detail);
  line += ",\"record\":\"";
  AppendHex(line, EncodeEntry(JournalKind::kSettle, record));
  line += "\"}\n";
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) return ErrnoStatus("open " + path, errno);
  if (::write(file.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    return ErrnoStatus("write " + path, errno);
  if (::fdatasync(file.get()) != 0) return ErrnoStatus("sync " + path, errno);
  Log(LogLevel::kError, "journal", "charge_refused",
      "the store " + options_.name + " refuses a charge, which is now in " + path + ": " + why.detail,
      options_.name);
  return Ok();
}

}  // namespace gpulens
