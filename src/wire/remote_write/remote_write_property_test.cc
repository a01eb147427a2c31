// Whatever sources do, a receiver that takes each sample as it comes has, after every tick, exactly the
// series and values of that tick.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <ostream>

#include "wire/exposition/naming_testing.h"
#include "wire/json/json_testing.h"
#include "wire/remote_write/remote_write.h"
#include "wire/remote_write/remote_write_series.h"
#include "wire/remote_write/remote_write_testing.h"

namespace gpulens {
namespace {

using json_testing::Gpu;
using json_testing::MakeSnapshot;
using json_testing::TestSource;
using remote_write_testing::Reader;
using wire_testing::NameVerbatim;

constexpr MetricDesc kWatts{.name = "power", .help = "Watts."};
constexpr MetricDesc kJoules{.name = "energy_total", .kind = Kind::kCounter};
constexpr int64_t kGpus = 6;

// A receiver that keeps the last sample of each series, in the order of time.
struct Receiver {
  std::map<std::string, remote_write_testing::Sample> known;

  void Take(std::string_view request, RemoteWriteVersion version) {
    for (const auto& series : Reader::Read(request, version).series) {
      const remote_write_testing::Sample& sample = series.samples.at(0);
      auto [at, added] = known.emplace(series.Name(), sample);
      if (added) continue;
      // A request that was not taken as a whole is sent again.
      const bool again = sample.ms == at->second.ms &&
                         std::bit_cast<uint64_t>(sample.value) == std::bit_cast<uint64_t>(at->second.value);
      RC_ASSERT(again || sample.ms > at->second.ms);
      at->second = sample;
    }
  }
};

struct World {
  TestSource native{"nvidia"}, scrape{"scrape/x"};
  std::map<std::pair<const MetricDesc*, int64_t>, Series> declared[2];

  TestSource& Of(int which) { return which == 0 ? native : scrape; }
  // One run in which some series come, some go and some are read.
  void Run(int which, Instant now) {
    TestSource& source = Of(which);
    source.writer.Begin(now);
    for (const MetricDesc* desc : {&kWatts, &kJoules}) {
      for (int64_t gpu = 0; gpu < kGpus; ++gpu) {
        auto at = declared[which].find({desc, gpu});
        const int act = *rc::gen::inRange(0, 10);
        if (at == declared[which].end()) {
          if (act > 1) continue;
          const Series made = source.table.Declare(*desc, Gpu(gpu));
          at = declared[which].emplace(std::pair(desc, gpu), made).first;
        } else if (act == 0) {
          source.table.Retire(at->second);
          declared[which].erase(at);
          continue;
        }
        if (act == 1) source.writer.Clear(at->second);
        else if (act > 3) source.writer.Set(at->second, *rc::gen::inRange(0, 100));
      }
    }
  }
};

struct Reading {
  double value = 0;
  int64_t ms = 0;
};

// The readings of a tick: of equal series the native one, whether it has a value or not.
std::map<std::string, Reading> Expected(const std::vector<SnapshotEntry>& frames) {
  std::map<std::string, Reading> out;
  std::set<std::string> seen;
  for (Precedence precedence : {Precedence::kNative, Precedence::kPassThrough}) {
    for (const SnapshotEntry& entry : frames) {
      if (entry.precedence != precedence) continue;
      const Frame& frame = *entry.frame;
      for (uint32_t slot = 0; slot < frame.layout->slots(); ++slot) {
        const SeriesInfo& info = (*frame.layout)[slot];
        if (!info.desc) continue;
        const std::string name =
            std::string(info.desc->name) + "{gpu_index=\"" + info.attributes.Text("gpu.index") + "\"}";
        if (!seen.insert(name).second || frame.quality[slot] == Quality::kAbsent) continue;
        const int64_t age = frame.quality[slot] == Quality::kStale ? frame.AgeMs(slot) : 0;
        out[name] = {frame.cells[info.first_cell].d, remote_write::MsOf(frame.read_at.unix_ns) - age};
      }
    }
  }
  return out;
}

TEST(RemoteWriteProperty, AReceiverHasTheReadingsOfTheTick) {
  EXPECT_TRUE(rc::check("a receiver has the readings of the tick", [] {
    RemoteWriteVersion version = *rc::gen::element(RemoteWriteVersion::k1, RemoteWriteVersion::k2);
    RemoteWrite::Options options;
    options.version = version;
    options.max_samples = static_cast<size_t>(*rc::gen::inRange(1, 8));
    options.max_bytes = static_cast<size_t>(*rc::gen::element(100, 100'000));
    RemoteWrite writer{SeriesNamer(&NameVerbatim), options};
    World world;
    Receiver receiver, older;
    Instant now = ManualClock().Now();
    std::optional<SnapshotEntry> latest[2];
    const int ticks = *rc::gen::inRange(1, 25);
    // Two sources of one series, or a receiver that breaks off.
    const bool breaks_off = *rc::gen::arbitrary<bool>();
    for (int tick = 0; tick < ticks; ++tick) {
      now = now + std::chrono::milliseconds(*rc::gen::inRange(10, 6000));
      std::vector<SnapshotEntry> frames;
      for (int which : {1, 0}) {
        const int act = *rc::gen::inRange(0, 6);
        if (act > 1 && !(which == 1 && breaks_off)) {
          world.Run(which, now);
          latest[which] = world.Of(which).Entry(which == 0 ? Precedence::kNative : Precedence::kPassThrough);
        } else if (act == 0) {
          latest[which].reset();  // it is gone for now
        }
        if (latest[which]) frames.push_back(*latest[which]);
      }
      now = now + std::chrono::milliseconds(3);
      if (*rc::gen::inRange(0, 12) == 0) {
        version = version == RemoteWriteVersion::k1 ? RemoteWriteVersion::k2 : RemoteWriteVersion::k1;
        writer.SetVersion(version);
      }
      auto snapshot = MakeSnapshot(1, now, frames);
      int left = *rc::gen::inRange(0, 4);  // requests until the receiver has had enough
      const bool torn = breaks_off && *rc::gen::inRange(0, 4) == 0;
      std::string downgraded;
      auto take = [&](std::string_view request, uint32_t) -> Status {
        if (torn && left-- == 0) return {Code::kExhausted, "full"};
        RC_LOG() << "tick " << tick << " " << remote_write_testing::TextOf(Reader::Read(request, version))
                 << '\n';
        receiver.Take(request, version);
        if (version == RemoteWriteVersion::k2) {
          RC_ASSERT(ToRemoteWrite1(request, downgraded));
          older.Take(downgraded, RemoteWriteVersion::k1);
        } else {
          older.Take(request, version);
        }
        return {};
      };
      if (!writer.Encode(*snapshot, take)) continue;
      writer.Commit();
      const std::map<std::string, Reading> expected = Expected(frames);
      for (const auto& [name, sample] : receiver.known) {
        const auto at = expected.find(name);
        // A reading from before the last sample of its series comes too late; times come out up to one
        // millisecond apart. After a break so does one from before an end that may have arrived.
        const bool late = at != expected.end() && (breaks_off || at->second.ms <= sample.ms + 1);
        if (remote_write::IsStaleMarker(sample.value)) {
          RC_ASSERT(at == expected.end() || late);
        } else {
          RC_ASSERT(at != expected.end());
          RC_ASSERT(at->second.value == sample.value || late);
        }
        RC_ASSERT(older.known[name].ms == sample.ms);
      }
      for (const auto& [name, value] : expected) RC_ASSERT(breaks_off || receiver.known.contains(name));
    }
  }));
}

}  // namespace
}  // namespace gpulens
