#include "sources/hl_smi/hl_smi_source.h"

#include <algorithm>

#include "base/process.h"
#include "base/result.h"

namespace gpulens::hl_smi {
namespace {

// All that hl-smi is known to tell, and what every version of it tells.
constexpr std::string_view kFullFields =
    "index,module_id,uuid,name,serial,bus_id,driver_version,memory.total,memory.used,memory.free,power.draw,"
    "power.max,temperature.aip,utilization.aip,ecc.errors.uncorrected.volatile.total,"
    "ecc.errors.uncorrected.aggregate.total,clocks.current.soc,clocks.limit.soc,clocks.limit.tpc";
constexpr std::string_view kLeastFields =
    "index,uuid,name,bus_id,driver_version,memory.total,memory.used,power.draw,temperature.aip,utilization."
    "aip";
constexpr std::string_view kRowFields = "bus_id,uuid,rows.replaced,rows.pending";
// A query that was refused is tried again after so many requests: hl-smi may have been replaced.
constexpr int kRefusedWait = 60;

std::vector<std::string> QueryArguments(std::string_view fields) {
  return {"-Q", std::string(fields), "-f", "csv"};
}

CardReading* Find(std::vector<CardReading>& cards, const Card& like) {
  for (CardReading& known : cards) {
    bool same_bus = !like.bus_id.empty() && known.card.bus_id == like.bus_id;
    bool same_uuid = !like.uuid.empty() && known.card.uuid == like.uuid;
    if (same_bus || same_uuid) return &known;
  }
  return nullptr;
}

}  // namespace

HlSmiSource::HlSmiSource(Options options, const Clock& clock)
    : options_(std::move(options)), clock_(clock), background_([this](Instant deadline) { Read(deadline); }) {
  full_.fields = kFullFields;
  rows_.fields = kRowFields;
  static_cast<void>(background_.Start());
}

HlSmiSource::~HlSmiSource() = default;

void HlSmiSource::Request(Instant deadline, std::function<void()> done) {
  background_.Request(deadline, std::move(done));
}

void HlSmiSource::Read(Instant deadline) {
  reading_.longest_call = {};
  ReapStuck();
  if (!stuck_.empty()) {
    reading_.status = {Code::kTimeout, "hl-smi (pid " + std::to_string(stuck_.front().pid()) +
                                           ") is stuck in the kernel; it is not started again"};
    return;
  }
  if (!ReadCards(deadline)) return;
  ReadRows(deadline);
  if (options_.ports) ReadPorts(deadline);
}

void HlSmiSource::ReapStuck() {
  std::erase_if(stuck_, [](ChildProcess& child) { return child.TryWait() || !child.running(); });
  reading_.stuck = stuck_.size();
}

Result<std::string> HlSmiSource::Call(std::vector<std::string> arguments, Instant deadline) {
  Instant begun = clock_.Now();
  Duration left = std::min(options_.call_timeout, deadline - begun);
  if (background_.stopping()) return Status{Code::kUnavailable, "the source ends"};
  if (left.count() <= 0) return Status{Code::kTimeout, "no time is left in this run"};
  if (!stuck_.empty()) return Status{Code::kTimeout, "hl-smi is stuck in the kernel"};
  RunResult run = RunBounded(
      {options_.program, std::move(arguments), left, kMostOutput, background_.stop_fd(), {}}, clock_);
  ++reading_.calls;
  reading_.calls_killed += run.status.code == Code::kTimeout || run.status.code == Code::kExhausted;
  reading_.longest_call = std::max(reading_.longest_call, clock_.Now() - begun);
  if (run.stuck.running()) stuck_.push_back(std::move(run.stuck));
  reading_.stuck = stuck_.size();
  if (run.status) return std::move(run.output);
  run.status.detail = options_.program + " " + run.status.detail;
  return std::move(run.status);
}

bool HlSmiSource::ReadCards(Instant deadline) {
  if (full_.refused && --full_.wait <= 0) full_.refused = false;
  auto ask = [&](std::string_view fields) -> Result<Cards> {
    ASSIGN_OR_RETURN(std::string text, Call(QueryArguments(fields), deadline));
    return ParseCards(text);
  };
  Result<Cards> cards = ask(full_.refused ? kLeastFields : std::string_view(full_.fields));
  bool unknown_field = !cards && (cards.error().code == Code::kIo || cards.error().code == Code::kDataLoss);
  if (unknown_field && !full_.refused) {
    Result<Cards> fewer = ask(kLeastFields);
    if (fewer) {
      full_.refused = true;
      full_.wait = kRefusedWait;
      cards = std::move(fewer);
    }
  }
  reading_.status = cards ? Ok() : cards.error();
  if (!cards) return false;
  reading_.at = clock_.Now();
  reading_.bad_rows = cards->bad_rows;
  reading_.bad_cells = cards->bad_cells;
  std::vector<CardReading> next;
  for (Card& card : cards->list) {
    CardReading* before = Find(reading_.cards, card);
    CardReading now;
    if (before) {
      now.ports = std::move(before->ports);
      now.ports_before = std::move(before->ports_before);
    }
    now.card = std::move(card);
    next.push_back(std::move(now));
  }
  reading_.cards = std::move(next);
  return true;
}

// Fields that only some versions know: asked for by themselves, so that a refusal costs nothing else.
void HlSmiSource::ReadRows(Instant deadline) {
  if (rows_.refused && --rows_.wait > 0) return;
  rows_.refused = false;
  auto text = Call(QueryArguments(rows_.fields), deadline);
  Result<Cards> cards = text ? ParseCards(*text) : Result<Cards>(text.error());
  if (!cards) {
    // A run that was too slow says nothing about what hl-smi knows.
    rows_.refused = cards.error().code == Code::kIo || cards.error().code == Code::kDataLoss;
    rows_.wait = kRefusedWait;
    return;
  }
  for (const Card& told : cards->list) {
    CardReading* known = Find(reading_.cards, told);
    if (!known) continue;
    known->card.rows_replaced = told.rows_replaced;
    known->card.rows_pending = told.rows_pending;
  }
}

void HlSmiSource::ReadPorts(Instant deadline) {
  auto read = [&](CardReading& card) {
    if (card.card.bus_id.empty()) return;
    auto text = Call({"-n", "stats", "-i", card.card.bus_id}, deadline);
    if (!text) return;
    std::vector<Port> ports = ParsePorts(*text);
    if (ports.empty()) return;
    card.ports_before = std::move(card.ports);
    card.ports = {std::move(ports), clock_.Now()};
  };
  bool first = false;
  for (CardReading& card : reading_.cards) {
    first = first || card.ports.ports.empty();
    read(card);
  }
  bool any = std::any_of(reading_.cards.begin(), reading_.cards.end(),
                         [](const CardReading& card) { return !card.ports.ports.empty(); });
  // A rate needs two readings: the first run takes both.
  if (!first || !any || (deadline - clock_.Now()) < options_.port_span * 2) return;
  background_.Pause(options_.port_span);
  for (CardReading& card : reading_.cards) {
    bool once = card.ports_before.ports.empty() && !card.ports.ports.empty();
    if (once && !background_.stopping()) read(card);
  }
}

}  // namespace gpulens::hl_smi
