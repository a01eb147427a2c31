#include "store/ledger/ledger_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>

#include "base/files.h"
#include "base/host_name.h"
#include "base/log.h"
#include "base/result.h"
#include "base/text.h"

namespace gpulens::ledger {
namespace {

constexpr int32_t kApplicationId = 0x67706c64;  // "gpld"
constexpr int kBusyMs = 5000;
constexpr int64_t kHourSeconds = 3600, kDaySeconds = 86'400;
// Days that one Write deletes at most, once an hour: bounds the transaction, and what a wrong clock costs.
constexpr int64_t kMostForgotten = 2;
constexpr int kMostAside = 100;

#define GPULENS_LEDGER_AMOUNTS                                                                   \
  "energy_uj,time_ms,cost_allocation_pico,cost_usage_pico,priced_ms,electricity_pico,carbon_ng," \
  "carbon_known_uj,unmetered_ms,tokens"
#define GPULENS_LEDGER_ACCOUNT                                                                         \
  "gpu,slice,energy_state,compute_state,cause,request_class,method,process,name_space,pod,job,tenant," \
  "engine,model"

// SQLite makes a sum beyond int64_t a real number: the CHECK refuses it.
#define GPULENS_LEDGER_DECLARED                                                          \
  "energy_uj INTEGER NOT NULL CHECK(typeof(energy_uj)='integer'),"                       \
  "time_ms INTEGER NOT NULL CHECK(typeof(time_ms)='integer'),"                           \
  "cost_allocation_pico INTEGER NOT NULL CHECK(typeof(cost_allocation_pico)='integer')," \
  "cost_usage_pico INTEGER NOT NULL CHECK(typeof(cost_usage_pico)='integer'),"           \
  "priced_ms INTEGER NOT NULL CHECK(typeof(priced_ms)='integer'),"                       \
  "electricity_pico INTEGER NOT NULL CHECK(typeof(electricity_pico)='integer'),"         \
  "carbon_ng INTEGER NOT NULL CHECK(typeof(carbon_ng)='integer'),"                       \
  "carbon_known_uj INTEGER NOT NULL CHECK(typeof(carbon_known_uj)='integer'),"           \
  "unmetered_ms INTEGER NOT NULL CHECK(typeof(unmetered_ms)='integer'),"                 \
  "tokens INTEGER NOT NULL CHECK(typeof(tokens)='integer')"

constexpr const char* kSteps[] = {
    "CREATE TABLE ledger(id TEXT NOT NULL, format INTEGER NOT NULL, created_unix_ns INTEGER NOT NULL,"
    "  host TEXT NOT NULL);"
    "CREATE TABLE ledger_state(one INTEGER PRIMARY KEY CHECK(one=1), state TEXT NOT NULL,"
    "  written_unix_ns INTEGER NOT NULL);"
    "CREATE TABLE ledger_account(id INTEGER PRIMARY KEY, gpu TEXT NOT NULL, slice TEXT NOT NULL,"
    "  energy_state TEXT NOT NULL, compute_state TEXT NOT NULL, cause TEXT NOT NULL,"
    "  request_class TEXT NOT NULL, method TEXT NOT NULL, process TEXT NOT NULL, name_space TEXT NOT NULL,"
    "  pod TEXT NOT NULL, job TEXT NOT NULL, tenant TEXT NOT NULL, engine TEXT NOT NULL,"
    "  model TEXT NOT NULL, last_hour_unix INTEGER NOT NULL, UNIQUE(" GPULENS_LEDGER_ACCOUNT
    "));"
    "CREATE TABLE ledger_entry(hour_unix INTEGER NOT NULL, for_hour_unix INTEGER NOT NULL,"
    "  account INTEGER NOT NULL," GPULENS_LEDGER_DECLARED
    ",PRIMARY KEY(hour_unix,for_hour_unix,account)) WITHOUT ROWID;"
    "CREATE TABLE ledger_day(day_unix INTEGER NOT NULL, account INTEGER NOT NULL," GPULENS_LEDGER_DECLARED
    ",PRIMARY KEY(day_unix,account)) WITHOUT ROWID;"
    "CREATE TABLE ledger_hour(hour_unix INTEGER PRIMARY KEY, revision INTEGER NOT NULL);"};
constexpr sqlite::Schema kLedgerSchema{.application_id = kApplicationId, .steps = kSteps, .count = 1};

#define GPULENS_LEDGER_ADDED                                                                            \
  " ON CONFLICT DO UPDATE SET energy_uj=energy_uj+excluded.energy_uj,time_ms=time_ms+excluded.time_ms," \
  "cost_allocation_pico=cost_allocation_pico+excluded.cost_allocation_pico,"                            \
  "cost_usage_pico=cost_usage_pico+excluded.cost_usage_pico,priced_ms=priced_ms+excluded.priced_ms,"    \
  "electricity_pico=electricity_pico+excluded.electricity_pico,carbon_ng=carbon_ng+excluded.carbon_ng," \
  "carbon_known_uj=carbon_known_uj+excluded.carbon_known_uj,"                                           \
  "unmetered_ms=unmetered_ms+excluded.unmetered_ms,tokens=tokens+excluded.tokens"
constexpr const char* kAdd =
    "INSERT INTO ledger_entry(hour_unix,for_hour_unix,account," GPULENS_LEDGER_AMOUNTS
    ") VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?)" GPULENS_LEDGER_ADDED;
constexpr const char* kAddToDay = "INSERT INTO ledger_day(day_unix,account," GPULENS_LEDGER_AMOUNTS
                                  ") VALUES(?,?,?,?,?,?,?,?,?,?,?,?)" GPULENS_LEDGER_ADDED;

constexpr std::array<std::string_view, kDimensions> kDimensionNames = {
    "tenant", "namespace", "pod",   "job",   "process",      "model",  "engine", "gpu",
    "slice",  "class",     "cause", "state", "energy_state", "method", "day",    "hour"};

int64_t HourOf(int64_t unix_ms) noexcept { return unix_ms / 1000 / kHourSeconds * kHourSeconds; }

// 14 columns, from `at` on.
template <class Bind>
void ForAccountTexts(const Account& account, Bind bind) {
  bind(std::string_view(account.gpu));
  bind(std::string_view(account.slice));
  bind(Name(account.energy_state));
  bind(Name(account.compute_state));
  bind(Name(account.cause));
  bind(Name(account.request_class));
  bind(Name(account.method));
  const Owner& owner = account.owner;
  for (const std::string* text : {&owner.process, &owner.name_space, &owner.pod, &owner.job, &owner.tenant,
                                  &owner.engine, &owner.model})
    bind(std::string_view(*text));
}

Result<Account> ReadAccount(const sqlite::Statement& row, int at, const std::string& path) {
  Account account;
  account.gpu = row.Text(at++);
  account.slice = row.Text(at++);
  const auto known = [&](auto& out) { return Parse(row.Text(at++), out); };
  const bool good = known(account.energy_state) && known(account.compute_state) && known(account.cause) &&
                    known(account.request_class) && known(account.method);
  if (!good) return Status{Code::kDataLoss, path + ": an account has a state, cause or method of no ledger"};
  Owner& owner = account.owner;
  for (std::string* text : {&owner.process, &owner.name_space, &owner.pod, &owner.job, &owner.tenant,
                            &owner.engine, &owner.model})
    *text = row.Text(at++);
  return account;
}

Amounts ReadAmounts(const sqlite::Statement& row, int at) {
  Amounts amounts;
  for (int64_t* amount :
       {&amounts.energy_uj, &amounts.time_ms, &amounts.cost_allocation_pico, &amounts.cost_usage_pico,
        &amounts.priced_ms, &amounts.electricity_pico, &amounts.carbon_ng, &amounts.carbon_known_uj,
        &amounts.unmetered_ms, &amounts.tokens})
    *amount = row.Int(at++);
  return amounts;
}

std::string NewId() {
  char bytes[16];
  if (::getrandom(bytes, sizeof bytes, 0) != sizeof bytes) {
    // Without random numbers: the time and the process, which no other file of this machine has.
    const int64_t parts[2] = {RealClock().Now().unix_ns, ::getpid()};
    static_assert(sizeof parts == sizeof bytes);
    std::copy_n(reinterpret_cast<const char*>(parts), sizeof bytes, bytes);
  }
  std::string id;
  AppendHex(id, std::string_view(bytes, sizeof bytes));
  return id;
}

// Whose file it is, before any of its tables is read.
Status CheckWhose(const sqlite::Database& database) {
  ASSIGN_OR_RETURN(const int64_t tables, database.Number("SELECT count(*) FROM sqlite_master"));
  ASSIGN_OR_RETURN(const int64_t application, database.Number("PRAGMA application_id"));
  if (tables == 0 || application == kApplicationId) return Ok();
  return {Code::kDataLoss, database.path() + " is a database, but not a ledger"};
}

// Adds up what one account or group has. Texts of keys are made once each.
class Grouping {
 public:
  Grouping(const SumQuery& query, const std::map<int64_t, Account>& accounts) : query_(query) {
    std::map<std::vector<std::string>, size_t> groups;
    for (const auto& [id, account] : accounts) {
      if (!Matches(account)) {
        of_.emplace_back(id, kNoGroup);
        continue;
      }
      std::vector<std::string> key;
      for (Dimension dimension : query.by) key.emplace_back(TextOf(account, dimension));
      const auto [at, fresh] = groups.try_emplace(key, keys_.size());
      if (fresh) keys_.push_back(std::move(key));
      of_.emplace_back(id, at->second);
    }
    sums_.resize(keys_.size());
    touched_.resize(keys_.size());
    for (Dimension dimension : query.by) {
      by_day_ |= dimension == Dimension::kDay;
      by_hour_ |= dimension == Dimension::kHour;
    }
  }

