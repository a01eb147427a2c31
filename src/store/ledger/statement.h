// Statements: what a ledger booked in a period, as lines of JSON that are chained by hashes, so that a
// changed, missing or added line is found.
//
//   header  {"format":"gpulens.statement/1","hash":H,"host":…,"kind":"header","ledger":ID,
//            "period":{"since":T,"until":T},"previous":H}
//   entry   {"account":{…},"amounts":{…},"class":"usage","hash":H,"hour":T,"kind":"entry"}, by hour
//   day     {"count":N,"day":D,"hash":H,"kind":"day","root":H}, after the entries of each day that has some
//   footer  {"corrections":{"amounts":{…},"count":N},"hash":H,"kind":"footer","usage":{…}}
//
// Each line is canonical JSON (RFC 8785) and ends with a newline; amounts are integers as texts, and those
// that are 0 and texts that are empty are left out. H of a line is 64 hexadecimal digits: SHA-256 of the hash
// of the line before, a newline, and the line without its hash; the first line has "gpulens.statement/1" as
// the one before. The footer's hash is the statement's head: who keeps it can prove every line. "previous" is
// the head of the statement before. "root" is the Merkle root of the day's entries without their hashes (RFC
// 6962, 2.1).
//
// An entry of the class "correction" adjusts an hour before the period ("for_hour"). Bookings are never
// changed once their hour is over, so periods that follow each other add up to the ledger.
#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "ledger/account.h"
#include "store/ledger/ledger_file.h"

namespace gpulens::ledger {

inline constexpr std::string_view kStatementFormat = "gpulens.statement/1";

struct StatementHeader {
  std::string ledger, host;                // id and host of the ledger
  int64_t since_unix = 0, until_unix = 0;  // seconds
  std::string previous;                    // head of the statement before; empty: the first
  bool open = false;                       // made before the period was over
};

struct StatementPart {
  uint64_t count = 0;
  Totals sums;
};

// An entry as canonical JSON without its hash. `since_unix` decides its class.
std::string EntryText(const HourEntry& entry, int64_t since_unix);

// Root of a Merkle tree as RFC 6962, 2.1, leaf by leaf.
class MerkleTree {
 public:
  void Add(std::string_view leaf);
  size_t count() const noexcept { return count_; }
  // 64 hexadecimal digits. Of no leaf: the hash of nothing.
  std::string Root() const;

 private:
  using Node = std::array<char, 32>;
  static Node HashOf(char prefix, std::string_view left, std::string_view right = {});
  std::vector<Node> nodes_;  // of complete subtrees, the largest first
  size_t count_ = 0;
};

// Makes the lines of a statement. Not thread-safe.
class StatementWriter {
 public:
  // Takes lines with their newline.
  using Out = std::function<Status(std::string_view line)>;

  StatementWriter(StatementHeader header, Out out) : header_(std::move(header)), out_(std::move(out)) {}
  // Header first, then each entry in the order of LedgerFile::ForEach, then Finish.
  Status Begin();
  Status Add(const HourEntry& entry);
  Status Finish();
  // Hash of the last line.
  const std::string& head() const noexcept { return head_; }
  uint64_t entries() const noexcept { return usage_.count + corrections_.count; }

 private:
  template <class Text>
  Status Line(const Text& text);
  Status EndDay();

  const StatementHeader header_;
  const Out out_;
  std::string head_{kStatementFormat}, line_;
  MerkleTree day_entries_;
  int64_t day_unix_ = 0;
  StatementPart usage_, corrections_;
};

// All of the ledger's bookings of the header's period.
Status WriteStatement(LedgerFile& ledger, const StatementHeader& header, const StatementWriter::Out& out);

// Reads and checks a statement line by line: untrusted bytes. Not thread-safe.
class StatementReader {
 public:
  static constexpr size_t kMostLine = 64 << 10;

  // `file` outlives the reader.
  explicit StatementReader(std::FILE* file) : file_(file) {}

  struct Entry {
    int64_t hour_unix = 0, for_hour_unix = 0;
    Account account;
    Amounts amounts;
  };
  // Checks the header. Once, first.
  Status Begin();
  // Checks the lines up to the next entry and returns it; nothing: the end, and all of it is good. kDataLoss:
  // "line 17: …", and what is wrong with it. kIo: the file cannot be read.
  Result<std::optional<Entry>> Next();

  const StatementHeader& header() const noexcept { return header_; }
  const std::string& head() const noexcept { return head_; }
  uint64_t line() const noexcept { return line_number_; }  // that was read last, from 1
  std::string_view line_text() const noexcept { return text_; }
  const StatementPart& usage() const noexcept { return usage_; }
  const StatementPart& corrections() const noexcept { return corrections_; }

  struct ParsedLine;  // of the implementation

 private:
  Result<bool> ReadLine();
  Status Broken(std::string_view what) const;
  // `canonical` appends the line with the hash that it is given.
  Status CheckChain(const std::function<void(std::string& out, std::string_view hash)>& canonical,
                    const std::string& hash);
  Result<Entry> TakeEntry(const ParsedLine& line);
  Status TakeDay(const std::string& own_hash);
  Status TakeFooter(const std::string& own_hash);

  std::FILE* const file_;
  std::string text_;  // without its newline
  uint64_t line_number_ = 0;
  StatementHeader header_;
  std::string head_{kStatementFormat};
  MerkleTree day_entries_;
  std::optional<Entry> last_;
  int64_t day_unix_ = 0;
  StatementPart usage_, corrections_;
};

}  // namespace gpulens::ledger
