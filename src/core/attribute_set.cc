#include "core/attribute_set.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <deque>
#include <new>
#include <vector>

#include "base/check.h"
#include "base/hash.h"
#include "base/text.h"

namespace gpulens {
namespace {

// An attribute in the block: this header, the key, then the bytes of the value.
struct Head {
  uint32_t value_size;
  uint16_t key_size;
  uint16_t type;  // index in AttributeSet::Value
};
static_assert(sizeof(Head) == 8);

Head HeadAt(const char* at) noexcept {
  Head head;
  std::memcpy(&head, at, sizeof head);
  return head;
}

size_t ValueSize(const AttributeSet::Value& value) noexcept {
  if (const auto* text = std::get_if<std::string_view>(&value)) return text->size();
  return value.index() == 3 ? 1 : 8;
}

char* Write(char* at, const AttributeSet::Attribute& attribute) noexcept {
  Head head{static_cast<uint32_t>(ValueSize(attribute.value)), static_cast<uint16_t>(attribute.key.size()),
            static_cast<uint16_t>(attribute.value.index())};
  std::memcpy(at, &head, sizeof head);
  at += sizeof head;
  at += attribute.key.copy(at, attribute.key.size());
  std::visit(
      [&](const auto& value) {
        if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::string_view>) {
          value.copy(at, value.size());
        } else {
          std::memcpy(at, &value, sizeof value);
        }
      },
      attribute.value);
  return at + head.value_size;
}

bool IsText(const AttributeSet::Attribute& attribute) noexcept {
  const auto* text = std::get_if<std::string_view>(&attribute.value);
  return IsUtf8(attribute.key) && (!text || IsUtf8(*text));
}

// The size of the longest prefix of valid UTF-8 with at most `most` bytes and whole characters.
size_t WholeCharacters(std::string_view text, size_t most) noexcept {
  if (text.size() <= most) return text.size();
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xC0) == 0x80) --most;
  return most;
}

// The attributes in valid UTF-8; `rooms` holds the replaced texts.
std::vector<AttributeSet::Attribute> ValidAttributes(std::span<const AttributeSet::Attribute> attributes,
                                                     std::deque<std::string>& rooms) {
  std::vector<AttributeSet::Attribute> valid(attributes.begin(), attributes.end());
  for (AttributeSet::Attribute& attribute : valid) {
    const bool fits = attribute.key.size() <= UINT16_MAX;
    attribute.key = ValidUtf8(attribute.key, rooms.emplace_back());
    if (fits) attribute.key = attribute.key.substr(0, WholeCharacters(attribute.key, UINT16_MAX));
    if (auto* text = std::get_if<std::string_view>(&attribute.value))
      *text = ValidUtf8(*text, rooms.emplace_back());
  }
  return valid;
}

}  // namespace

Ref<const AttributeSet::Rep> AttributeSet::Rep::Make(std::span<const Attribute> sorted) {
  size_t bytes = 0;
  for (const Attribute& attribute : sorted) {
    CHECK(attribute.key.size() <= UINT16_MAX);
    bytes += sizeof(Head) + attribute.key.size() + ValueSize(attribute.value);
  }
  CHECK(bytes <= UINT32_MAX);
  Rep* rep = ::new (::operator new(sizeof(Rep) + bytes)) Rep;
  rep->bytes = static_cast<uint32_t>(bytes);
  rep->count = static_cast<uint32_t>(sorted.size());
  char* at = rep->data();
  for (const Attribute& attribute : sorted) at = Write(at, attribute);
  rep->hash = HashBytes({rep->data(), bytes}, 0, ProcessHashKey());
  return Ref<const Rep>(rep);
}

AttributeSet::Attribute AttributeSet::Iterator::operator*() const noexcept {
  Head head = HeadAt(at_);
  const char* key = at_ + sizeof head;
  const char* bytes = key + head.key_size;
  Attribute out{{key, head.key_size}, {}};
  switch (head.type) {
    case 0: out.value = std::string_view(bytes, head.value_size); break;
    case 1: {
      int64_t number;
      std::memcpy(&number, bytes, sizeof number);
      out.value = number;
      break;
    }
    case 2: {
      double number;
      std::memcpy(&number, bytes, sizeof number);
      out.value = number;
      break;
    }
    default: out.value = *bytes != 0;
  }
  return out;
}