  // False: no entry of this hour matches.
  bool Begin(int64_t hour_unix) {
    const int64_t part = by_hour_ ? hour_unix : by_day_ ? hour_unix / kDaySeconds : 0;
    if (part != part_) Flush();
    part_ = part, hour_unix_ = hour_unix;
    return std::ranges::all_of(query_.where, [&](const auto& where) {
      if (where.first == Dimension::kDay) return DayText(hour_unix) == where.second;
      return where.first != Dimension::kHour || TimeText(hour_unix) == where.second;
    });
  }
  // False: there is no such account.
  bool Add(int64_t account, const sqlite::Statement& row, int at) {
    const auto found = std::ranges::lower_bound(of_, account, {}, &std::pair<int64_t, size_t>::first);
    if (found == of_.end() || found->first != account) return false;
    if (found->second == kNoGroup) return true;
    sums_[found->second] += ReadAmounts(row, at);
    touched_[found->second] = 1;
    return true;
  }
  std::vector<SumRow> Finish() {
    Flush();
    std::ranges::sort(rows_, {}, &SumRow::key);
    return std::move(rows_);
  }

 private:
  static constexpr size_t kNoGroup = SIZE_MAX;

  bool Matches(const Account& account) const {
    return std::ranges::all_of(query_.where, [&](const auto& where) {
      if (where.first == Dimension::kDay || where.first == Dimension::kHour) return true;
      return TextOf(account, where.first) == where.second;
    });
  }
  void Flush() {
    for (size_t i = 0; i < keys_.size(); ++i) {
      if (touched_[i] == 0) continue;
      SumRow row{keys_[i], sums_[i]};
      for (size_t k = 0; k < query_.by.size(); ++k) {
        if (query_.by[k] == Dimension::kDay) row.key[k] = DayText(hour_unix_);
        if (query_.by[k] == Dimension::kHour) row.key[k] = TimeText(hour_unix_);
      }
      rows_.push_back(std::move(row));
      sums_[i] = {}, touched_[i] = 0;
    }
  }

