#include "proxy/admission/keys.h"

#include <sys/random.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "base/files.h"
#include "base/hash.h"
#include "base/parse.h"
#include "base/result.h"
#include "base/rfc3339.h"
#include "base/text.h"
#include "ledger/rates.h"

namespace gpulens::proxy {
namespace {

constexpr std::string_view kPrefix = "gpl_";
constexpr size_t kSecretBytes = 32, kSecretCharacters = 43;
constexpr size_t kMostIdBytes = 32, kMostTenantBytes = 64;
constexpr size_t kMostKeyLineBytes = 8192, kMostListItems = 64, kMostItemBytes = 256;
constexpr int64_t kMostPerMinute = 1'000'000'000'000;
constexpr int64_t kNsPerSecondOfKeys = 1'000'000'000;

enum Column : uint8_t {
  kId,
  kSha256,
  kTenant,
  kProject,
  kModels,
  kBudgets,
  kRpm,
  kTpm,
  kStreams,
  kProfile,
  kExpires,
  kDefaultMaxTokens,
  kAllowUnmetered,
  kState,
};
constexpr std::string_view kColumnNames[] = {"id",
                                             "sha256",
                                             "tenant",
                                             "project",
                                             "models",
                                             "budgets",
                                             "rpm",
                                             "tpm",
                                             "streams",
                                             "profile",
                                             "expires",
                                             "default_max_tokens",
                                             "allow_unmetered",
                                             "state"};
constexpr size_t kColumns = std::size(kColumnNames);

bool IsKeyId(std::string_view id) noexcept {
  return !id.empty() && id.size() <= kMostIdBytes && std::all_of(id.begin(), id.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-';
  });
}

// Characters of names of tenants and projects, which become labels and parts of keys of an engine.
bool IsTenantName(std::string_view name) noexcept {
  return name.size() <= kMostTenantBytes && std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
                  c == '_' || c == '.';
         });
}

// The cells of one key, by column. Messages name the column, and the text where it is no secret.
class KeyCells {
 public:
  void Clear() noexcept { cells_.fill({}); }
  void Set(size_t column, std::string_view text) noexcept {
    cells_[column] = text == "-" ? std::string_view() : text;
  }

  // `digest`: sha256 must be there.
  Status Read(VirtualKey& key, bool digest) const {
    if (!IsKeyId(cells_[kId])) return Wrong("the id must have 1 to 32 letters, digits and hyphens");
    key.id = cells_[kId];
    if ((digest || !cells_[kSha256].empty()) &&
        !FromHex(cells_[kSha256], reinterpret_cast<char*>(key.digest.data()), key.digest.size()))
      return Wrong("sha256 must be 64 hexadecimal digits: those of the secret, not the secret");
    if (cells_[kTenant].empty() || !IsTenantName(cells_[kTenant]) || !IsTenantName(cells_[kProject]))
      return Wrong("tenant and project must have 1 to 64 letters, digits, hyphens, dots and underscores");
    key.tenant = cells_[kTenant];
    key.project = cells_[kProject];
    RETURN_IF_ERROR(ReadList(kModels, key.models));
    RETURN_IF_ERROR(ReadBudgets(key));
    RETURN_IF_ERROR(ReadNumber(kRpm, key.requests_per_minute));
    RETURN_IF_ERROR(ReadNumber(kTpm, key.tokens_per_minute));
    RETURN_IF_ERROR(ReadNumber(kStreams, key.streams));
    RETURN_IF_ERROR(ReadNumber(kDefaultMaxTokens, key.default_max_tokens));
    RETURN_IF_ERROR(ReadWords(key));
    RETURN_IF_ERROR(ReadList(kAllowUnmetered, key.allow_unmetered));
    for (const std::string& prefix : key.allow_unmetered) {
      if (prefix.front() != '/') return Wrong("allow_unmetered must have prefixes of paths, as /v1/files");
    }
    if (!key.allow_unmetered.empty() && !(key.budgets.empty() && key.own_budgets.empty()))
      return Wrong("a key with budgets reaches metered routes only; remove budgets or allow_unmetered");
    return Ok();
  }

