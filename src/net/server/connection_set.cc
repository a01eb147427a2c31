#include "net/server/connection_set.h"

#include <algorithm>
#include <chrono>

namespace gpulens {
namespace {

constexpr int64_t kStalledNs = 1'000'000'000;
// Maximum delay of deadlines, so that a busy server does not re-arm its timer all the time.
constexpr int64_t kGrainNs = 10'000'000;

int64_t NowNs() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

}  // namespace

ConnectionSet::ConnectionSet(IoLoop& loop, std::array<Duration, kPhases> timeouts)
    : loop_(loop), timeouts_(timeouts) {}

ConnectionSet::~ConnectionSet() {
  empty_ = nullptr;
  CloseAll();
  if (timer_) loop_.Cancel(timer_);
}

void ConnectionSet::Link(Connection& connection, Phase phase) {
  List& list = lists_[static_cast<size_t>(phase)];
  connection.phase_ = phase;
  connection.entered_ns_ = NowNs();
  connection.before_ = list.last;
  connection.after_ = nullptr;
  (list.last ? list.last->after_ : list.first) = &connection;
  list.last = &connection;
  Duration timeout = timeouts_[static_cast<size_t>(phase)];
  if (timeout.count() > 0 && (timer_ == 0 || timer_at_ns_ > connection.entered_ns_ + timeout.count())) {
    Arm(connection.entered_ns_ + timeout.count());
  }
}

void ConnectionSet::Unlink(Connection& connection) {
  List& list = lists_[static_cast<size_t>(connection.phase_)];
  (connection.before_ ? connection.before_->after_ : list.first) = connection.after_;
  (connection.after_ ? connection.after_->before_ : list.last) = connection.before_;
  connection.before_ = connection.after_ = nullptr;
}

void ConnectionSet::Add(Connection& connection, Phase phase) {
  connection.Acquire();
  connection.member_ = true;
  ++size_;
  Link(connection, phase);
}

void ConnectionSet::Remove(Connection& connection) {
  if (!connection.member_) return;
  connection.member_ = false;
  Unlink(connection);
  --size_;
  connection.Release();
  if (size_ > 0 || !empty_) return;
  loop_.Post(std::exchange(empty_, nullptr));
}

void ConnectionSet::Enter(Connection& connection, Phase phase) {
  if (!connection.member_) return;
  Unlink(connection);
  Link(connection, phase);
}

bool ConnectionSet::CloseOne() {
  for (Phase phase : {Phase::kLinger, Phase::kRequest, Phase::kIdle, Phase::kWrite}) {
    Connection* oldest = lists_[static_cast<size_t>(phase)].first;
    if (!oldest || (phase == Phase::kWrite && NowNs() - oldest->entered_ns_ < kStalledNs)) continue;
    oldest->Close();
    return true;
  }
  return false;
}

void ConnectionSet::CloseAll() {
  for (List& list : lists_) {
    while (list.first) list.first->Close();
  }
}

void ConnectionSet::FinishAll() {
  for (List& list : lists_) {
    // FinishAndClose may unlink its own connection or move it to another list, never another one.
    for (Connection* each = list.first; each;) {
      Connection* next = each->after_;
      each->FinishAndClose();
      each = next;
    }
  }
}

void ConnectionSet::OnEmpty(std::function<void()> empty) {
  if (size_ == 0) return loop_.Post(std::move(empty));
  empty_ = std::move(empty);
}

void ConnectionSet::Arm(int64_t at_ns) {
  if (timer_) loop_.Cancel(timer_);
  timer_at_ns_ = at_ns;
  timer_ = loop_.After(Duration(std::max<int64_t>(at_ns - NowNs(), 0) + kGrainNs), [this] {
    timer_ = 0;
    Expire();
  });
}

void ConnectionSet::Expire() {
  int64_t next = 0;
  for (size_t i = 0; i < kPhases; ++i) {
    if (timeouts_[i].count() == 0) continue;
    // A connection that enters the same phase again has a later time, so this ends.
    int64_t now = NowNs();
    while (Connection* first = lists_[i].first) {
      int64_t due = first->entered_ns_ + timeouts_[i].count();
      if (due > now) {
        if (next == 0 || due < next) next = due;
        break;
      }
      Ref<Connection> guard(first);
      first->OnDeadline(static_cast<Phase>(i));
    }
  }
  if (next != 0 && (timer_ == 0 || timer_at_ns_ > next)) Arm(next);
}

}  // namespace gpulens