  const SumQuery& query_;
  std::vector<std::pair<int64_t, size_t>> of_;  // account, group
  std::vector<std::vector<std::string>> keys_;
  std::vector<Totals> sums_;
  std::vector<char> touched_;
  std::vector<SumRow> rows_;
  bool by_day_ = false, by_hour_ = false;
  int64_t part_ = 0, hour_unix_ = 0;
};

}  // namespace

std::string_view Name(Dimension dimension) noexcept {
  const auto at = static_cast<size_t>(dimension);
  return at < kDimensions ? kDimensionNames[at] : std::string_view();
}

bool Parse(std::string_view text, Dimension& out) noexcept {
  const auto found = std::ranges::find(kDimensionNames, text);
  if (found == kDimensionNames.end()) return false;
  out = static_cast<Dimension>(found - kDimensionNames.begin());
  return true;
}

std::string_view TextOf(const Account& account, Dimension dimension) noexcept {
  switch (dimension) {
    case Dimension::kTenant: return account.owner.tenant;
    case Dimension::kNamespace: return account.owner.name_space;
    case Dimension::kPod: return account.owner.pod;
    case Dimension::kJob: return account.owner.job;
    case Dimension::kProcess: return account.owner.process;
    case Dimension::kModel: return account.owner.model;
    case Dimension::kEngine: return account.owner.engine;
    case Dimension::kGpu: return account.gpu;
    case Dimension::kSlice: return account.slice;
    case Dimension::kClass: return Name(account.request_class);
    case Dimension::kCause: return Name(account.cause);
    case Dimension::kState: return Name(account.compute_state);
    case Dimension::kEnergyState: return Name(account.energy_state);
    case Dimension::kMethod: return Name(account.method);
    case Dimension::kDay:
    case Dimension::kHour: break;
  }
  return {};
}

std::string TimeText(int64_t unix_seconds) {
  using namespace std::chrono;
  const sys_seconds at{seconds(unix_seconds)};
  const auto midnight = floor<days>(at);
  const year_month_day date(midnight);
  const hh_mm_ss time(at - midnight);
  char text[40];
  const int size =
      std::snprintf(text, sizeof text, "%04d-%02u-%02uT%02d:%02d:%02dZ", static_cast<int>(date.year()),
                    static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                    static_cast<int>(time.hours().count()), static_cast<int>(time.minutes().count()),
                    static_cast<int>(time.seconds().count()));
  return {text, static_cast<size_t>(size)};
}

std::string DayText(int64_t unix_seconds) {
  std::string text = TimeText(unix_seconds);
  text.resize(text.find('T'));
  return text;
}

// Amounts and Totals have the same members.
template <class Added>
static Totals& AddMembers(Totals& to, const Added& added) noexcept {
  to.energy_uj += added.energy_uj;
  to.time_ms += added.time_ms;
  to.cost_allocation_pico += added.cost_allocation_pico;
  to.cost_usage_pico += added.cost_usage_pico;
  to.priced_ms += added.priced_ms;
  to.electricity_pico += added.electricity_pico;
  to.carbon_ng += added.carbon_ng;
  to.carbon_known_uj += added.carbon_known_uj;
  to.unmetered_ms += added.unmetered_ms;
  to.tokens += added.tokens;
  return to;
}

Totals& Totals::operator+=(const Amounts& amounts) noexcept { return AddMembers(*this, amounts); }
Totals& Totals::operator+=(const Totals& other) noexcept { return AddMembers(*this, other); }

Result<std::unique_ptr<LedgerFile>> LedgerFile::OpenOnce(const Options& options) {
  ASSIGN_OR_RETURN(sqlite::Database database,
                   sqlite::Database::Open({.path = options.path,
                                           .read_only = options.read_only,
                                           .create = options.create,
                                           .busy_ms = kBusyMs,
                                           .cache_kib = options.read_only ? 4096 : 1024,
                                           .durable = false,
                                           .triggers = false,
                                           .longest = options.longest,
                                           .bound_memory = false,
                                           .temp_in_memory = true}));
  std::unique_ptr<LedgerFile> file(new LedgerFile(std::move(database), options));
  RETURN_IF_ERROR(CheckWhose(file->database_));
  // A reader sees one state of the file in all its queries.
  RETURN_IF_ERROR(options.read_only ? file->database_.Run("BEGIN")
                                    : sqlite::BringUpToDate(file->database_, kLedgerSchema));
  ASSIGN_OR_RETURN(const int64_t version, sqlite::CheckVersion(file->database_, kLedgerSchema));
  if (version == 0) return Status{Code::kUnavailable, options.path + " is empty: nothing was written yet"};
  RETURN_IF_ERROR(file->Prepare());
  return file;
}

Status LedgerFile::Prepare() {
  const auto read = [this]() -> Result<bool> {
    ASSIGN_OR_RETURN(sqlite::Statement row,
                     database_.Prepare("SELECT id,created_unix_ns,host FROM ledger LIMIT 1"));
    ASSIGN_OR_RETURN(const bool there, row.Step());
    if (!there) return false;
    id_ = row.Text(0), created_unix_ns_ = row.Int(1), host_ = row.Text(2);
    return true;
  };
  ASSIGN_OR_RETURN(bool there, read());
  if (options_.read_only) {
    return there ? Ok() : Status{Code::kUnavailable, options_.path + " is empty: nothing was written yet"};
  }
  if (!there) {
    const std::string id = NewId(), host = HostName();
    RETURN_IF_ERROR(database_.Execute("INSERT INTO ledger(id,format,created_unix_ns,host) VALUES(?,?,?,?)",
                                      id, int64_t{kLedgerSchema.count}, RealClock().Now().unix_ns, host));
    ASSIGN_OR_RETURN(there, read());
  }
  ASSIGN_OR_RETURN(add_, database_.Prepare(kAdd));
  ASSIGN_OR_RETURN(add_to_day_, database_.Prepare(kAddToDay));
  ASSIGN_OR_RETURN(find_account_,
                   database_.Prepare("SELECT id,last_hour_unix FROM ledger_account WHERE "
                                     "(" GPULENS_LEDGER_ACCOUNT ")=(?,?,?,?,?,?,?,?,?,?,?,?,?,?)"));
  ASSIGN_OR_RETURN(insert_account_,
                   database_.Prepare("INSERT INTO ledger_account(" GPULENS_LEDGER_ACCOUNT
                                     ",last_hour_unix) VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"));
  ASSIGN_OR_RETURN(use_account_, database_.Prepare("UPDATE ledger_account SET last_hour_unix=? WHERE id=?"));
  ASSIGN_OR_RETURN(set_state_,
                   database_.Prepare("INSERT INTO ledger_state(one,state,written_unix_ns) VALUES(1,?,?) "
                                     "ON CONFLICT DO UPDATE SET state=excluded.state,"
                                     "written_unix_ns=excluded.written_unix_ns"));
  ASSIGN_OR_RETURN(change_hour_, database_.Prepare("INSERT INTO ledger_hour(hour_unix,revision) VALUES(?,1) "
                                                   "ON CONFLICT DO UPDATE SET revision=revision+1"));
  return Ok();
}

// Nothing is deleted: it may be recovered, with its write-ahead log.
Status LedgerFile::SetAside(const Options& options, const Status& why) {
  std::string aside = options.path + ".broken";
  for (int i = 2; ::access(aside.c_str(), F_OK) == 0; ++i) {
    if (i > kMostAside) return {why.code, why.detail + "; and too many files were set aside before"};
    aside = options.path + ".broken." + std::to_string(i);
  }
  if (std::rename(options.path.c_str(), aside.c_str()) != 0)
    return {why.code, why.detail + "; it cannot be renamed to " + aside};
  static_cast<void>(std::rename((options.path + "-wal").c_str(), (aside + "-wal").c_str()));
  ::unlink((options.path + "-shm").c_str());
  Log(LogLevel::kWarn, "ledger", "ledger_broken",
      why.detail + "; it is now " + aside + ", and a new ledger begins. Its sums are not in the new one.");
  return Ok();
}

Result<std::unique_ptr<LedgerFile>> LedgerFile::Open(Options options) {
  if (options.read_only) return OpenOnce(options);
  if (options.create) {
    RETURN_IF_ERROR(MakeFoldersAbove(options.path));
  }
  const std::string lock_path = options.path + ".lock";
  UniqueFd lock(::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0640));
  if (!lock) return ErrnoStatus("open " + lock_path, errno);
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return ErrnoStatus("lock " + lock_path, errno);
    return Status{Code::kUnavailable, "another gpulens writes " + options.path};
  }
  auto opened = OpenOnce(options);
  if (!opened && opened.error().code == Code::kDataLoss) {
    RETURN_IF_ERROR(SetAside(options, opened.error()));
    opened = OpenOnce(options);
  }
  if (opened) (*opened)->lock_ = std::move(lock);
  return opened;
}