 private:
  static Status Wrong(std::string what) { return {Code::kInvalidArgument, std::move(what)}; }

  Status ReadList(Column column, std::vector<std::string>& out) const {
    const std::string name(kColumnNames[column]);
    std::string_view rest = cells_[column];
    if (rest.ends_with(',')) return Wrong(name + " has an empty element");
    while (!rest.empty()) {
      const std::string_view item = Trim(TakeUntil(rest, ','));
      if (item.empty()) return Wrong(name + " has an empty element");
      if (item.size() > kMostItemBytes) return Wrong("an element of " + name + " is longer than 256 bytes");
      if (out.size() == kMostListItems) return Wrong(name + " has more than 64 elements");
      out.emplace_back(item);
    }
    return Ok();
  }

  Status ReadBudgets(VirtualKey& key) const {
    std::vector<std::string> items;
    RETURN_IF_ERROR(ReadList(kBudgets, items));
    for (std::string& item : items) {
      std::string_view window = item;
      const std::string_view dollars = TakeUntil(window, '/');
      if (dollars.size() == item.size()) {
        key.budgets.push_back(std::move(item));
        continue;
      }
      const auto pico = ledger::ParseDecimal(dollars, ledger::kPicoDecimals);
      if (!pico || *pico > kMostLimitPico) return Wrong("\"" + Printable(dollars) + "\" is no amount of USD");
      const auto parsed = ParseBudgetWindow(window);
      if (!parsed) return Wrong(parsed.error().detail);
      key.own_budgets.push_back({*pico, *parsed});
    }
    return Ok();
  }

  Status ReadNumber(Column column, int64_t& out) const {
    const std::string_view cell = cells_[column];
    if (cell.empty()) return Ok();
    const auto number = ParseInt<int64_t>(cell);
    if (!number || *number < 1 || *number > kMostPerMinute)
      return Wrong(std::string(kColumnNames[column]) + " must be a whole number from 1 to 10^12, not \"" +
                   Printable(cell.substr(0, 64)) + "\"");
    out = *number;
    return Ok();
  }

  Status ReadWords(VirtualKey& key) const {
    if (const std::string_view name = cells_[kProfile]; !name.empty()) {
      constexpr pricing::Profile kProfiles[] = {pricing::Profile::kManaged, pricing::Profile::kByok,
                                                pricing::Profile::kSubscription, pricing::Profile::kByoc};
      const auto* profile = std::ranges::find(kProfiles, name, pricing::ProfileName);
      if (profile == std::end(kProfiles)) return Wrong("profile must be managed, byok, subscription or byoc");
      key.profile = *profile;
    }
    const std::string_view state = cells_[kState];
    if (!state.empty() && state != "active" && state != "revoked")
      return Wrong("state must be active or revoked");
    key.revoked = state == "revoked";
    const std::string_view expires = cells_[kExpires];
    if (expires.empty()) return Ok();
    const auto at =
        ParseRfc3339(expires.size() == 10 ? std::string(expires) + "T00:00:00Z" : std::string(expires));
    if (!at || *at <= 0)
      return Wrong("expires must be a time as 2027-01-31T12:00:00Z or a date as 2027-01-31");
    key.expires_unix_ns = *at;
    return Ok();
  }

  std::array<std::string_view, kColumns> cells_;
};

// The column of this name; a message with the nearest one.
Result<size_t> ColumnOf(std::string_view name) {
  const auto* found = std::find(std::begin(kColumnNames), std::end(kColumnNames), name);
  if (found != std::end(kColumnNames)) return static_cast<size_t>(found - std::begin(kColumnNames));
  const std::string_view near = NearestWord(name.substr(0, 64), kColumnNames);
  return Status{Code::kInvalidArgument,
                "unknown column \"" + Printable(name.substr(0, 64)) + "\"" +
                    (near.empty() ? "" : "; did you mean " + std::string(near) + "?")};
}

