// Property: whatever happens to a log with several readers, in whatever order, each reader gets what was
// appended since it came, in order, once but for what was under way, and all that it does not get is counted.
// No reader changes what another gets.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <map>
#include <set>

#include "delivery/request_log_testing.h"

namespace gpulens {
namespace {

using namespace request_log_testing;

constexpr uint64_t kNoBound = 1 << 30;

// A reader and what is known of it. It goes on over the end of the process.
struct Known {
  std::string name;
  std::shared_ptr<LogReader> reader;
  uint64_t max_bytes = kNoBound;
  bool here = false;                       // the log knows it
  uint64_t since = 0;                      // the last number that is not for it
  uint64_t newest = 0;                     // the highest number that it was given
  std::set<uint64_t> done;                 // numbers, delivered or refused
  std::map<uint64_t, uint64_t> in_flight;  // ids and numbers, of those not done
  uint64_t gone_on = 0;                    // numbers up to here were given out since it last began again
  uint64_t lost = 0;                       // in logs of before
  uint64_t given_up = 0;
  bool may_lose = false;
};

class LogAndWhatIsKnown {
 public:
  enum Fault { kNone, kFullDisk, kBadDisk };
  explicit LogAndWhatIsKnown(Fault fault) : fault_(fault) {
    options_.folder = folder_.path();
    options_.owner = "a";
    options_.segment_bytes = 4096;
    options_.max_bytes = kNoBound;
    options_.memory_bytes = 30'000;
    options_.sync = SyncPolicy::kNone;
    for (const char* name : {"a", "b", "c/d"}) known_.emplace_back().name = name;
    Open();
    Attach(known_[0]);
  }

  void Step() {
    Known& one = known_[*rc::gen::inRange<size_t>(0, known_.size())];
    switch (*rc::gen::inRange(0, 16)) {
      case 0: Reopen(); break;
      case 1: Detach(one); break;
      case 2:
      case 3: Attach(one); break;
      case 4: Rewind(one); break;
      case 5: Forget(one); break;
      case 6:
        Bound(one, *rc::gen::elementOf(std::vector<uint64_t>{kNoBound, kNoBound, 12'000, 40'000}));
        break;
      case 7:
        if (fault_ == kFullDisk) FullDisk();
        break;
      case 8:
      case 9: Begin(one, *rc::gen::inRange<size_t>(1, 70)); break;
      case 10:
      case 11: End(one); break;
      default: Append(*rc::gen::element<size_t>(0, 10, 300, 1500, 2500, 6000));
    }
    Check();
  }
  // All that is left is taken: then all is known.
  void Finish() {
    for (Known& one : known_) {
      if (!one.here) continue;
      Attach(one);
      Rewind(one);
      while (Begin(one, 1)) EndAll(one);
      RC_ASSERT(one.reader->stats().records == 0u);
      const uint64_t lost = one.lost + AllLost(*one.reader);
      RC_LOG() << one.name << " since " << one.since << ": " << one.done.size() << " done, " << lost
               << " lost, of " << appended_ << "\n";
      const uint64_t all = one.done.size() - one.given_up + lost;
      RC_ASSERT(all <= appended_ - one.since);
      // Records cut from the end of the last file leave no gap in the numbers.
      if (!last_damaged_) RC_ASSERT(all == appended_ - one.since);
      if (!one.may_lose) RC_ASSERT(lost == one.given_up);
    }
    if (log_->attached() != 0) RC_ASSERT(folder_.Segments().size() <= 1u);
  }