Result<std::optional<LedgerState>> LedgerFile::ReadState() {
  ASSIGN_OR_RETURN(sqlite::Statement row, database_.Prepare("SELECT state FROM ledger_state WHERE one=1"));
  ASSIGN_OR_RETURN(const bool there, row.Step());
  if (!there) return std::optional<LedgerState>();
  auto state = ParseState(row.Text(0));
  if (!state) return Status{state.error().code, options_.path + ": " + state.error().detail};
  return std::optional(*std::move(state));
}

Result<int64_t> LedgerFile::WrittenUnixNs() {
  return database_.Number("SELECT coalesce(max(written_unix_ns),0) FROM ledger_state");
}

Result<int64_t> LedgerFile::AccountId(const Account& account, int64_t hour_unix) {
  auto known = known_.find(account);
  if (known == known_.end()) {
    int parameter = 0;
    const auto bind = [&](std::string_view text) { find_account_.Bind(++parameter, text); };
    ForAccountTexts(account, bind);
    ASSIGN_OR_RETURN(const bool there, find_account_.Step());
    Known found;
    if (there) {
      found = {find_account_.Int(0), find_account_.Int(1)};
      find_account_.Reset();
    } else {
      parameter = 0;
      ForAccountTexts(account, [&](std::string_view text) { insert_account_.Bind(++parameter, text); });
      RETURN_IF_ERROR(insert_account_.Bind(++parameter, hour_unix).Execute());
      found = {database_.last_row_id(), hour_unix};
    }
    known = known_.emplace(account, found).first;
  }
  if (known->second.last_hour_unix < hour_unix) {
    RETURN_IF_ERROR(use_account_.BindAll(hour_unix, known->second.id).Execute());
    known->second.last_hour_unix = hour_unix;
  }
  return known->second.id;
}

