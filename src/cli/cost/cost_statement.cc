// `gpulens cost statement` and `gpulens cost verify`.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <optional>

#include "base/clock.h"
#include "base/files.h"
#include "base/result.h"
#include "cli/common/output.h"
#include "cli/cost/cost_command.h"
#include "store/ledger/statement.h"
#include "store/ledger/wide_text.h"

namespace gpulens {
namespace {

using ledger::StatementHeader;
using ledger::StatementReader;
using ledger::TimeText;

struct CloseInput {
  void operator()(std::FILE* file) const noexcept { std::fclose(file); }
};
using Input = std::unique_ptr<std::FILE, CloseInput>;

// Wrong use: a statement that cannot be read is not a broken one.
Result<Input> OpenInput(const std::string& path) {
  Input file(std::fopen(path.c_str(), "re"));
  if (!file) return Status{Code::kInvalidArgument, ErrnoStatus("open " + path, errno).detail};
  return file;
}

Status Named(const std::string& path, const Status& status) {
  return status ? Ok() : Status{status.code, path + ": " + status.detail};
}

// The statement before, checked to its end: its head, and where its period ends.
Result<StatementHeader> ReadPrevious(const std::string& path, std::string& head) {
  ASSIGN_OR_RETURN(const Input file, OpenInput(path));
  StatementReader reader(file.get());
  RETURN_IF_ERROR(Named(path, reader.Begin()));
  for (;;) {
    const auto entry = reader.Next();
    if (!entry) return Named(path, entry.error());
    if (!*entry) break;
  }
  head = reader.head();
  return reader.header();
}

// A GPU whose time ends so long before that of the others was taken out and is not waited for, in ns.
constexpr int64_t kGoneAfterNs = 24 * 3'600'000'000'000;

// Up to when all GPUs are booked, in seconds; what comes after may still be added.
Result<int64_t> BookedUntil(ledger::LedgerFile& ledger) {
  ASSIGN_OR_RETURN(const auto state, ledger.ReadState());
  if (!state || state->gpus.empty()) return 0;
  int64_t newest = INT64_MIN, earliest = INT64_MAX;
  for (const auto& gpu : state->gpus) newest = std::max(newest, gpu.at_unix_ns);
  for (const auto& gpu : state->gpus) {
    if (gpu.at_unix_ns >= newest - kGoneAfterNs) earliest = std::min(earliest, gpu.at_unix_ns);
  }
  return earliest / 1'000'000'000;
}

Status CheckOver(ledger::LedgerFile& ledger, const CostRange& range) {
  const int64_t now = RealClock().Now().unix_ns / 1'000'000'000;
  if (range.until_unix > now)
    return {Code::kInvalidArgument, "the period ends at " + TimeText(range.until_unix) +
                                        ", which is not over; --open makes a statement anyway"};
  ASSIGN_OR_RETURN(const int64_t booked, BookedUntil(ledger));
  if (booked >= range.until_unix) return Ok();
  return {Code::kUnavailable, "the period ends at " + TimeText(range.until_unix) +
                                  ", and the ledger is booked up to " + TimeText(booked) +
                                  ": start the agent, which adds the rest; --open makes a statement anyway"};
}

std::string SummaryOf(const StatementReader& reader) {
  ledger::Totals sums = reader.usage().sums;
  sums += reader.corrections().sums;
  std::string text = Plural(reader.usage().count + reader.corrections().count, "entry", "entries");
  if (reader.corrections().count > 0)
    text += ", of which " + std::to_string(reader.corrections().count) + " correct earlier periods";
  text += "; " + ledger::WideText(sums.time_ms, 3) + " GPU s, " + ledger::WideText(sums.energy_uj, 6) + " J";
  if (sums.priced_ms != 0) text += ", " + ledger::WideText(sums.cost_allocation_pico, 12) + " USD";
  return text;
}

// Compares what is left of the statement with the ledger's entries of its period.
Status Compare(StatementReader& reader, ledger::LedgerFile& ledger) {
  const StatementHeader& header = reader.header();
  const auto line = [&reader] { return "line " + std::to_string(reader.line()) + ": "; };
  if (header.ledger != ledger.id())
    return {Code::kDataLoss,
            line() + "it is a statement of the ledger " + header.ledger + ", and this is " + ledger.id()};
  const auto compare = [&](const ledger::HourEntry& booked) -> Status {
    ASSIGN_OR_RETURN(const auto entry, reader.Next());
    const std::string expected = EntryText(booked, header.since_unix);
    if (!entry) return {Code::kDataLoss, line() + "the ledger has one more entry: " + expected};
    const ledger::HourEntry view{entry->hour_unix, entry->for_hour_unix, &entry->account, entry->amounts};
    if (EntryText(view, header.since_unix) == expected) return Ok();
    return {Code::kDataLoss, line() + "the ledger has here: " + expected};
  };
  RETURN_IF_ERROR(ledger.ForEach(header.since_unix, header.until_unix, compare));
  ASSIGN_OR_RETURN(const auto more, reader.Next());
  if (!more) return Ok();
  return {Code::kDataLoss, line() + "the ledger has no such entry"};
}

}  // namespace

Result<int> MakeStatement(const CostOptions& options) {
  if (options.period.empty() && (options.since.empty() || options.until.empty()))
    return Status{Code::kInvalidArgument, "name the period: --period 2026-11, or --since and --until"};
  ASSIGN_OR_RETURN(const CostRange range, RangeOf(options, RealClock().Now().unix_ns));
  ASSIGN_OR_RETURN(const auto ledger, OpenLedger(options));
  if (!options.open) {
    RETURN_IF_ERROR(CheckOver(*ledger, range));
  }
  StatementHeader header{ledger->id(), ledger->host(), range.since_unix, range.until_unix, {}, options.open};
  if (!options.previous.empty()) {
    ASSIGN_OR_RETURN(const StatementHeader before, ReadPrevious(options.previous, header.previous));
    if (before.ledger != header.ledger)
      return Status{Code::kInvalidArgument,
                    options.previous + " is a statement of another ledger, " + before.ledger};
    if (before.until_unix != header.since_unix)
      return Status{Code::kInvalidArgument, options.previous + " ends at " + TimeText(before.until_unix) +
                                                ", and this period begins at " + TimeText(header.since_unix)};
  }
  ASSIGN_OR_RETURN(CostOutput output, CostOutput::Open(options.output));
  ledger::StatementWriter writer(header, [&output](std::string_view line) { return output.Write(line); });
  RETURN_IF_ERROR(writer.Begin());
  const auto add = [&writer](const ledger::HourEntry& entry) { return writer.Add(entry); };
  RETURN_IF_ERROR(ledger->ForEach(range.since_unix, range.until_unix, add));
  RETURN_IF_ERROR(writer.Finish());
  RETURN_IF_ERROR(output.Close());
  WriteNote(Plural(writer.entries(), "entry", "entries") +
            "; its head, to be kept elsewhere: " + writer.head());
  return 0;
}

Result<int> VerifyStatement(const CostOptions& options) {
  ASSIGN_OR_RETURN(const Input file, OpenInput(options.statement));
  StatementReader reader(file.get());
  RETURN_IF_ERROR(Named(options.statement, reader.Begin()));
  if (!options.against.empty()) {
    const auto ledger = ledger::LedgerFile::Open({.path = options.against, .read_only = true});
    if (!ledger) return Status{Code::kInvalidArgument, "--against: " + ledger.error().detail};
    RETURN_IF_ERROR(Named(options.statement, Compare(reader, **ledger)));
  } else {
    for (;;) {
      const auto entry = reader.Next();
      if (!entry) return Named(options.statement, entry.error());
      if (!*entry) break;
    }
  }
  const StatementHeader& header = reader.header();
  std::string out = options.statement + ": good, " + TimeText(header.since_unix) + " to " +
                    TimeText(header.until_unix) + (header.open ? ", made before its period was over" : "") +
                    "\n" + SummaryOf(reader) + "\n";
  if (!options.against.empty()) out += "its entries are those of " + options.against + "\n";
  out += "previous " + (header.previous.empty() ? "none" : header.previous) + "\nhead     " + reader.head() +
         "\n";
  return WriteOut(out) ? 0 : 1;
}

}  // namespace gpulens