// Parser of one file. Messages name the line.
class KeyFileReader {
 public:
  KeyFileReader(std::string_view text, const std::string& name) : name_(name), rest_(text) {
    if (rest_.starts_with("\xEF\xBB\xBF")) rest_.remove_prefix(3);
  }

  Status Wrong(const std::string& what) const {
    return {Code::kInvalidArgument, name_ + ":" + std::to_string(line_) + ": " + what};
  }

  Status ReadHeader() {
    if (rest_.size() > KeyTable::kMostFileBytes) return Wrong("the file is longer than 32 MiB");
    if (rest_.find('\0') != std::string_view::npos || !IsUtf8(rest_))
      return Wrong("the file is not text in UTF-8");
    ASSIGN_OR_RETURN(const bool any, Next());
    if (!any) return Wrong("the file has no line with the names of its columns: id, sha256, tenant, …");
    for (const std::string_view cell : cells_) {
      const Result<size_t> column = ColumnOf(cell);
      if (!column) return Wrong(column.error().detail);
      if (at_[*column]) return Wrong("two columns are named " + std::string(cell));
      at_[*column] = header_++;
    }
    for (const Column needed : {kId, kSha256, kTenant}) {
      if (!at_[needed]) return Wrong("the column " + std::string(kColumnNames[needed]) + " is missing");
    }
    return Ok();
  }

  // False: there is no further key.
  Result<bool> ReadKey(VirtualKey& key) {
    ASSIGN_OR_RETURN(const bool any, Next());
    if (!any) return false;
    if (cells_.size() > header_) return Wrong("more cells than columns");
    key_cells_.Clear();
    for (size_t column = 0; column < kColumns; ++column) {
      if (at_[column] && *at_[column] < cells_.size()) key_cells_.Set(column, cells_[*at_[column]]);
    }
    if (const Status status = key_cells_.Read(key, true); !status) return Wrong(status.detail);
    return true;
  }

 private:
  // Splits the next line that is neither empty nor a comment.
  Result<bool> Next() {
    while (!rest_.empty()) {
      ++line_;
      std::string_view line = TakeUntil(rest_, '\n');
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (line.size() > kMostKeyLineBytes) return Wrong("the line is longer than 8192 bytes");
      if (Trim(line).empty() || line.front() == '#') continue;
      cells_.clear();
      for (bool more = true; more;) {
        more = line.find('\t') != std::string_view::npos;
        cells_.push_back(Trim(TakeUntil(line, '\t')));
        if (cells_.size() > 2 * kColumns) return Wrong("too many cells");
      }
      return true;
    }
    return false;
  }

  const std::string& name_;
  std::string_view rest_;
  size_t line_ = 0, header_ = 0;
  std::array<std::optional<size_t>, kColumns> at_;
  std::vector<std::string_view> cells_;
  KeyCells key_cells_;
};

std::string Joined(const std::vector<std::string>& items) {
  std::string out;
  for (const std::string& item : items) out += (out.empty() ? "" : ",") + item;
  return out;
}

std::string NumberCell(int64_t number) { return number > 0 ? std::to_string(number) : ""; }

std::string TimeCell(int64_t unix_ns) {
  if (unix_ns <= 0) return {};
  const int64_t second = unix_ns / kNsPerSecondOfKeys, fraction = unix_ns % kNsPerSecondOfKeys;
  const std::chrono::sys_seconds at{std::chrono::seconds(second)};
  const auto midnight = std::chrono::floor<std::chrono::days>(at);
  const std::chrono::year_month_day date(midnight);
  const auto of_day = static_cast<int>((at - midnight).count());
  char text[64];
  const int size =
      std::snprintf(text, sizeof text, "%04d-%02u-%02uT%02d:%02d:%02d", static_cast<int>(date.year()),
                    static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()), of_day / 3600,
                    of_day / 60 % 60, of_day % 60);
  std::string out(text, static_cast<size_t>(size));
  if (fraction > 0) {
    std::string digits = std::to_string(kNsPerSecondOfKeys + fraction);
    digits[0] = '.';
    out += digits;
  }
  return out + "Z";
}

}  // namespace