Status LedgerFile::Add(const Entry& entry) {
  if (entry.amounts.empty()) return Ok();
  if (entry.window_unix_ms < 0 || entry.for_window_unix_ms < 0)
    return {Code::kInvalidArgument, "an entry of the ledger is before 1970: the clock is wrong"};
  const int64_t hour = HourOf(entry.window_unix_ms);
  int64_t for_hour = HourOf(entry.for_window_unix_ms);
  if (for_hour >= hour) for_hour = 0;  // within the hour it is no other than the rest
  ASSIGN_OR_RETURN(const int64_t account, AccountId(entry.account, hour));
  const Amounts& amounts = entry.amounts;
  const auto add = [&amounts](sqlite::Statement& statement, const auto&... key) {
    return statement
        .BindAll(key..., amounts.energy_uj, amounts.time_ms, amounts.cost_allocation_pico,
                 amounts.cost_usage_pico, amounts.priced_ms, amounts.electricity_pico, amounts.carbon_ng,
                 amounts.carbon_known_uj, amounts.unmetered_ms, amounts.tokens)
        .Execute();
  };
  RETURN_IF_ERROR(add(add_, hour, for_hour, account));
  RETURN_IF_ERROR(add(add_to_day_, hour / kDaySeconds * kDaySeconds, account));
  if (std::ranges::find(hours_unix_, hour) == hours_unix_.end()) hours_unix_.push_back(hour);
  return Ok();
}

