#include "proxy/loop_journal.h"

#include <mutex>
#include <utility>
#include <vector>

namespace gpulens::proxy {

// Thread-safe: filled by the writer, emptied on the loop.
class LoopJournal::Answers : public std::enable_shared_from_this<Answers> {
 public:
  explicit Answers(IoLoop& loop) : loop_(loop) {}

  void Add(Done done, Kept kept) {
    {
      std::lock_guard lock(mutex_);
      ready_.push_back({std::move(done), kept});
      if (ready_.size() > 1) return;  // a task is posted
    }
    loop_.Post([self = shared_from_this()] { self->CallAll(); });
  }

  // On the loop.
  void Close() { closed_ = true; }

 private:
  struct Answer {
    Done done;
    Kept kept;
  };

  void CallAll() {
    {
      std::lock_guard lock(mutex_);
      ready_.swap(called_);
    }
    for (const Answer& answer : called_) {
      if (!closed_) answer.done(answer.kept);
    }
    called_.clear();
  }

  IoLoop& loop_;
  bool closed_ = false;         // the loop's thread alone
  std::vector<Answer> called_;  // the loop's thread alone
  std::mutex mutex_;            // guards what follows
  std::vector<Answer> ready_;
};

LoopJournal::LoopJournal(IoLoop& loop, Journal& journal)
    : loop_(loop),
      journal_(journal),
      answers_(std::make_shared<Answers>(loop)),
      wakes_(std::make_shared<bool>(false)) {}

LoopJournal::~LoopJournal() {
  answers_->Close();
  if (*wakes_) journal_.Wake();
}

void LoopJournal::Begin(ChargeRecord record, Done done) {
  journal_.Begin(std::move(record), Answering(std::move(done)), Journal::Waking::kLater);
  WakeLater();
}

void LoopJournal::Settle(ChargeRecord record, Done done) {
  journal_.Settle(std::move(record), done ? Answering(std::move(done)) : nullptr, Journal::Waking::kLater);
  WakeLater();
}

Journal::Done LoopJournal::Answering(Done done) {
  return [answers = answers_, done = std::move(done)](Kept kept) mutable {
    answers->Add(std::move(done), kept);
  };
}

// After the events that the loop has at hand, of which each may hand over a record.
void LoopJournal::WakeLater() {
  if (std::exchange(*wakes_, true)) return;
  loop_.Post([this, wakes = std::weak_ptr<bool>(wakes_)] {
    const auto pending = wakes.lock();
    if (!pending) return;
    *pending = false;
    journal_.Wake();
  });
}

}  // namespace gpulens::proxy
