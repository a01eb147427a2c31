// Roll-ups against a model that keeps every reading: random arrivals, gaps, resets, joining and leaving
// members.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "pipeline/rollup/rollup_testing.h"

namespace gpulens {
namespace {

using namespace rollup_testing;
using enum RollupFunction;

constexpr int64_t kInterval = 15, kTtl = 20;
const std::vector<RollupFunction> kFunctions = {kSum, kAvg, kMin, kMax, kCount, kIncrease};

// A series, and what it was read in the current interval.
struct Member {
  Series series;
  std::string pod;
  bool counter = false;
  double share = 0.6;  // of the ticks at which it is read
  int64_t last_second = -1000;
  double last = 0;
  std::vector<double> readings;  // of a gauge
  double increase = 0;           // of a counter
  bool based = false, has_increase = false;
  size_t times = 0;
};

// What the results of one group must be.
struct Expected {
  uint32_t count = 0;
  double means = 0, min = 1e300, max = -1e300, increase = 0;
  bool has_increase = false, stale = false;
};

class Model {
 public:
  explicit Model(uint32_t seed) : random_(seed) {
    RollupRule rule = RuleOf(kFunctions);
    rule.interval = std::chrono::seconds(kInterval);
    rollup_ = std::make_unique<Rollup>(std::vector{rule});
    for (const char* pod : {"a", "b", "c"}) {
      Join(pod, false);  // one of each stays, so that its group does
      Join(pod, true);
    }
    stay_ = members_.size();
  }

  void Run(int64_t ticks) {
    for (int64_t second = 0; second < ticks; ++second) {
      if (second != 0 && second % kInterval == 0) EndInterval(second - 1);
      Change();
      source_.writer.Begin(At(second));
      for (Member& member : members_) {
        if (Chance(member.share)) Read(member, second);
      }
      source_.frame = source_.writer.Finish();
      auto out = rollup_->Apply(SnapshotOf({&source_}, At(second)));
      if (second != 0 && second % kInterval == 0) Compare(out);
    }
  }
  uint64_t compared() const { return compared_; }
  uint64_t stale() const { return stale_; }

 private:
  bool Chance(double share) { return std::uniform_real_distribution<>(0, 1)(random_) < share; }

  void Join(std::string pod, bool counter) {
    Member member;
    member.series = source_.Declare(counter ? kEnergy : kPower, pod, next_++);
    member.pod = std::move(pod);
    member.counter = counter;
    if (Chance(0.3)) member.share = 0.06;
    members_.push_back(std::move(member));
  }

  void Change() {
    if (Chance(0.1)) Join(std::string(1, "abc"[random_() % 3]), Chance(0.5));
    if (members_.size() <= stay_ || !Chance(0.1)) return;
    const size_t leaves = stay_ + random_() % (members_.size() - stay_);
    source_.table.Retire(members_[leaves].series);
    left_.push_back(members_[leaves]);
    members_.erase(members_.begin() + static_cast<std::ptrdiff_t>(leaves));
  }

  void Read(Member& member, int64_t second) {
    ++member.times;
    member.last_second = second;
    if (!member.counter) {
      member.readings.push_back(std::uniform_int_distribution<>(0, 500)(random_));
      source_.writer.Set(member.series, member.readings.back());
      return;
    }
    const bool reset = Chance(0.05);
    const double now =
        reset ? std::floor(member.last / 2) : member.last + static_cast<double>(random_() % 100);
    source_.writer.Set(member.series, now);
    if (member.based) {
      member.increase += now < member.last ? now : now - member.last;
      member.has_increase = true;
    }
    member.based = true;
    member.last = now;
  }

  // `last`: of the interval's ticks.
  void EndInterval(int64_t last) {
    expected_.clear();
    auto add = [&](Member& member, bool lives) {
      Expected& group = expected_[{member.counter, member.pod}];
      if (member.times == 0) {
        group.stale = group.stale || (lives && last - member.last_second <= kTtl);
      } else {
        ++group.count;
        double sum = 0;
        for (double reading : member.readings) {
          sum += reading;
          group.min = std::min(group.min, reading);
          group.max = std::max(group.max, reading);
        }
        if (!member.counter) group.means += sum / static_cast<double>(member.readings.size());
        group.increase += member.increase;
        group.has_increase = group.has_increase || member.has_increase;
        totals_[member.pod] += member.increase;
      }
      member.times = 0;
      member.readings.clear();
      member.increase = 0;
      member.has_increase = false;
    };
    for (Member& member : members_) add(member, true);
    for (Member& member : left_) add(member, false);
    left_.clear();
  }

  void Compare(const Ref<const Snapshot>& out) {
    for (const auto& [key, group] : expected_) {
      if (group.count == 0) continue;
      const auto& [counter, pod] = key;
      const std::string name(counter ? kEnergy.name : kPower.name);
      const auto sum = Find(out, name + ".sum", AttributeSet({{"k8s.pod.name", std::string_view(pod)}}));
      ASSERT_TRUE(sum) << name << pod;
      EXPECT_EQ(sum->quality, group.stale ? Quality::kStale : Quality::kOk);
      EXPECT_EQ(ValueOf(out, name + ".count", pod), group.count);
      ++compared_;
      stale_ += group.stale;
      if (counter) {
        EXPECT_DOUBLE_EQ(sum->value, totals_[pod]);
        EXPECT_GE(sum->value, shown_[pod]) << "a sum of counters fell";
        shown_[pod] = sum->value;
        EXPECT_EQ(ValueOf(out, name + ".increase", pod),
                  group.has_increase ? std::optional(group.increase) : std::nullopt);
        continue;
      }
      EXPECT_NEAR(sum->value, group.means, 1e-9 * group.means);
      EXPECT_NEAR(*ValueOf(out, name + ".avg", pod), group.means / group.count, 1e-9 * group.means);
      EXPECT_EQ(ValueOf(out, name + ".min", pod), group.min);
      EXPECT_EQ(ValueOf(out, name + ".max", pod), group.max);
    }
  }

  std::mt19937 random_;
  TestSource source_{"source", std::chrono::seconds(kTtl)};
  std::unique_ptr<Rollup> rollup_;
  std::vector<Member> members_, left_;
  size_t stay_ = 0;
  int64_t next_ = 0;
  std::map<std::pair<bool, std::string>, Expected> expected_;
  std::map<std::string, double> totals_, shown_;
  uint64_t compared_ = 0, stale_ = 0;
};

TEST(RollupProperty, ResultsAreThoseOfTheModel) {
  uint64_t compared = 0, stale = 0;
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Model model(seed);
    model.Run(600);
    compared += model.compared();
    stale += model.stale();
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
  EXPECT_GT(compared, 4000u);
  EXPECT_GT(stale, 10u) << "that path is taken";
}

}  // namespace
}  // namespace gpulens