SecretDigest DigestOf(std::string_view secret) {
  Sha256 hash;
  hash.Add(secret);
  return hash.FinishBytes();
}

// Reads every byte, whatever the first ones are. The barrier keeps the compiler from ending early.
bool EqualInConstantTime(const SecretDigest& a, const SecretDigest& b) noexcept {
  unsigned difference = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference |= static_cast<unsigned>(a[i] ^ b[i]);
    __asm__ volatile("" : "+r"(difference));
  }
  return difference == 0;
}

const std::string_view kKeyColumns =
    "id\tsha256\ttenant\tproject\tmodels\tbudgets\trpm\ttpm\tstreams\tprofile\texpires\tdefault_max_tokens\t"
    "allow_unmetered\tstate";

bool VirtualKey::AllowsModel(std::string_view model) const noexcept {
  return models.empty() || std::any_of(models.begin(), models.end(), [&](const std::string& pattern) {
           return MatchesStars(pattern, model);
         });
}

size_t KeyTable::Hash::operator()(std::string_view id) const noexcept {
  return HashBytes(id, 0, ProcessHashKey());
}

Result<VirtualKey> KeyOf(std::span<const KeyCell> cells) {
  KeyCells read;
  for (const KeyCell& cell : cells) {
    ASSIGN_OR_RETURN(const size_t column, ColumnOf(cell.column));
    if (cell.text.find_first_of("\t\n\r") != std::string_view::npos || !IsUtf8(cell.text))
      return Status{Code::kInvalidArgument,
                    std::string(cell.column) + " has a tab, a line break or bytes that are not UTF-8"};
    read.Set(column, Trim(cell.text));
  }
  VirtualKey key;
  RETURN_IF_ERROR(read.Read(key, false));
  return key;
}

Result<KeyTable> KeyTable::Parse(std::string_view text, const std::string& name) {
  KeyFileReader reader(text, name);
  RETURN_IF_ERROR(reader.ReadHeader());
  KeyTable table;
  while (true) {
    VirtualKey key;
    ASSIGN_OR_RETURN(const bool any, reader.ReadKey(key));
    if (!any) break;
    if (table.keys_.size() == kMostKeys) return reader.Wrong("more than 200,000 keys");
    table.keys_.push_back(std::move(key));
  }
  // Views, as soon as the keys stay where they are.
  table.by_id_.reserve(table.keys_.size());
  for (uint32_t i = 0; i < table.keys_.size(); ++i) {
    if (!table.by_id_.emplace(table.keys_[i].id, i).second)
      return Status{Code::kInvalidArgument, name + ": two keys have the id " + table.keys_[i].id};
  }
  return table;
}

Result<KeyTable> KeyTable::Load(const std::string& path) {
  RETURN_IF_ERROR(CheckSecretFile(path));
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMostFileBytes));
  return Parse(text, path);
}

const VirtualKey* KeyTable::Find(std::string_view id) const noexcept {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &keys_[found->second];
}

