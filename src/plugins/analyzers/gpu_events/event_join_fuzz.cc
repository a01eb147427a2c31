// XIDs as NVML and as any kernel log report them, through the parsers, the join, the fold and what follows
// from them: no event twice, none lost, and bounded. Input: lines. "N CODE" is a report of NVML, "T MS" lets
// time pass; others are of the kernel log.
// Fuzz inputs: 3'000
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/parse.h"
#include "plugins/analyzers/gpu_events/event_steps.h"
#include "sources/kernel_log/parse/log_line.h"
#include "sources/kernel_log/parse/notice.h"

namespace {

using namespace gpulens;

constexpr std::string_view kBus = "0000:3b:00.0";

// What leaves the join: each event once. Its attribute "n" is its number.
struct Outcome {
  std::set<int64_t> seen;
  std::vector<Event> ready;

  void Take(EventJoin& join, Instant now) {
    ready.clear();
    join.TakeReady(now, ready);
    for (const Event& event : ready) {
      const AttributeSet::Value value = event.attributes.Find("n", int64_t{-1});
      CHECK(std::get<int64_t>(value) >= 0 && seen.insert(std::get<int64_t>(value)).second);
    }
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  Instant now{.boot_ns = 100'000'000'000, .unix_ns = 1'795'651'200'000'000'000};
  kernel_log::NoticeReader notices;
  EventJoin join;
  EventFold fold;
  EventFollow follow;
  Outcome out;
  std::string scratch;
  int64_t added = 0, fresh = 0, joined = 0, passed = 0, repeats = 0, derived = 0;
  uint64_t folded = 0;
  std::vector<Event> folds;
  const auto take_folds = [&] {
    folds.clear();
    fold.TakeReady(now, folds);
    for (const Event& event : folds) {
      const AttributeSet::Value value = event.attributes.Find("event.repeats", int64_t{1});
      CHECK(std::get<int64_t>(value) >= 1);
      folded += static_cast<uint64_t>(std::get<int64_t>(value));
    }
  };
  for (int lines = 0; !rest.empty() && lines < 4096; ++lines) {
    std::string_view line = TakeUntil(rest, '\n');
    if (line.starts_with("T ")) {
      now = now + std::chrono::milliseconds(ParseInt<uint16_t>(line.substr(2)).value_or(0));
      out.Take(join, now);
      take_folds();
      continue;
    }
    Event event;
    event.at = now;
    std::string what, device, body;
    int64_t code = 0;
    const bool nvml = line.starts_with("N ");
    if (nvml) {
      code = ParseInt<uint16_t>(line.substr(2)).value_or(0);
      event.name = kEventGpuXid.name, device = kBus;
    } else {
      kernel_log::LogLine parsed;
      if (!kernel_log::ParseLogLine(line, scratch, parsed)) parsed.text = line;
      const auto notice = notices.Read(parsed.text);
      if (!notice) continue;
      if (notice->kind != kernel_log::NoticeKind::kXid) event.name = kEventGpuDriverFault.name;
      else event.name = kEventGpuXid.name;
      code = notice->code.value_or(0);
      device = notice->pci ? notice->pci->ToString() : "";
      body = kernel_log::CleanText(parsed.text);
    }
    event.body = body;
    event.attributes = AttributeSet(
        {{"event.source", std::string_view(nvml ? "nvml" : "kmsg")}, {"gpu.xid.code", code}, {"n", added++}});
    AddFacts(event);
    static_cast<void>(LogText(event));
    // The fold sees equal events alike: its number is no part of them.
    Event plain = event;
    plain.attributes = AttributeSet({{"gpu.xid.code", code}});
    if (fold.Hold(plain, now)) ++repeats;
    else ++passed;
    if (auto more = EventFollow::DerivedFrom(event)) {
      ++derived;
      CHECK(!EventFollow::DerivedFrom(*more));  // no chain without end
      if (!follow.Repeats(*more, device, true)) CHECK(follow.Repeats(*more, device, true));
    }
    EventJoin::Key key{std::string(event.name) + " " + std::to_string(code), device};
    const auto outcome = join.Add(std::move(key), std::move(event), nvml, now);
    ++(outcome == EventJoin::Outcome::kNew ? fresh : joined);
  }
  // All that was new comes out, in the end and once; what joined does not.
  now = now + std::chrono::minutes(2);
  out.Take(join, now);
  now = now + std::chrono::minutes(2);
  out.Take(join, now);
  CHECK(fresh + joined == added);
  CHECK(static_cast<int64_t>(out.seen.size()) == fresh);
  take_folds();
  now = now + std::chrono::minutes(2);
  take_folds();
  CHECK(folded == static_cast<uint64_t>(repeats));
  CHECK(passed + repeats == added && derived <= added);
  return 0;
}
