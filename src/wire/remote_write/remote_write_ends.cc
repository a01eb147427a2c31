// Series that end: when, and who goes on with them.
#include <algorithm>
#include <unordered_map>

#include "base/result.h"
#include "wire/remote_write/remote_write.h"

namespace gpulens {

using namespace remote_write;

// What was known of a source's lines before its texts changed, to those that are the same series now.
Status RemoteWrite::Carry(const Reported& from, const Layouts& to, Source& source, Instant now) {
  if (!from.exemplars.empty()) source.next.exemplars.resize(to->lines.size());
  symbols_.Add(*from.text);
  std::unordered_map<std::string, uint32_t> places;
  for (uint32_t l = 0; l < to->lines.size(); ++l) places.emplace(KeyOf(*to, to->lines[l]), l);
  const size_t first = owed_.size();
  for (uint32_t l = 0; l < from.lines.size(); ++l) {
    const std::string key = KeyOf(*from.text, from.text->lines[l]);
    auto at = places.find(key);
    if (at != places.end()) {
      source.base[at->second] = from.lines[l];
      if (l < from.exemplars.size()) source.next.exemplars[at->second] = from.exemplars[l];
    } else if (from.lines[l].shown) {
      owed_.push_back({from.text, l, from.lines[l]});
    }
  }
  for (size_t i = first; i < owed_.size(); ++i) RETURN_IF_ERROR(ReportOwed(owed_[i], now));
  return Ok();
}

// Ends it, unless another frame has the series: then what that one says of it is waited for.
Status RemoteWrite::ReportOwed(Owed& end, Instant now) {
  const RemoteWriteLine& line = end.text->lines[end.line];
  symbols_.Add(*end.text);
  if (!ReportedElsewhere(KeyOf(*end.text, line))) return PutEnd(*end.text, line, end.mark, now);
  handed_.push_back(end);
  return Ok();
}

// What another frame has and has no value of has ended, too.
Status RemoteWrite::SettleHanded(const Snapshot& snapshot) {
  if (handed_.empty()) return Ok();
  std::unordered_map<std::string, Mark*> holders;
  for (size_t i = 0; i < plan_.size(); ++i) {
    Reported& told = sources_.find(snapshot.frames[i].source)->second.next;
    for (size_t l = 0; l < told.lines.size(); ++l) {
      if (!plan_[i].IsDropped(l)) holders.emplace(KeyOf(*told.text, told.text->lines[l]), &told.lines[l]);
    }
  }
  for (Owed& end : handed_) {
    const RemoteWriteLine& line = end.text->lines[end.line];
    auto at = holders.find(KeyOf(*end.text, line));
    if (at != holders.end() && at->second->shown) continue;
    RETURN_IF_ERROR(PutEnd(*end.text, line, end.mark, snapshot.closed_at));
    if (at != holders.end()) *at->second = end.mark;
  }
  return Ok();
}

Status RemoteWrite::ReportEnded(Reported& told, Instant now) {
  for (uint32_t l = 0; l < told.lines.size(); ++l) {
    if (!told.lines[l].shown) continue;
    Owed end{told.text, l, told.lines[l]};
    const Status status = ReportOwed(end, now);
    told.lines[l].unix_ms = end.mark.unix_ms;  // in case it is not committed
    RETURN_IF_ERROR(status);
  }
  return Ok();
}

// Behind what was told last, whatever the clock did since.
Status RemoteWrite::PutEnd(const RemoteWriteLayout& text, const RemoteWriteLine& line, Mark& mark,
                           Instant now) {
  Recall(text, line, mark);
  mark.unix_ms = std::max(mark.unix_ms + 1, MsOf(now.unix_ns));
  mark.boot_ms = MsOf(now.boot_ns);
  mark.shown = false;
  Remember(text, line, mark);
  SetSample(data_, StaleMarker(), mark.unix_ms, 0);
  request_.AppendSeries(text, line, data_);
  return Fits() ? Ok() : Hand();
}

namespace {

// Longer than any collector needs to come back.
constexpr int64_t kRememberedMs = 10 * 60 * 1000;
constexpr size_t kMostRemembered = 100'000;

std::string NameOf(const RemoteWriteLayout& text, const RemoteWriteLine& line) {
  std::string name;
  for (uint32_t i = line.first_ref; i < line.first_ref + line.refs; ++i) {
    name += text.Symbol(text.refs[i]);
    name += '\0';
  }
  return name;
}

}  // namespace

void RemoteWrite::Remember(const RemoteWriteLayout& text, const RemoteWriteLine& line, const Mark& mark) {
  if (former_.size() >= kMostRemembered) return;
  Mark& known = former_[NameOf(text, line)];
  known = {std::max(known.boot_ms, mark.boot_ms), std::max(known.unix_ms, mark.unix_ms), false};
}

// Another source may go on with a series, or begin it again, with a reading from before its end: a receiver
// refuses a whole request for that.
bool RemoteWrite::Recall(const RemoteWriteLayout& text, const RemoteWriteLine& line, Mark& mark) const {
  if (former_.empty() && leaving_.empty()) return false;
  bool found = false;
  const std::string name = NameOf(text, line);
  for (const auto* marks : {&former_, &leaving_}) {
    auto at = marks->find(name);
    if (at == marks->end()) continue;
    mark.boot_ms = std::max(mark.boot_ms, at->second.boot_ms);
    mark.unix_ms = std::max(mark.unix_ms, at->second.unix_ms);
    found = true;
  }
  return found;
}

// With a new plan, whoever gets a series is told before the one that had it, or behind: all must know by
// then.
void RemoteWrite::FindLeaving(const Snapshot& snapshot) {
  auto leave = [this](const Reported& told, size_t line) {
    const Mark& mark = told.lines[line];
    if (!mark.shown) return;
    Mark& known = leaving_[NameOf(*told.text, told.text->lines[line])];
    known = {std::max(known.boot_ms, mark.boot_ms), std::max(known.unix_ms, mark.unix_ms), false};
  };
  for (size_t i = 0; i < plan_.size(); ++i) {
    const Reported& told = sources_.find(snapshot.frames[i].source)->second.now;
    for (size_t l = 0; l < told.lines.size(); ++l) {
      if (told.text != plan_[i].text || plan_[i].IsDropped(l)) leave(told, l);
    }
  }
  for (const auto& [name, source] : sources_) {
    for (size_t l = 0; !source.touched && l < source.now.lines.size(); ++l) leave(source.now, l);
  }
}

void RemoteWrite::ForgetFormer(Instant now) {
  const int64_t oldest = MsOf(now.boot_ns) - kRememberedMs;
  std::erase_if(former_, [&](const auto& item) { return item.second.boot_ms < oldest; });
}

}  // namespace gpulens
