// The journal as one loop uses it: records go to the writer, and its answers come back, several at a time, so
// that a busy loop wakes it once in a turn rather than for each request.
#pragma once

#include <functional>
#include <memory>

#include "net/io_loop.h"
#include "proxy/journal/journal.h"

namespace gpulens::proxy {

// On the loop's thread. Ends before the journal; answers that come later are dropped.
class LoopJournal {
 public:
  // Called on the loop.
  using Done = std::function<void(Kept)>;

  LoopJournal(IoLoop& loop, Journal& journal);
  ~LoopJournal();

  // As Journal has them.
  void Begin(ChargeRecord record, Done done);
  void Settle(ChargeRecord record, Done done);

 private:
  class Answers;
  Journal::Done Answering(Done done);
  void WakeLater();

  IoLoop& loop_;
  Journal& journal_;
  const std::shared_ptr<Answers> answers_;
  std::shared_ptr<bool> wakes_;  // whether a wake-up is posted; the posted task looks whether this has ended
};

}  // namespace gpulens::proxy