Status LedgerFile::Forget(int64_t now_unix) {
  if (options_.retention.count() <= 0 || now_unix < next_forget_unix_) return Ok();
  next_forget_unix_ = now_unix + kHourSeconds;
  const int64_t before =
      now_unix - std::chrono::duration_cast<std::chrono::seconds>(options_.retention).count();
  // The end of the last day that goes: whole days, so that ledger_day stays the sum of ledger_entry.
  const std::string days =
      "SELECT DISTINCT day_unix FROM ledger_day WHERE day_unix<=" + std::to_string(before - kDaySeconds) +
      " ORDER BY day_unix LIMIT " + std::to_string(kMostForgotten);
  ASSIGN_OR_RETURN(const int64_t last,
                   database_.Number("SELECT coalesce(max(day_unix),-1) FROM (" + days + ")"));
  const int64_t end = last < 0 ? 0 : last + kDaySeconds;
  if (end > 0) {
    RETURN_IF_ERROR(database_.Execute("DELETE FROM ledger_entry WHERE hour_unix<?", end));
    RETURN_IF_ERROR(database_.Execute("DELETE FROM ledger_day WHERE day_unix<?", end));
    RETURN_IF_ERROR(database_.Execute("DELETE FROM ledger_hour WHERE hour_unix<?", end));
    RETURN_IF_ERROR(database_.Execute("DELETE FROM ledger_account WHERE last_hour_unix<?", end));
  }
  // Accounts of this hour and the one before are enough to find most without a query.
  std::erase_if(known_, [&](const auto& known) {
    return known.second.last_hour_unix < std::max(end, now_unix - 2 * kHourSeconds);
  });
  return Ok();
}

