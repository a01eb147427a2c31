// The fields of one HTTP/2 header block, in order. A plain value; keeps its memory when cleared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gpulens {

class Http2Fields {
 public:
  struct Field {
    std::string_view name, value;
  };
  // What each field counts besides its letters, as SETTINGS_MAX_HEADER_LIST_SIZE has it.
  static constexpr size_t kOverhead = 32;

  // `name` in small letters. HTTP/2 knows no line ends; a value with one makes the whole block refused.
  void Add(std::string_view name, std::string_view value) {
    places_.push_back({text_.size(), name.size(), value.size()});
    text_.append(name).append(value);
  }
  void Clear() noexcept {
    text_.clear();
    places_.clear();
  }

  size_t size() const noexcept { return places_.size(); }
  size_t bytes() const noexcept { return text_.size() + places_.size() * kOverhead; }
  Field operator[](size_t i) const noexcept {
    const Place& place = places_[i];
    const std::string_view all = text_;
    return {all.substr(place.at, place.name), all.substr(place.at + place.name, place.value)};
  }
  // The value of the first such field; empty when there is none.
  std::string_view Find(std::string_view name) const noexcept {
    for (size_t i = 0; i < size(); ++i) {
      if (Field field = (*this)[i]; field.name == name) return field.value;
    }
    return {};
  }
  bool Has(std::string_view name) const noexcept {
    for (size_t i = 0; i < size(); ++i) {
      if ((*this)[i].name == name) return true;
    }
    return false;
  }

 private:
  struct Place {
    size_t at, name, value;
  };
  std::string text_;
  std::vector<Place> places_;
};

}  // namespace gpulens