KeyCheck KeyTable::Verify(std::string_view presented, int64_t unix_ns, KeyWork* work) const {
  // Of the shape gpl_ID_SECRET; another text is measured against nothing at the same cost.
  constexpr std::string_view kNoSecret = "0000000000000000000000000000000000000000000";
  static_assert(kNoSecret.size() == kSecretCharacters);
  constexpr size_t kAround = kPrefix.size() + 1 + kSecretCharacters;
  static const VirtualKey nothing;
  std::string_view id, secret = kNoSecret;
  const bool shaped = presented.starts_with(kPrefix) && presented.size() > kAround &&
                      presented.size() <= kAround + kMostIdBytes &&
                      presented[presented.size() - kSecretCharacters - 1] == '_';
  if (shaped) {
    id = presented.substr(kPrefix.size(), presented.size() - kAround);
    secret = presented.substr(presented.size() - kSecretCharacters);
  }
  const VirtualKey* known = Find(id);
  const VirtualKey& key = known ? *known : nothing;
  const SecretDigest digest = DigestOf(secret);
  const bool equal = EqualInConstantTime(digest, key.digest);
  if (work) {
    ++work->digests;
    work->digested_bytes += secret.size();
    work->compared_bytes += digest.size();
  }
  if (!equal || !known || !shaped) return {};
  if (key.revoked) return {KeyOutcome::kRevoked, known};
  if (key.expires_unix_ns != 0 && unix_ns >= key.expires_unix_ns) return {KeyOutcome::kExpired, known};
  return {KeyOutcome::kValid, known};
}

std::string KeyLine(const VirtualKey& key) {
  std::string digest;
  AppendHex(digest, {reinterpret_cast<const char*>(key.digest.data()), key.digest.size()});
  std::vector<std::string> budgets = key.budgets;
  for (const VirtualKey::OwnBudget& own : key.own_budgets)
    budgets.push_back(ledger::DecimalText(own.limit_pico, ledger::kPicoDecimals) + "/" +
                      BudgetWindowText(own.window));
  const std::string cells[kColumns] = {key.id,
                                       digest,
                                       key.tenant,
                                       key.project,
                                       Joined(key.models),
                                       Joined(budgets),
                                       NumberCell(key.requests_per_minute),
                                       NumberCell(key.tokens_per_minute),
                                       NumberCell(key.streams),
                                       std::string(key.profile ? pricing::ProfileName(*key.profile) : ""),
                                       TimeCell(key.expires_unix_ns),
                                       NumberCell(key.default_max_tokens),
                                       Joined(key.allow_unmetered),
                                       key.revoked ? "revoked" : "active"};
  std::string line;
  for (const std::string& cell : cells) line += (line.empty() ? "" : "\t") + (cell.empty() ? "-" : cell);
  return line;
}

Result<NewKey> MakeKey(VirtualKey settings) {
  std::array<char, kSecretBytes> bytes;
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    return ErrnoStatus("draw random bytes", errno);
  std::string secret;
  AppendBase64(secret, {bytes.data(), bytes.size()});
  secret.resize(kSecretCharacters);  // without the padding
  std::replace(secret.begin(), secret.end(), '+', '-');
  std::replace(secret.begin(), secret.end(), '/', '_');
  settings.digest = DigestOf(secret);
  NewKey made{std::string(kPrefix) + settings.id + "_" + secret, KeyLine(settings)};
  // The reader has the last word on what a line may be.
  auto read = KeyTable::Parse(std::string(kKeyColumns) + "\n" + made.line, "new key");
  if (!read) return read.error();
  if (read->keys().size() != 1 || read->keys()[0] != settings)
    return Status{Code::kInvalidArgument, "a value of the key has a comma, a tab or a blank at its end"};
  return made;
}

Status CheckSecretFile(const std::string& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) return ErrnoStatus("open " + path, errno);
  if (!S_ISREG(info.st_mode)) return {Code::kPermissionDenied, path + " is no regular file"};
  if ((info.st_mode & 0137) == 0) return Ok();
  return {Code::kPermissionDenied,
          path + " has secrets and may be written or read by others; run chmod 640 " + path};
}

std::string_view BearerToken(std::string_view authorization) noexcept {
  constexpr std::string_view kScheme = "bearer ";
  if (authorization.size() <= kScheme.size() ||
      !EqualsIgnoringCase(authorization.substr(0, kScheme.size()), kScheme))
    return {};
  return Trim(authorization.substr(kScheme.size()));
}

}  // namespace gpulens::proxy
