#include "wire/exposition/tick_page.h"

#include <utility>

namespace gpulens {

TickPage::Bytes TickPage::Ready(const Snapshot& snapshot, bool gzip) {
  return Take(gzip ? packed_ : plain_, snapshot.tick);
}

TickPage::Bytes TickPage::Take(Coding& coding, uint64_t tick) {
  std::lock_guard lock(mutex_);
  if (coding.tick != tick) return nullptr;
  coding.shared = true;
  coding.kept = coding.bytes.lock();
  return coding.kept;
}

// Bytes are about to be made. Those of an older tick are let go before room is taken for the new ones.
void TickPage::Begin(Coding& coding, uint64_t tick) {
  std::lock_guard lock(mutex_);
  if (coding.tick == tick) return;  // Once more, for a second taker.
  coding.kept = nullptr;
  coding.bytes.reset();  // A slow client may still hold them.
  coding.was_shared = std::exchange(coding.shared, false);
  coding.tick = tick;
}

void TickPage::Put(Coding& coding, const Bytes& bytes) {
  std::lock_guard lock(mutex_);
  coding.bytes = bytes;
  if (coding.shared || coding.was_shared) coding.kept = bytes;
}

TickPage::Bytes TickPage::Make(const Snapshot& snapshot, bool gzip) {
  std::lock_guard making(making_);
  if (Bytes ready = Ready(snapshot, gzip)) return ready;
  if (!gzip) return MakePlain(snapshot);
  Begin(packed_, snapshot.tick);
  Bytes plain = Ready(snapshot, false);
  if (!plain) plain = MakePlain(snapshot);
  auto text = std::make_shared<std::string>();
  gzip_.Compress(*plain, *text);
  Put(packed_, text);
  return text;
}

TickPage::Bytes TickPage::MakePlain(const Snapshot& snapshot) {
  Begin(plain_, snapshot.tick);
  auto text = std::make_shared<std::string>();
  text->reserve(room_);
  render_(snapshot, *text);
  // Capacity that a renderer reserved at once is kept; capacity that came from doubling is not.
  bool doubled = text->capacity() > text->size() + text->size() / 2;
  room_ = doubled ? text->size() + text->size() / 16 : text->capacity();
  Put(plain_, text);
  return text;
}

}  // namespace gpulens