Status LedgerFile::WriteOnce(std::span<const Entry> entries, const LedgerState& state, Instant now) {
  hours_unix_.clear();
  const std::string text = StateText(state);
  ASSIGN_OR_RETURN(sqlite::Transaction change, sqlite::Transaction::Begin(database_));
  RETURN_IF_ERROR(Forget(now.unix_ns / 1'000'000'000));
  for (const Entry& entry : entries) RETURN_IF_ERROR(Add(entry));
  for (int64_t hour : hours_unix_) RETURN_IF_ERROR(change_hour_.Bind(1, hour).Execute());
  RETURN_IF_ERROR(set_state_.BindAll(std::string_view(text), now.unix_ns).Execute());
  return change.Commit();
}

Status LedgerFile::Write(std::span<const Entry> entries, const LedgerState& state, Instant now) {
  Status status = WriteOnce(entries, state, now);
  if (status) return status;
  known_.clear();  // ids that were rolled back
  if (status.code != Code::kDataLoss) return status;
  add_ = {}, add_to_day_ = {}, insert_account_ = {}, find_account_ = {}, use_account_ = {}, set_state_ = {},
  change_hour_ = {};
  {
    const sqlite::Database closed = std::move(database_);
  }
  RETURN_IF_ERROR(SetAside(options_, status));
  ASSIGN_OR_RETURN(const std::unique_ptr<LedgerFile> fresh, OpenOnce(options_));
  database_ = std::move(fresh->database_);
  RETURN_IF_ERROR(Prepare());
  return WriteOnce(entries, state, now);
}

Result<std::map<int64_t, Account>> LedgerFile::Accounts(int64_t since_unix) {
  ASSIGN_OR_RETURN(sqlite::Statement row,
                   database_.Prepare("SELECT id," GPULENS_LEDGER_ACCOUNT
                                     " FROM ledger_account WHERE last_hour_unix>=? ORDER BY id"));
  row.Bind(1, since_unix);
  std::map<int64_t, Account> accounts;
  size_t bytes = 0;
  const Status status = row.Each([&]() -> Status {
    bytes += sizeof(Account);
    for (int column = 1; column < row.columns(); ++column) bytes += row.Text(column).size();
    if (bytes > kMostAccountBytes)
      return {Code::kExhausted, options_.path + ": its accounts take more than " +
                                    std::to_string(kMostAccountBytes >> 20) + " MiB"};
    ASSIGN_OR_RETURN(Account account, ReadAccount(row, 1, options_.path));
    accounts.emplace_hint(accounts.end(), row.Int(0), std::move(account));
    return Ok();
  });
  if (!status) return status;
  return accounts;
}

Result<std::vector<SumRow>> LedgerFile::Sum(const SumQuery& query) {
  ASSIGN_OR_RETURN(const auto accounts, Accounts(query.since_unix));
  Grouping groups(query, accounts);
  const auto scan = [&](const char* table, const char* time, int64_t since, int64_t until) -> Status {
    if (since >= until) return Ok();
    ASSIGN_OR_RETURN(
        sqlite::Statement row,
        database_.Prepare(std::string("SELECT ") + time + ",account," GPULENS_LEDGER_AMOUNTS " FROM " +
                          table + " WHERE " + time + ">=? AND " + time + "<? ORDER BY " + time));
    row.BindAll(since, until);
    int64_t at = INT64_MIN;
    bool matches = false;
    return row.Each([&]() -> Status {
      if (row.Int(0) != at) at = row.Int(0), matches = groups.Begin(at);
      if (!matches || groups.Add(row.Int(1), row, 2)) return Ok();
      return {Code::kDataLoss, options_.path + ": an entry has an account that is not there"};
    });
  };
  // Whole days are read as days, the rest as hours.
  const auto is_hour = [](Dimension dimension) { return dimension == Dimension::kHour; };
  const bool hours = std::ranges::any_of(query.by, is_hour) ||
                     std::ranges::any_of(query.where, is_hour, &std::pair<Dimension, std::string>::first);
  const int64_t since = std::max<int64_t>(query.since_unix, 0);
  const int64_t until = std::min<int64_t>(query.until_unix, int64_t{1} << 40);  // in the year 36812
  const int64_t first_day = (since + kDaySeconds - 1) / kDaySeconds * kDaySeconds;
  const int64_t end_of_days = std::max(until, int64_t{0}) / kDaySeconds * kDaySeconds;
  const bool days = !hours && first_day < end_of_days;
  RETURN_IF_ERROR(scan("ledger_entry", "hour_unix", since, days ? first_day : until));
  if (days) {
    RETURN_IF_ERROR(scan("ledger_day", "day_unix", first_day, end_of_days));
    RETURN_IF_ERROR(scan("ledger_entry", "hour_unix", end_of_days, until));
  }
  return groups.Finish();
}

Status LedgerFile::ForEach(int64_t since_unix, int64_t until_unix,
                           const std::function<Status(const HourEntry&)>& visit) {
  ASSIGN_OR_RETURN(const auto accounts, Accounts(since_unix));
  ASSIGN_OR_RETURN(sqlite::Statement row,
                   database_.Prepare("SELECT hour_unix,for_hour_unix,account," GPULENS_LEDGER_AMOUNTS
                                     " FROM ledger_entry WHERE hour_unix>=? AND hour_unix<?"
                                     " ORDER BY hour_unix,for_hour_unix"));
  row.BindAll(since_unix, until_unix);
  std::vector<HourEntry> waiting;  // of one hour and for_hour
  const auto flush = [&]() -> Status {
    std::ranges::sort(waiting, {}, [](const HourEntry& entry) -> const Account& { return *entry.account; });
    for (const HourEntry& entry : waiting) RETURN_IF_ERROR(visit(entry));
    waiting.clear();
    return Ok();
  };
  const Status status = row.Each([&]() -> Status {
    HourEntry entry{row.Int(0), row.Int(1), nullptr, ReadAmounts(row, 3)};
    const auto account = accounts.find(row.Int(2));
    if (account == accounts.end())
      return {Code::kDataLoss, options_.path + ": an entry has an account that is not there"};
    entry.account = &account->second;
    if (!waiting.empty() &&
        (waiting.back().hour_unix != entry.hour_unix || waiting.back().for_hour_unix != entry.for_hour_unix))
      RETURN_IF_ERROR(flush());
    waiting.push_back(entry);
    return Ok();
  });
  return status ? flush() : status;
}

Result<std::vector<LedgerFile::Hour>> LedgerFile::Hours(int64_t since_unix, int64_t until_unix) {
  ASSIGN_OR_RETURN(sqlite::Statement row,
                   database_.Prepare("SELECT hour_unix,revision FROM ledger_hour WHERE hour_unix>=? AND "
                                     "hour_unix<? ORDER BY hour_unix"));
  row.BindAll(since_unix, until_unix);
  std::vector<Hour> hours;
  RETURN_IF_ERROR(row.Each([&] { hours.push_back({row.Int(0), row.Int(1)}); }));
  return hours;
}

}  // namespace gpulens::ledger