AttributeSet::Iterator& AttributeSet::Iterator::operator++() noexcept {
  Head head = HeadAt(at_);
  at_ += sizeof head + head.key_size + head.value_size;
  return *this;
}

AttributeSet::AttributeSet(std::initializer_list<Attribute> attributes)
    : AttributeSet(std::span<const Attribute>(attributes.begin(), attributes.size())) {}

AttributeSet::AttributeSet(std::span<const Attribute> attributes) {
  if (attributes.empty()) return;
  if (!std::ranges::all_of(attributes, IsText)) {
    std::deque<std::string> rooms;
    const std::vector<Attribute> valid = ValidAttributes(attributes, rooms);
    *this = AttributeSet(std::span<const Attribute>(valid));
    return;
  }
  // By key, then by position. Not stable_sort: clang 19 rejects that of libstdc++ 12.
  std::vector<const Attribute*> order;
  order.reserve(attributes.size());
  for (const Attribute& attribute : attributes) order.push_back(&attribute);
  std::ranges::sort(order, [](const Attribute* a, const Attribute* b) {
    int keys = a->key.compare(b->key);
    return keys != 0 ? keys < 0 : a < b;
  });
  std::vector<Attribute> sorted;
  sorted.reserve(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    bool last_of_its_key = i + 1 == order.size() || order[i]->key != order[i + 1]->key;
    if (last_of_its_key) sorted.push_back(*order[i]);
  }
  rep_ = Rep::Make(sorted);
}

AttributeSet AttributeSet::OverlaidOn(const AttributeSet& weaker) const {
  if (weaker.empty()) return *this;
  if (empty()) return weaker;
  std::vector<Attribute> merged;
  for (Attribute attribute : weaker) merged.push_back(attribute);
  for (Attribute attribute : *this) merged.push_back(attribute);
  return AttributeSet(std::span<const Attribute>(merged));
}

AttributeSet::Iterator AttributeSet::begin() const noexcept {
  return Iterator(rep_ ? rep_->data() : nullptr);
}
AttributeSet::Iterator AttributeSet::end() const noexcept {
  return Iterator(rep_ ? rep_->data() + rep_->bytes : nullptr);
}
size_t AttributeSet::size() const noexcept { return rep_ ? rep_->count : 0; }
uint64_t AttributeSet::hash() const noexcept { return rep_ ? rep_->hash : 0; }

AttributeSet::Value AttributeSet::Find(std::string_view key, Value fallback) const noexcept {
  for (Attribute attribute : *this) {
    if (attribute.key == key) return attribute.value;
  }
  return fallback;
}

bool AttributeSet::Has(std::string_view key) const noexcept {
  for (Attribute attribute : *this) {
    if (attribute.key == key) return true;
  }
  return false;
}

std::string AttributeSet::Text(std::string_view key) const {
  std::string out;
  AppendValue(out, Find(key, std::string_view{}));
  return out;
}

bool operator==(const AttributeSet& a, const AttributeSet& b) noexcept {
  if (a.rep_ == b.rep_) return true;
  if (!a.rep_ || !b.rep_ || a.hash() != b.hash() || a.rep_->bytes != b.rep_->bytes) return false;
  return std::memcmp(a.rep_->data(), b.rep_->data(), a.rep_->bytes) == 0;
}

void AppendValue(std::string& out, const AttributeSet::Value& value) {
  std::visit(
      [&](const auto& v) {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, std::string_view>) {
          out += v;
        } else if constexpr (std::is_same_v<T, bool>) {
          out += v ? "true" : "false";
        } else {
          char text[32];
          auto [end, error] = std::to_chars(text, text + sizeof text, v);
          out.append(text, error == std::errc{} ? end : text);
        }
      },
      value);
}

}  // namespace gpulens