 private:
  void Open() {
    log_ = RequestLog::Open(options_, clock_);
    RC_ASSERT(log_->disk().ok());
  }
  void Attach(Known& one) {
    if (one.reader) return;
    RC_LOG() << "attach " << one.name << "\n";
    one.reader = log_->Attach(one.name, {one.max_bytes, {}}, {});
    RC_ASSERT(one.reader != nullptr);
    if (one.here) return;
    // The owner, too, is new where its position was removed with it.
    one.here = true;
    one.since = appended_;
    one.newest = one.gone_on = appended_;
  }
  void Detach(Known& one) {
    if (!one.reader) return;
    RC_LOG() << "detach " << one.name << "\n";
    one.reader.reset();
    BeginAgain(one);
    // Nothing but the disk keeps what is in memory for one that is away.
    one.may_lose |= in_memory_;
  }
  void Forget(Known& one) {
    if (*rc::gen::inRange(0, 3) != 0) return;  // else there is seldom one
    RC_LOG() << "forget " << one.name << "\n";
    one.reader.reset();
    log_->Forget(one.name);
    Known fresh;
    fresh.name = one.name;
    fresh.max_bytes = one.max_bytes;
    fresh.may_lose = one.max_bytes != kNoBound;
    one = std::move(fresh);
  }
  void Reopen() {
    RC_LOG() << "reopen\n";
    const std::vector<bool> attached = {known_[0].reader != nullptr, known_[1].reader != nullptr,
                                        known_[2].reader != nullptr};
    for (Known& one : known_)
      if (one.here) Attach(one);  // only to query
    // What is in memory would go with the log.
    for (Known& one : known_) {
      if (!in_memory_ || !one.here) continue;
      EndAll(one);
      while (Begin(one, 64)) EndAll(one);
    }
    in_memory_ = false;
    for (Known& one : known_) {
      if (!one.here) continue;
      one.reader->Rewind();  // what was dropped on its way is lost now
      one.lost += AllLost(*one.reader);
    }
    for (Known& one : known_) {
      one.reader.reset();
      BeginAgain(one);
    }
    log_.reset();
    if (fault_ == kBadDisk && *rc::gen::inRange(0, 3) == 0) Damage();
    Open();
    for (size_t i = 0; i < known_.size(); ++i) {
      RC_ASSERT(log_->Knows(known_[i].name) == known_[i].here);
      if (attached[i]) Attach(known_[i]);
      else if (known_[i].max_bytes != kNoBound) Attach(known_[i]), Detach(known_[i]);
    }
  }
  void Rewind(Known& one) {
    if (!one.reader) return;
    RC_LOG() << "rewind " << one.name << "\n";
    one.reader->Rewind();
    BeginAgain(one);
  }
  static void BeginAgain(Known& one) {
    one.in_flight.clear();
    one.gone_on = one.since;
  }
  void Bound(Known& one, uint64_t max_bytes) {
    RC_LOG() << "bound " << one.name << " " << max_bytes << "\n";
    one.max_bytes = max_bytes;
    one.may_lose |= max_bytes != kNoBound;
    if (one.reader) one.reader->SetBounds({max_bytes, {}});
    else if (one.here) Attach(one), Detach(one);
  }
  void Append(size_t size) {
    const bool any = std::ranges::any_of(known_, [](const Known& one) { return !!one.reader; });
    const auto kept = log_->Append(Numbered(appended_ + 1, size), 1);
    RC_ASSERT(kept.ok() == any);
    if (!kept) return;
    ++appended_;
    RC_LOG() << "append " << appended_ << " of " << size << " " << static_cast<int>(*kept) << "\n";
    if (*kept == RequestLog::Kept::kOnDisk) return;
    in_memory_ = true;
    for (Known& one : known_)
      if (one.here && !one.reader) one.may_lose = true;
  }
  // A segment; never a position: it would be no damage but a repetition.
  void Damage() {
    const auto segments = folder_.Segments();
    if (segments.empty()) return;
    const auto which = *rc::gen::inRange<size_t>(0, segments.size());
    std::string bytes = Bytes(segments[which]);
    const auto at = *rc::gen::inRange<size_t>(0, bytes.size());
    switch (*rc::gen::inRange(0, 4)) {
      case 0: std::filesystem::remove(segments[which]); break;
      case 1: bytes.resize(at); break;
      case 2: bytes.replace(at, 100, std::string(std::min<size_t>(100, bytes.size() - at), '\0')); break;
      default: bytes[at] = static_cast<char>(bytes[at] ^ 0x10);
    }
    if (std::filesystem::exists(segments[which])) Change(segments[which], bytes);
    RC_LOG() << "damage " << segments[which] << " at " << at << "\n";
    last_damaged_ |= which + 1 == segments.size();
    for (Known& one : known_) one.may_lose = true;
  }
  // Some appends while nothing can be written.
  void FullDisk() {
    FileSizeLimit limit(0);
    for (int count = *rc::gen::inRange(1, 6); count > 0; --count) {
      if (*rc::gen::inRange(0, 2) == 0) Append(1000);
      else End(known_[*rc::gen::inRange<size_t>(0, known_.size())]);
    }
  }
  // False when there is nothing.
  bool Begin(Known& one, size_t count) {
    if (!one.reader) return false;
    const auto records = request_log_testing::Begin(*one.reader, count);
    for (const LogRecord& record : records) {
      const uint64_t number = NumberOf(record.bytes).value_or(0);
      RC_ASSERT(number > one.gone_on);  // also: it was appended, since the reader came
      RC_ASSERT(number <= appended_);
      RC_ASSERT(one.done.count(number) == 0u);
      one.gone_on = number;
      one.newest = std::max(one.newest, number);
      one.in_flight.emplace(record.id, number);
      RC_LOG() << one.name << " got " << number << "\n";
    }
    return !records.empty();
  }
  void End(Known& one) {
    if (!one.reader) return;
    for (int count = *rc::gen::inRange(1, 20); count > 0 && !one.in_flight.empty(); --count) {
      auto at = one.in_flight.begin();
      std::advance(at, *rc::gen::inRange<size_t>(0, one.in_flight.size()));
      EndOne(one, at, *rc::gen::inRange(0, 8));
    }
  }
  void EndAll(Known& one) {
    while (!one.in_flight.empty()) EndOne(one, one.in_flight.begin(), 2);
  }
  void EndOne(Known& one, std::map<uint64_t, uint64_t>::iterator at, int how) {
    RC_LOG() << one.name << " ends " << at->second << " by " << how << "\n";
    if (how == 0) one.reader->GiveUp(at->first);
    else if (how == 1) one.reader->Skip(at->first);
    else one.reader->Done(at->first, true);
    one.given_up += how == 0;
    one.done.insert(at->second);
    one.in_flight.erase(at);
  }
  void Check() {
    log_->Maintain();
    uint64_t held = 0, files = 0;
    for (const std::string& path : folder_.Segments()) files += std::filesystem::file_size(path);
    for (const Known& one : known_) {
      if (one.here && !one.reader) held = kNoBound;
      if (!one.reader) continue;
      const LogReader::Stats stats = one.reader->stats();
      held = std::max(held, stats.held_bytes);
      // A record alone may be larger.
      RC_ASSERT(stats.held_bytes <= std::max<uint64_t>(one.max_bytes, 6'500));
      RC_ASSERT(stats.records <= appended_ - one.since);
      RC_ASSERT(stats.records >= one.in_flight.size() || one.may_lose);
      RC_ASSERT(AllLost(*one.reader) + one.lost <= appended_ - one.since);
    }
    // A log without readers is dropped as a whole.
    if (!log_->attached() && log_->readers().empty()) return;
    // The larger backlog, not the sum. A segment that grows is kept while it is small.
    RC_ASSERT(files <= held + options_.segment_bytes);
  }

  const Fault fault_;
  TestFolder folder_;
  ManualClock clock_;
  RequestLogOptions options_;
  std::shared_ptr<RequestLog> log_;
  std::vector<Known> known_;
  uint64_t appended_ = 0;
  bool in_memory_ = false, last_damaged_ = false;
};

void CheckLog(LogAndWhatIsKnown::Fault fault) {
  LogAndWhatIsKnown world(fault);
  for (int steps = *rc::gen::inRange(1, 100); steps > 0; --steps) world.Step();
  world.Finish();
}

TEST(RequestLogReadersProperty, EachGetsAllInOrder) {
  EXPECT_TRUE(rc::check([] { CheckLog(LogAndWhatIsKnown::kNone); }));
}
TEST(RequestLogReadersProperty, EachGetsAllInOrderThoughTheDiskIsFullAtTimes) {
  EXPECT_TRUE(rc::check([] { CheckLog(LogAndWhatIsKnown::kFullDisk); }));
}
TEST(RequestLogReadersProperty, OnABadDiskAllIsCountedForEach) {
  EXPECT_TRUE(rc::check([] { CheckLog(LogAndWhatIsKnown::kBadDisk); }));
}

}  // namespace
}  // namespace gpulens
