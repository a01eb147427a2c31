// Property: whatever is pushed, popped, opened reworked and damaged in whatever order, what comes out is in
// order, was put in, is complete where nothing was damaged, and all is accounted for.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "delivery/request_log_testing.h"

namespace gpulens {
namespace {

using namespace request_log_testing;

// One queue and all that is known of it. Numbers of records ascend, so order is easily seen.
class QueueAndWhatIsKnown {
 public:
  explicit QueueAndWhatIsKnown(bool on_disk, uint64_t max_bytes) : on_disk_(on_disk) {
    if (on_disk) options_.folder = folder_.path();
    options_.segment_bytes = 4096;
    options_.max_bytes = max_bytes;
    options_.sync = SyncPolicy::kNone;
    Open();
  }

  void Push(size_t size) {
    Status status = queue_->Push(Numbered(++pushed_, size), 1);
    RC_ASSERT(status.ok());
    RC_ASSERT(queue_->stats().held_bytes <= options_.max_bytes);
  }
  void Pop(int count) {
    for (auto number : Take(*queue_, static_cast<size_t>(count))) {
      RC_ASSERT(number != 0u);  // never a record that was not pushed
      RC_ASSERT(number <= pushed_);
      RC_ASSERT(number > last_delivered_);
      last_delivered_ = number;
      delivered_ += 1;
    }
  }
  // Front alone changes nothing.
  void Look() {
    const LogRecord* first = queue_->Front();
    const uint64_t id = first ? first->id : 0;
    const std::string bytes = first ? first->bytes : "";
    const LogRecord* again = queue_->Front();
    RC_ASSERT((first != nullptr) == (again != nullptr));
    if (again) RC_ASSERT(again->id == id);
    if (again) RC_ASSERT(again->bytes == bytes);
  }
  void Reopen() {
    if (!on_disk_) return;
    Close();
    Open();
  }
  // Damages closed files. Never the position, which would only repeat records.
  void Damage() {
    if (!on_disk_) return;
    Close();
    auto segments = folder_.Segments();
    if (!segments.empty()) {
      size_t which = *rc::gen::inRange<size_t>(0, segments.size());
      DamageFile(segments[which]);
      damaged_ = true;
      last_damaged_ |= which + 1 == segments.size();
    }
    Open();
  }
  void Finish() {
    Pop(1'000'000);
    Close();
    uint64_t known = delivered_ + lost_;
    RC_LOG() << pushed_ << " pushed, " << delivered_ << " delivered, " << lost_ << " lost";
    RC_ASSERT(known <= pushed_);
    // Records cut from the end of the last file leave no gap in the numbers.
    if (!last_damaged_) RC_ASSERT(known == pushed_);
    if (!damaged_) RC_ASSERT(lost_damaged_ == 0u);
  }

 private:
  void Open() {
    auto queue = OneLog::Open(options_, clock_);
    RC_ASSERT(queue.ok());
    queue_ = *std::move(queue);
  }
  // Counts begin reworked with each run; what a run counted stays counted, because it moved the position on
  // or removed the segment.
  void Close() {
    (void)queue_->Front();  // whether one that was dropped on its way is lost is known only now
    lost_ += AllLost(*queue_);
    lost_damaged_ += Lost(*queue_, RecordDropReason::kDamaged);
    queue_.reset();
  }
  static void DamageFile(const std::string& path) {
    std::string bytes = Bytes(path);
    if (bytes.empty()) return;
    size_t at = *rc::gen::inRange<size_t>(0, bytes.size());
    switch (*rc::gen::inRange(0, 4)) {
      case 0: bytes[at] = static_cast<char>(bytes[at] ^ *rc::gen::inRange(1, 256)); break;
      case 1: bytes.resize(at); break;
      case 2: bytes.replace(at, 100, std::string(std::min<size_t>(100, bytes.size() - at), '\0')); break;
      default: {  // the beginning of the file once more, as a write that went astray
        size_t size = std::min(*rc::gen::inRange<size_t>(1, 200), bytes.size() - at);
        bytes.replace(at, size, std::string(bytes, 0, size));
      }
    }
    Change(path, bytes);
  }

  const bool on_disk_;
  TestFolder folder_;
  ManualClock clock_;
  OneLog::Options options_;
  std::unique_ptr<OneLog> queue_;
  uint64_t pushed_ = 0, delivered_ = 0, last_delivered_ = 0, lost_ = 0, lost_damaged_ = 0;
  bool damaged_ = false, last_damaged_ = false;
};

void CheckQueue(bool on_disk, bool damage) {
  QueueAndWhatIsKnown world(on_disk, *rc::gen::element<uint64_t>(20'000, 60'000, 1 << 20));
  for (int steps = *rc::gen::inRange(1, 60); steps > 0; --steps) {
    switch (*rc::gen::inRange(0, 10)) {
      case 0: world.Reopen(); break;
      case 1: world.Look(); break;
      case 2:
      case 3: world.Pop(*rc::gen::inRange(1, 8)); break;
      case 4:
        if (damage) world.Damage();
        break;
      default: world.Push(*rc::gen::element<size_t>(0, 10, 300, 1500, 2500, 9000));
    }
  }
  world.Finish();
}

TEST(OneLogProperty, InMemoryAllIsAccountedFor) {
  EXPECT_TRUE(rc::check([] { CheckQueue(false, false); }));
}
TEST(OneLogProperty, OnDiskAllIsAccountedFor) {
  EXPECT_TRUE(rc::check([] { CheckQueue(true, false); }));
}
TEST(OneLogProperty, OnABadDiskOrderHoldsAndNothingIsMadeUp) {
  EXPECT_TRUE(rc::check([] { CheckQueue(true, true); }));
}

}  // namespace
}  // namespace gpulens
