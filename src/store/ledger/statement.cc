#include "store/ledger/statement.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <utility>

#include "base/files.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/result.h"
#include "base/rfc3339.h"
#include "base/text.h"
#include "store/ledger/wide_text.h"

namespace gpulens::ledger {
// Members of a line that are known. What is not of its kind is found by its canonical text.
struct StatementReader::ParsedLine {
  std::string kind, hash, format, host, ledger, previous, since, until, hour, for_hour, day;
  bool open = false, good = true;
  Account account;
  Amounts amounts;
};

namespace {

using ParsedLine = StatementReader::ParsedLine;

constexpr size_t kHashDigits = 64;
constexpr int64_t kHour = 3600, kDay = 86'400;

// As RFC 8785, 3.2.2.2: only what JSON demands is escaped. Bytes that are no UTF-8 become U+FFFD.
void AppendCanonicalText(std::string& out, std::string_view text) {
  out += '"';
  while (!text.empty()) {
    const size_t length = Utf8Length(text);
    const auto byte = static_cast<unsigned char>(text.front());
    constexpr std::string_view kEscaped = "\b\t\n\f\r\"\\", kEscapes = "btnfr\"\\";
    if (length == 0) {
      out += "\xEF\xBF\xBD";
    } else if (const size_t at = kEscaped.find(text.front()); at != std::string_view::npos) {
      (out += '\\') += kEscapes[at];
    } else if (byte < 0x20) {
      AppendHex(out += "\\u00", text.substr(0, 1));
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  out += '"';
}

// Members in the order in which they are added, which must be that of their keys.
class Members {
 public:
  explicit Members(std::string& out) : out_(out) { out_ += '{'; }
  Members(const Members&) = delete;
  Members& operator=(const Members&) = delete;
  ~Members() { out_ += '}'; }

  std::string& Key(std::string_view key) {
    if (!std::exchange(begun_, true)) out_ += '"';
    else out_ += ",\"";
    return out_.append(key).append("\":");
  }
  void Text(std::string_view key, std::string_view text) {
    if (!text.empty()) AppendCanonicalText(Key(key), text);
  }
  // An integer as a text: a number of JSON is exact up to 2^53 only.
  void Amount(std::string_view key, __int128 amount) {
    if (amount != 0) Text(key, WideText(amount));
  }
  void Count(uint64_t count) { Key("count") += std::to_string(count); }

 private:
  std::string& out_;
  bool begun_ = false;
};

template <class Sums>
void AppendAmounts(std::string& out, const Sums& sums) {
  Members members(out);
  members.Amount("carbon_known_uj", sums.carbon_known_uj);
  members.Amount("carbon_ng", sums.carbon_ng);
  members.Amount("cost_allocation_pico", sums.cost_allocation_pico);
  members.Amount("cost_usage_pico", sums.cost_usage_pico);
  members.Amount("electricity_pico", sums.electricity_pico);
  members.Amount("energy_uj", sums.energy_uj);
  members.Amount("priced_ms", sums.priced_ms);
  members.Amount("time_ms", sums.time_ms);
  members.Amount("tokens", sums.tokens);
  members.Amount("unmetered_ms", sums.unmetered_ms);
}

void AppendAccount(std::string& out, const Account& account) {
  Members members(out);
  const Owner& owner = account.owner;
  members.Text("cause", Name(account.cause));
  members.Text("compute_state", Name(account.compute_state));
  members.Text("energy_state", Name(account.energy_state));
  members.Text("engine", owner.engine);
  members.Text("gpu", account.gpu);
  members.Text("job", owner.job);
  members.Text("method", Name(account.method));
  members.Text("model", owner.model);
  members.Text("namespace", owner.name_space);
  members.Text("pod", owner.pod);
  members.Text("process", owner.process);
  members.Text("request_class", Name(account.request_class));
  members.Text("slice", account.slice);
  members.Text("tenant", owner.tenant);
}

// The lines, without the hash when it is empty.
void AppendHeader(std::string& out, const StatementHeader& header, std::string_view hash) {
  Members members(out);
  members.Text("format", kStatementFormat);
  members.Text("hash", hash);
  members.Text("host", header.host);
  members.Text("kind", "header");
  members.Text("ledger", header.ledger);
  if (header.open) members.Key("open") += "true";
  {
    Members period(members.Key("period"));
    period.Text("since", TimeText(header.since_unix));
    period.Text("until", TimeText(header.until_unix));
  }
  members.Text("previous", header.previous);
}

void AppendEntry(std::string& out, const HourEntry& entry, int64_t since_unix, std::string_view hash) {
  Members members(out);
  AppendAccount(members.Key("account"), *entry.account);
  AppendAmounts(members.Key("amounts"), entry.amounts);
  const bool adjusts = entry.for_hour_unix != 0;
  members.Text("class", adjusts && entry.for_hour_unix < since_unix ? "correction" : "usage");
  if (adjusts) members.Text("for_hour", TimeText(entry.for_hour_unix));
  members.Text("hash", hash);
  members.Text("hour", TimeText(entry.hour_unix));
  members.Text("kind", "entry");
}

void AppendDay(std::string& out, const MerkleTree& entries, int64_t day_unix, std::string_view hash) {
  Members members(out);
  members.Count(entries.count());
  members.Text("day", DayText(day_unix));
  members.Text("hash", hash);
  members.Text("kind", "day");
  members.Text("root", entries.Root());
}

void AppendPart(std::string& out, const StatementPart& part) {
  Members members(out);
  AppendAmounts(members.Key("amounts"), part.sums);
  members.Count(part.count);
}

void AppendFooter(std::string& out, const StatementPart& usage, const StatementPart& corrections,
                  std::string_view hash) {
  Members members(out);
  AppendPart(members.Key("corrections"), corrections);
  members.Text("hash", hash);
  members.Text("kind", "footer");
  AppendPart(members.Key("usage"), usage);
}

std::string ChainHash(std::string_view before, std::string_view line) {
  Sha256 hash;
  hash.Add(before);
  hash.Add("\n");
  hash.Add(line);
  return hash.Finish();
}

bool IsCorrection(int64_t for_hour_unix, int64_t since_unix) noexcept {
  return for_hour_unix != 0 && for_hour_unix < since_unix;
}

void Count(StatementPart& part, const Amounts& amounts) {
  ++part.count;
  part.sums += amounts;
}

std::optional<int64_t> SecondsOf(std::string_view text) {
  const auto ns = ParseRfc3339(text);
  return ns ? std::optional(*ns / 1'000'000'000) : std::nullopt;
}

void ReadAccountOf(JsonScanner& json, ParsedLine& line) {
  Account& account = line.account;
  Owner& owner = account.owner;
  json.Object([&](std::string_view key) {
    const auto name = [&](auto& out) { line.good &= Parse(json.Text(), out); };
    if (key == "cause") return name(account.cause);
    if (key == "compute_state") return name(account.compute_state);
    if (key == "energy_state") return name(account.energy_state);
    if (key == "method") return name(account.method);
    if (key == "request_class") return name(account.request_class);
    const std::pair<std::string_view, std::string*> texts[] = {{"engine", &owner.engine},
                                                               {"gpu", &account.gpu},
                                                               {"job", &owner.job},
                                                               {"model", &owner.model},
                                                               {"namespace", &owner.name_space},
                                                               {"pod", &owner.pod},
                                                               {"process", &owner.process},
                                                               {"slice", &account.slice},
                                                               {"tenant", &owner.tenant}};
    for (const auto& [known, text] : texts) {
      if (key == known) *text = json.Text();
    }
  });
}

void ReadAmountsOf(JsonScanner& json, ParsedLine& line) {
  Amounts& amounts = line.amounts;
  json.Object([&](std::string_view key) {
    const std::pair<std::string_view, int64_t*> known[] = {
        {"carbon_known_uj", &amounts.carbon_known_uj},
        {"carbon_ng", &amounts.carbon_ng},
        {"cost_allocation_pico", &amounts.cost_allocation_pico},
        {"cost_usage_pico", &amounts.cost_usage_pico},
        {"electricity_pico", &amounts.electricity_pico},
        {"energy_uj", &amounts.energy_uj},
        {"priced_ms", &amounts.priced_ms},
        {"time_ms", &amounts.time_ms},
        {"tokens", &amounts.tokens},
        {"unmetered_ms", &amounts.unmetered_ms}};
    for (const auto& [name, amount] : known) {
      if (key != name) continue;
      const auto value = ParseInt<int64_t>(json.Text());
      line.good &= value.has_value();
      *amount = value.value_or(0);
    }
  });
}

std::optional<ParsedLine> ParseLine(std::string_view text) {
  ParsedLine line;
  JsonScanner json(text, 4);
  json.Object([&](std::string_view key) {
    if (key == "account") return ReadAccountOf(json, line);
    if (key == "amounts") return ReadAmountsOf(json, line);
    if (key == "open") return static_cast<void>(line.open = json.Bool().value_or(false));
    if (key == "period") {
      return json.Object([&](std::string_view bound) {
        if (bound == "since") line.since = json.Text();
        else if (bound == "until") line.until = json.Text();
      });
    }
    const std::pair<std::string_view, std::string*> texts[] = {
        {"kind", &line.kind}, {"hash", &line.hash},         {"format", &line.format},
        {"host", &line.host}, {"ledger", &line.ledger},     {"previous", &line.previous},
        {"hour", &line.hour}, {"for_hour", &line.for_hour}, {"day", &line.day}};
    for (const auto& [known, out] : texts) {
      if (key == known) *out = json.Text();
    }
  });
  if (!json.Finish().ok()) return std::nullopt;
  return line;
}

}  // namespace

std::string EntryText(const HourEntry& entry, int64_t since_unix) {
  std::string text;
  AppendEntry(text, entry, since_unix, {});
  return text;
}

MerkleTree::Node MerkleTree::HashOf(char prefix, std::string_view left, std::string_view right) {
  Sha256 hash;
  hash.Add(std::string_view(&prefix, 1));
  hash.Add(left);
  hash.Add(right);
  return std::bit_cast<Node>(hash.FinishBytes());
}

namespace {

template <class Node>
std::string_view BytesOf(const Node& node) noexcept {
  return {node.data(), node.size()};
}

}  // namespace

void MerkleTree::Add(std::string_view leaf) {
  Node node = HashOf(0, leaf);
  // As a binary counter: each bit of the count that turns to 0 joins two trees of one size.
  for (size_t bits = count_; bits % 2 == 1; bits /= 2) {
    node = HashOf(1, BytesOf(nodes_.back()), BytesOf(node));
    nodes_.pop_back();
  }
  nodes_.push_back(node);
  ++count_;
}

std::string MerkleTree::Root() const {
  if (nodes_.empty()) return Sha256().Finish();
  Node node = nodes_.back();
  for (size_t i = nodes_.size() - 1; i > 0; --i) node = HashOf(1, BytesOf(nodes_[i - 1]), BytesOf(node));
  std::string root;
  AppendHex(root, BytesOf(node));
  return root;
}

// `text(out, hash)` appends the line.
template <class Text>
Status StatementWriter::Line(const Text& text) {
  line_.clear();
  text(line_, std::string_view());
  head_ = ChainHash(head_, line_);
  line_.clear();
  text(line_, std::string_view(head_));
  if (line_.size() > StatementReader::kMostLine)
    return {Code::kExhausted, "an entry has names of more than 64 KiB"};
  return out_(line_ += '\n');
}

Status StatementWriter::Begin() {
  return Line([this](std::string& out, std::string_view hash) { AppendHeader(out, header_, hash); });
}

Status StatementWriter::EndDay() {
  if (day_entries_.count() == 0) return Ok();
  const Status status = Line(
      [this](std::string& out, std::string_view hash) { AppendDay(out, day_entries_, day_unix_, hash); });
  day_entries_ = {};
  return status;
}

Status StatementWriter::Add(const HourEntry& entry) {
  const int64_t day = entry.hour_unix / kDay * kDay;
  if (day != day_unix_) {
    RETURN_IF_ERROR(EndDay());
  }
  day_unix_ = day;
  const Status status = Line([&](std::string& out, std::string_view hash) {
    AppendEntry(out, entry, header_.since_unix, hash);
    if (hash.empty()) day_entries_.Add(out);
  });
  Count(IsCorrection(entry.for_hour_unix, header_.since_unix) ? corrections_ : usage_, entry.amounts);
  return status;
}

Status StatementWriter::Finish() {
  RETURN_IF_ERROR(EndDay());
  return Line(
      [this](std::string& out, std::string_view hash) { AppendFooter(out, usage_, corrections_, hash); });
}

Status WriteStatement(LedgerFile& ledger, const StatementHeader& header, const StatementWriter::Out& out) {
  StatementWriter writer(header, out);
  RETURN_IF_ERROR(writer.Begin());
  const auto add = [&writer](const HourEntry& entry) { return writer.Add(entry); };
  RETURN_IF_ERROR(ledger.ForEach(header.since_unix, header.until_unix, add));
  return writer.Finish();
}

Status StatementReader::Broken(std::string_view what) const {
  return {Code::kDataLoss, "line " + std::to_string(line_number_) + ": " + std::string(what)};
}

// False at the end of the file.
Result<bool> StatementReader::ReadLine() {
  text_.clear();
  for (int c = std::getc(file_); c != '\n'; c = std::getc(file_)) {
    if (c == EOF) {
      if (std::ferror(file_) != 0) return ErrnoStatus("read the statement", errno);
      if (text_.empty()) return false;
      ++line_number_;
      return Broken("the last line has no end");
    }
    if (text_.size() == kMostLine) {
      ++line_number_;
      return Broken("it is longer than 64 KiB");
    }
    text_ += static_cast<char>(c);
  }
  ++line_number_;
  return true;
}

Status StatementReader::CheckChain(
    const std::function<void(std::string& out, std::string_view hash)>& canonical, const std::string& hash) {
  std::string text;
  canonical(text, hash);
  if (text != text_)
    return Broken(
        "it is not what its kind of line is: a member is unknown, missing, wrong or at another place");
  text.clear();
  canonical(text, {});
  if (hash.size() != kHashDigits || ChainHash(head_, text) != hash) {
    return Broken(
        "its hash is not that of its text and the line before: it was changed, or lines before it were added "
        "or removed");
  }
  head_ = hash;
  return Ok();
}

Status StatementReader::Begin() {
  ASSIGN_OR_RETURN(const bool there, ReadLine());
  if (!there) return {Code::kDataLoss, "line 1: the file is empty"};
  const auto line = ParseLine(text_);
  if (!line || line->kind != "header" || line->format != kStatementFormat)
    return Broken("it is not the header of a statement of the format gpulens.statement/1");
  const auto since = SecondsOf(line->since), until = SecondsOf(line->until);
  if (!since || !until || *since >= *until) return Broken("its period is no period");
  header_ = {line->ledger, line->host, *since, *until, line->previous, line->open};
  return CheckChain([this](std::string& out, std::string_view hash) { AppendHeader(out, header_, hash); },
                    line->hash);
}

Result<StatementReader::Entry> StatementReader::TakeEntry(const ParsedLine& line) {
  if (!line.good) return Broken("a name or an amount of it is none");
  Entry entry{.account = line.account, .amounts = line.amounts};
  const auto hour = SecondsOf(line.hour);
  if (!hour || *hour % kHour != 0) return Broken("its hour is no hour");
  entry.hour_unix = *hour;
  if (!line.for_hour.empty()) {
    const auto for_hour = SecondsOf(line.for_hour);
    if (!for_hour || *for_hour % kHour != 0 || *for_hour >= *hour || *for_hour == 0)
      return Broken("the hour that it adjusts is no earlier hour");
    entry.for_hour_unix = *for_hour;
  }
  const HourEntry view{entry.hour_unix, entry.for_hour_unix, &entry.account, entry.amounts};
  const auto canonical = [&](std::string& out, std::string_view hash) {
    AppendEntry(out, view, header_.since_unix, hash);
  };
  RETURN_IF_ERROR(CheckChain(canonical, line.hash));
  if (*hour < header_.since_unix || *hour >= header_.until_unix)
    return Broken("its hour is outside of the period");
  const auto order = [](const Entry& e) { return std::tie(e.hour_unix, e.for_hour_unix, e.account); };
  if (last_ && !(order(*last_) < order(entry))) return Broken("it is not after the entry before it");
  const int64_t day = *hour / kDay * kDay;
  if (day_entries_.count() > 0 && day != day_unix_)
    return Broken("the line of the day " + DayText(day_unix_) + " is missing before it");
  day_unix_ = day;
  day_entries_.Add(EntryText(view, header_.since_unix));
  Count(IsCorrection(entry.for_hour_unix, header_.since_unix) ? corrections_ : usage_, entry.amounts);
  last_ = entry;
  return entry;
}

Status StatementReader::TakeDay(const std::string& own_hash) {
  if (day_entries_.count() == 0) return Broken("it is a day without entries");
  const auto canonical = [this](std::string& out, std::string_view hash) {
    AppendDay(out, day_entries_, day_unix_, hash);
  };
  RETURN_IF_ERROR(CheckChain(canonical, own_hash));
  day_entries_ = {};
  return Ok();
}

Status StatementReader::TakeFooter(const std::string& own_hash) {
  if (day_entries_.count() > 0)
    return Broken("the line of the day " + DayText(day_unix_) + " is missing before it");
  const auto canonical = [this](std::string& out, std::string_view hash) {
    AppendFooter(out, usage_, corrections_, hash);
  };
  std::string sums;
  canonical(sums, own_hash);
  if (sums != text_) return Broken("the totals of the footer are not the sums of the entries");
  RETURN_IF_ERROR(CheckChain(canonical, own_hash));
  ASSIGN_OR_RETURN(const bool more, ReadLine());
  return more ? Broken("there is a line after the footer") : Ok();
}

Result<std::optional<StatementReader::Entry>> StatementReader::Next() {
  for (;;) {
    ASSIGN_OR_RETURN(const bool there, ReadLine());
    if (!there) {
      ++line_number_;
      return Broken("the footer is missing");
    }
    const auto line = ParseLine(text_);
    if (!line) return Broken("it is no JSON");
    if (line->kind == "entry") {
      ASSIGN_OR_RETURN(Entry entry, TakeEntry(*line));
      return std::optional(std::move(entry));
    }
    if (line->kind == "day") {
      RETURN_IF_ERROR(TakeDay(line->hash));
      continue;
    }
    if (line->kind != "footer") return Broken("it is neither an entry, nor a day, nor the footer");
    RETURN_IF_ERROR(TakeFooter(line->hash));
    return std::optional<Entry>();
  }
}

}  // namespace gpulens::ledger
