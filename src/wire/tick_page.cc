#include "wire/tick_page.h"

namespace gpulens {

TickPage::Bytes TickPage::Ready(const Snapshot& snapshot, bool gzip) const {
  std::lock_guard lock(mutex_);
  if (made_for_ != snapshot.tick) return nullptr;
  return gzip ? packed_ : plain_;
}

TickPage::Bytes TickPage::Make(const Snapshot& snapshot, bool gzip) {
  std::lock_guard making(making_);
  if (Bytes ready = Ready(snapshot, gzip)) return ready;
  Bytes plain = Ready(snapshot, false), packed;
  if (!plain) {
    auto text = std::make_shared<std::string>();
    text->reserve(room_);
    render_(snapshot, *text);
    // What a renderer asks for at once is worth keeping; what a string took by doubling is not.
    bool doubled = text->capacity() > text->size() + text->size() / 2;
    room_ = doubled ? text->size() + text->size() / 16 : text->capacity();
    plain = std::move(text);
  }
  if (gzip) {
    auto text = std::make_shared<std::string>();
    gzip_.Compress(*plain, *text);
    packed = std::move(text);
  }
  std::lock_guard lock(mutex_);
  made_for_ = snapshot.tick;
  plain_ = plain;
  packed_ = packed;
  return gzip ? packed : plain;
}

}  // namespace gpulens
